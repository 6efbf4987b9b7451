//! Counters kept for each worker and summed when they are read.

use super::Count;
use crate::sync::{PerWorker, Worker};
use std::iter;

/// Counters `G` for each worker, if there is no other state to keep.
pub(crate) type Lanes<G> = PerWorker<(), G>;

impl<L, G> PerWorker<L, G> {
    /// Adds to the counter that `pick` returns, in the worker's own lane if it has one.
    #[inline(always)]
    pub(crate) fn add(&self, worker: &Worker, n: u64, pick: impl Fn(&G) -> &Count) {
        match self.lane(worker) {
            Some(lane) => pick(lane).add(n),
            None => pick(self.shared_lane()).add_shared(n),
        }
    }

    /// The wrapping sum of one counter over all workers and over callers that are not workers.
    pub(crate) fn sum(&self, pick: impl Fn(&G) -> &Count) -> u64 {
        let lanes = self.each().chain(iter::once(self.shared_lane()));
        lanes.fold(0, |sum, lane| sum.wrapping_add(pick(lane).get()))
    }
}
