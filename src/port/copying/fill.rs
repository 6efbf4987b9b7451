//! HOT: empty frames to receive into.

use super::{CopyingPort, Device};
use crate::pool::{Batch, FrameState};
use crate::port::Fill;
use crate::sync::Worker;

impl<D: Device> Fill for CopyingPort<D> {
    #[inline]
    fn fill_room(&mut self) -> usize {
        self.size - self.filled.len()
    }

    #[inline]
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = frames.len().min(self.size - self.filled.len());
        frames.empty_first(n);
        FrameState::Posted.enter_batch(w, frames, n);
        self.filled.extend(frames.hand_over(FrameState::Posted, w, n));
        self.counters.filled.add(n as u64);
        n
    }

    fn rx_posted(&self) -> usize {
        self.filled.len()
    }
}
