//! HOT: empty frames of the own pool to receive into.

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

    /// Takes none: the device could see what else lies in their memory.
    #[cold]
    fn fill(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        self.counters.foreign.add(frames.len() as u64);
        0
    }

    /// Of the own pool, whichever is given.
    #[inline]
    fn refill_to(&mut self, _w: &mut Worker, _pool: &Pool, most: usize) -> usize {
        // What is sent needs frames too.
        let most = most.min(self.pool.frames() / 2);
        self.within.refill_to(&mut self.worker, &self.pool, most)
    }

    fn own_pool(&self) -> Option<&Pool> {
        Some(&self.pool)
    }
}
