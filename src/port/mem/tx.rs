//! HOT: full frames to the device.

use super::{MemPort, Posted};
use crate::pool::{Batch, posted};
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn tx_burst(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.tx.room(frames.len());
        if n > 0 {
            posted(w, &frames[..n]);
            let bytes: usize = frames[..n].iter().map(|frame| frame.len()).sum();
            self.tx.send_burst(n, &mut frames.drain().map(Posted::new));
            self.counters.tx.add(n as u64);
            self.counters.tx_bytes.add(bytes as u64);
        }
        n
    }
}
