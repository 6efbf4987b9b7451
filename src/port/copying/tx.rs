//! HOT: bytes out.

use super::{CopyingPort, Device};
use crate::pool::{Batch, Place};
use crate::port::Tx;
use crate::sync::Worker;

impl<D: Device> Tx for CopyingPort<D> {
    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let want = frames.len().min(self.size - self.sent.len());
        if want == 0 {
            return 0;
        }
        let n = self.device.send(&frames[..want], &self.counters).min(want);
        self.counters.tx.add(n as u64);
        self.counters.copied.add(n as u64);
        self.counters.tx_bytes.add(frames[..n].iter().map(|frame| frame.len() as u64).sum());
        Place::Posted.enter_batch(w, frames, n);
        self.sent.extend(frames.hand_over(Place::Posted, w, n));
        n
    }

    fn tx_posted(&self) -> usize {
        self.sent.len()
    }

    fn can_retry_tx(&self) -> bool {
        self.device.can_retry_tx()
    }
}
