//! HOT: empty frames of the port's own pool to receive into.

use super::BouncePort;
use crate::pool::{Batch, Pool};
use crate::port::Fill;
use crate::port::queues::delegate;
use crate::sync::Worker;

impl Fill for BouncePort {
    delegate!(within
        fn fill_room(&mut self) -> usize;
        fn rx_posted(&self) -> usize;
    );

    /// Takes no frames: the device could read other data in their memory.
    #[cold]
    fn fill(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        self.counters.wrong_memory.add(frames.len() as u64);
        0
    }

    /// Fills frames of the port's own pool, whichever pool is given.
    #[inline]
    fn refill_to(&mut self, _w: &mut Worker, _pool: &Pool, most: usize) -> usize {
        // Transmission needs frames too.
        let most = most.min(self.pool.frames() / 2);
        self.within.refill_to(&mut self.worker, &self.pool, most)
    }

    fn own_pool(&self) -> Option<&Pool> {
        Some(&self.pool)
    }
}
