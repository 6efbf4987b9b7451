//! HOT: full frames to the device.

use super::MemPort;
use crate::pool::Batch;
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn tx_burst(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let n = self.tx.room(frames.len());
        if n > 0 {
            self.counters.tx.add(n as u64);
            self.counters.tx_bytes.add(frames[..n].iter().map(|frame| frame.len() as u64).sum());
            self.tx.post(w, frames, n);
            // About as many will be sent next.
            self.tx.prefetch_room(n);
        }
        n
    }
}
