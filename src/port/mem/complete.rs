//! HOT: sent frames from the device.

use super::MemPort;
use crate::pool::Batch;
use crate::port::Complete;
use crate::sync::Worker;

impl Complete for MemPort {
    #[inline]
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.tx.claim(w, frames);
        if n > 0 {
            self.counters.completed.add(n as u64);
        }
        n
    }
}
