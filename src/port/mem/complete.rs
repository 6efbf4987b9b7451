//! HOT: sent frames from the device.

use super::MemPort;
use crate::pool::Batch;
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn complete_burst(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let n = self.tx.claim(w, frames);
        if n > 0 {
            self.counters.completed.add(n as u64);
        }
        n
    }
}
