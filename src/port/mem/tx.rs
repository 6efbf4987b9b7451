//! HOT: full frames to the device.

use super::MemPort;
use crate::pool::Batch;
use crate::port::Tx;
use crate::sync::Worker;

impl Tx for MemPort {
    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = if self.end.is_device_gone() { 0 } else { self.tx.room(frames.len()) };
        if n > 0 {
            self.counters.tx.add(n as u64);
            self.counters.tx_bytes.add(frames[..n].iter().map(|frame| frame.len() as u64).sum());
            frames.sync_for_device(w, n);
            self.tx.post(w, frames, n);
            // About as many frames will be sent next.
            self.tx.prefetch_room(n);
        }
        n
    }

    fn tx_posted(&self) -> usize {
        self.tx.inside()
    }

    fn can_retry_tx(&self) -> bool {
        self.tx_posted() > 0 && !self.end.is_device_gone()
    }
}
