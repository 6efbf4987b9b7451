//! HOT: empty frames of the port's own pool to receive into.

use super::BouncePort;
use crate::pool::Batch;

impl BouncePort {
    /// Takes no frames: the device could read other data in their memory.
    #[cold]
    pub(super) fn refuse(&mut self, frames: &Batch) {
        self.counters.wrong_memory.add(frames.len() as u64);
    }

    /// Posts frames of the port's own pool.
    #[inline]
    pub(super) fn refill_own(&mut self, most: usize) -> usize {
        let most = self.posted_max(most);
        self.within.refill_to(&mut self.worker, &self.pool, most)
    }

    pub(super) fn lacks_own(&mut self, most: usize) -> bool {
        self.within.rx_posted() < self.posted_max(most) && self.within.fill_room() > 0
    }

    /// Transmission needs frames of the pool too.
    #[inline]
    fn posted_max(&self, most: usize) -> usize {
        most.min(self.pool.frames() / 2)
    }
}
