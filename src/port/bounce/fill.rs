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
        let most = self.posted_max(most);
        self.within.refill_to(&mut self.worker, &self.pool, most)
    }

    fn lacks_frames(&mut self, most: usize) -> bool {
        self.within.rx_posted() < self.posted_max(most) && self.within.fill_room() > 0
    }

    fn own_pool(&self) -> Option<&Pool> {
        Some(&self.pool)
    }
}

impl BouncePort {
    /// Transmission needs frames of the pool too.
    #[inline]
    fn posted_max(&self, most: usize) -> usize {
        most.min(self.pool.frames() / 2)
    }
}
