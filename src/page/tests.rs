//! Tests of the page stage against a model, and of its edge cases.

#[cfg(not(loom))]
mod edges;
#[cfg(not(loom))]
mod failure;
#[cfg(not(loom))]
mod knee;
mod interleavings;
#[cfg(not(loom))]
mod model;
#[cfg(not(loom))]
mod nodes;
#[cfg(not(loom))]
mod share;
#[cfg(not(loom))]
mod tuning;

use super::{Memory, MemoryConfig, Page};
use crate::sync::Worker;
use crate::sys::region::BackingPreference;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Makes one allocation fail.
#[derive(Debug)]
pub(crate) struct Refusal(AtomicUsize);

const NEVER: usize = usize::MAX;

impl Default for Refusal {
    fn default() -> Self {
        Refusal(AtomicUsize::new(NEVER))
    }
}

impl Refusal {
    /// Refuses the `n`-th block requested from the nodes from now on, once.
    pub(crate) fn set(&self, n: usize) {
        self.0.store(n, Relaxed);
    }

    /// Whether the failure has come. None comes from now on.
    pub(crate) fn take(&self) -> bool {
        self.0.swap(NEVER, Relaxed) == NEVER
    }

    /// How many of `want` blocks may be had now.
    pub(crate) fn granted(&self, want: usize) -> usize {
        let left = self.0.load(Relaxed);
        match left {
            NEVER => want,
            0 => {
                self.0.store(NEVER, Relaxed);
                0
            }
            _ => {
                let granted = want.min(left);
                self.0.store(left - granted, Relaxed);
                granted
            }
        }
    }
}

/// Small pages, so that a test takes no huge ones from others.
fn config(mib: usize, workers: usize) -> MemoryConfig {
    MemoryConfig { bytes: mib << 20, workers, backing: BackingPreference::Small, ..MemoryConfig::default() }
}

fn memory(mib: usize, workers: usize) -> Memory {
    Memory::new(&config(mib, workers)).unwrap()
}

/// Takes single pages until there are no more.
fn take_all(memory: &Memory, w: &mut Worker) -> Vec<Page> {
    std::iter::from_fn(|| memory.alloc(w, 0)).collect()
}

/// An array of empty slots.
fn places(n: usize) -> Vec<Option<Page>> {
    (0..n).map(|_| None).collect()
}
