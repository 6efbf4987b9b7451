//! What was wrong with a call to the lab: one line each, with what would be right.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A call that was refused before anything was measured, or a file that could not be read or written.
#[derive(Debug)]
pub enum LabError {
    /// No experiment of this name.
    UnknownExperiment {
        /// The name as given; empty when none was given.
        name: String,
        /// The names that exist.
        valid: Vec<&'static str>,
    },
    /// A setting that is not of the form `key=value`.
    NotASetting {
        /// The text as given.
        text: String,
    },
    /// A key that none of the chosen experiments knows.
    UnknownKey {
        /// The key as given.
        key: String,
        /// The keys that the chosen experiments know.
        valid: Vec<&'static str>,
    },
    /// A value that is not a whole number in the key's range.
    BadValue {
        /// The key.
        key: &'static str,
        /// The value as given.
        value: String,
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// A file is not what `netmem lab run --json` writes.
    Input {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A file of the lab cannot be written.
    Output {
        /// Where it should have gone.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Nothing to make a page of.
    NoReports {
        /// Where none was found.
        from: Vec<PathBuf>,
    },
    /// The page would take the place of its own input.
    OutputIsInput {
        /// The file that is both.
        path: PathBuf,
    },
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownExperiment { name, valid } if name.is_empty() => {
                write!(f, "no experiment named: valid are {}, all", valid.join(", "))
            }
            Self::UnknownExperiment { name, valid } => {
                write!(f, "unknown experiment {name:?}: valid are {}, all", valid.join(", "))
            }
            Self::NotASetting { text } => write!(f, "bad setting {text:?}: write it as key=value"),
            Self::UnknownKey { key, valid } => {
                write!(f, "unknown key {key:?}: valid are {}", valid.join(", "))
            }
            Self::BadValue { key, value, min, max } => {
                write!(f, "bad value {value:?} for {key}: give a whole number from {min} to {max}")
            }
            Self::Input { path, cause } => {
                write!(
                    f,
                    "cannot read {}: {cause}; name a file that netmem lab run --json wrote",
                    path.display()
                )
            }
            Self::Output { path, source } => {
                write!(f, "cannot write {}: {source}; name a file that can be written", path.display())
            }
            Self::NoReports { from } => {
                let from: Vec<String> = from.iter().map(|path| path.display().to_string()).collect();
                let from = from.join(", ");
                write!(f, "no report in {from}: make one with netmem lab run all --json FILE")
            }
            Self::OutputIsInput { path } => {
                write!(f, "{} is an input of the page: give --out another name", path.display())
            }
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Output { source, .. } => Some(source),
            _ => None,
        }
    }
}
