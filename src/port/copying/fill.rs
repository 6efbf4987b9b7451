//! HOT: empty frames to receive into.

use super::{CopyingPort, Device};
use crate::pool::{Batch, Place};
use crate::sync::Worker;

impl<D: Device> CopyingPort<D> {
    #[inline]
    pub(super) fn fill_burst(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        let n = frames.len().min(self.size - self.filled.len());
        Place::Posted.enter_batch(w, frames, n);
        self.filled.extend(frames.hand_over(Place::Posted, w, n));
        self.counters.filled.add(n as u64);
        n
    }
}
