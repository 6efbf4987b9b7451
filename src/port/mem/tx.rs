//! HOT: full frames to the device.

use super::MemPort;
use crate::pool::Batch;
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn tx_burst(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let offered: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
        let n = self.tx.post(w, frames, &mut self.sent);
        if n > 0 {
            let left: u64 = frames.iter().map(|frame| frame.len() as u64).sum();
            self.counters.tx.add(n as u64);
            self.counters.tx_bytes.add(offered - left);
        }
        n
    }
}
