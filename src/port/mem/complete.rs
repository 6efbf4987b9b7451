//! HOT: sent frames from the device.

use super::MemPort;
use crate::pool::Batch;
use crate::port::Complete;
use crate::sync::Worker;

impl Complete for MemPort {
    /// Without a device, all frames that were given to it come back.
    #[inline]
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut n = self.tx.claim(w, frames);
        if n == 0 && self.end.is_device_gone() {
            n = self.complete_unsent(w, frames);
        }
        if n > 0 {
            self.counters.completed.add(n as u64);
        }
        n
    }
}

impl MemPort {
    #[cold]
    #[inline(never)]
    fn complete_unsent(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        self.counters.tx_lost.add(self.end.take_back() as u64);
        self.tx.claim(w, frames)
    }
}
