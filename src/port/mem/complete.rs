//! HOT: sent frames from the device.

use super::MemPort;
use crate::pool::Batch;
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn complete_burst(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let n = self.complete.claim(w, frames, &mut self.sent);
        if n > 0 {
            // The device took as many out of the transmit ring.
            self.tx.ring.credit(n);
            self.counters.completed.add(n as u64);
        }
        n
    }
}
