//! HOT: empty frames to the device.

use super::{MemPort, Posted};
use crate::pool::{Batch, posted};
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn fill_burst(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.fill.room(frames.len());
        posted(w, &frames[..n]);
        self.fill.send_burst(n, &mut frames.drain().map(Posted::new));
        self.counters.filled.add(n as u64);
        n
    }
}
