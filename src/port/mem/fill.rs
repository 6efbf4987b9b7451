//! HOT: empty frames to the device.

use super::MemPort;
use crate::pool::Batch;
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn fill_burst(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let n = self.rx.room(frames.len());
        self.rx.post(w, frames, n);
        self.counters.filled.add(n as u64);
        n
    }
}
