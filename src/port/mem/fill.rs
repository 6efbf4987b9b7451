//! HOT: empty frames to the device.

use super::MemPort;
use crate::pool::Batch;
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn fill_burst(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let n = self.fill.ring.room(frames.len());
        self.fill.post(w, frames, n, &mut self.filled);
        self.counters.filled.add(n as u64);
        n
    }
}
