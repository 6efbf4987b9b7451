//! A line of a journal: a change, and the network namespace in which it was made.

use crate::change::Change;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;

/// A line. An older version wrote only the change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Line {
    #[serde(flatten)]
    pub change: Change,
    /// The number of the network namespace (its inode), or None if it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_namespace: Option<u64>,
}

impl Line {
    /// Returns the line of a change that this thread makes.
    pub fn of(change: Change) -> Line {
        Line { change, network_namespace: here() }
    }

    /// Returns the number of the namespace in which the change has to be undone, if this is another one.
    pub fn elsewhere(&self) -> Option<u64> {
        let (made, here) = (self.network_namespace?, here()?);
        Some(made).filter(|made| *made != here && self.change.is_of_a_network_namespace())
    }
}

/// Returns the number of this thread's network namespace. Its commands run there, and /proc/sys/net shows its settings.
fn here() -> Option<u64> {
    fs::metadata("/proc/thread-self/ns/net").ok().map(|file| file.ino())
}
