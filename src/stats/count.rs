//! Counters with one writer each, readable from any thread.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that one thread writes, with its [`Writer`](super::Writer), and that any thread reads; it wraps at 2^64.
///
/// All accesses are Relaxed: a reader sees some recent value. Sums over several counters are exact only at a quiescent
/// point.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`. Only the counter's one writer may call it; otherwise counts are lost.
    ///
    /// # Cost
    /// A load and a store, no locked instruction.
    #[inline(always)]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds `n` from any thread: one locked instruction.
    #[inline]
    pub(crate) fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Replaces the value. Only the counter's one writer may call it.
    #[inline(always)]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Adds what another count has grown to `now` since the last call. `seen` has its value of then.
    #[inline]
    pub(crate) fn follow(&self, now: u64, seen: &Count) {
        self.add(now.wrapping_sub(seen.get()));
        seen.set(now);
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
