//! Counters with one writer each, readable from any thread.

use crate::sync::{Roster, Worker};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter that wraps at 2^64, written by one thread and read by any.
///
/// Relaxed throughout: a reader sees some recent value; sums over several counters are exact only at a
/// quiescent point.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`; only the counter's one writer may call it, or counts get lost.
    ///
    /// # Cost
    /// A load and a store, no locked instruction.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Adds `n` from any thread: one locked instruction.
    #[inline]
    pub fn add_shared(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    /// Replaces the value; only the counter's one writer may call it.
    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// One set of counters `G` for each worker of a memory, and one for everybody else.
#[derive(Debug)]
pub(crate) struct Lanes<G> {
    domain: u64,
    lanes: Box<[CachePadded<G>]>,
    shared: CachePadded<G>,
}

impl<G: Default> Lanes<G> {
    pub(crate) fn new(roster: &Roster) -> Self {
        let lanes = (0..roster.workers()).map(|_| CachePadded::default()).collect();
        Lanes { domain: roster.domain(), lanes, shared: CachePadded::default() }
    }

    /// This worker's own counters; None for a worker of another memory.
    #[inline(always)]
    pub(crate) fn of(&self, worker: &Worker) -> Option<&G> {
        self.lanes.get((worker.key() ^ self.domain) as usize).map(|lane| &**lane)
    }

    /// The counters of everybody who has no own: count there with [`Count::add_shared`].
    pub(crate) fn shared(&self) -> &G {
        &self.shared
    }

    /// Adds to the counter that `pick` names, in the worker's own lane where it has one.
    #[inline(always)]
    pub(crate) fn add(&self, worker: &Worker, n: u64, pick: impl Fn(&G) -> &Count) {
        match self.of(worker) {
            Some(lane) => pick(lane).add(n),
            None => pick(&self.shared).add_shared(n),
        }
    }

    /// Every worker's counters, by slot.
    pub(crate) fn each(&self) -> impl Iterator<Item = &G> {
        self.lanes.iter().map(|lane| &**lane)
    }

    /// The wrapping sum of one counter over all lanes.
    pub(crate) fn sum(&self, pick: impl Fn(&G) -> &Count) -> u64 {
        let lanes = self.lanes.iter().chain(std::iter::once(&self.shared));
        lanes.fold(0, |sum, lane| sum.wrapping_add(pick(lane).get()))
    }
}
