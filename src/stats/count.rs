//! Counters with one writer each, readable from any thread.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// A counter that one thread writes, with its [`Writer`](super::Writer), and that any thread reads; it wraps at 2^64.
///
/// Most accesses are Relaxed: a reader sees some recent value. Sums over several counters are exact only at a quiescent
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

    /// Adds `n` as [`Count::add`] does. A thread that sees it by [`Count::get_first`] also sees what the writer counted
    /// before it.
    #[inline(always)]
    pub(crate) fn add_last(&self, n: u64) {
        // Release: pairs with the Acquire in `get_first`.
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Release);
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

    /// The value, read before all that the thread reads next.
    #[inline]
    pub(crate) fn get_first(&self) -> u64 {
        // Acquire: pairs with the Release in `add_last`.
        self.0.load(Acquire)
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
