//! HOT: completions of sent frames.

use super::{CopyingPort, Device};
use crate::pool::{Batch, FrameState};
use crate::port::Complete;
use crate::sync::Worker;

impl<D: Device> Complete for CopyingPort<D> {
    #[inline]
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let (before, n) = (frames.len(), frames.room().min(self.sent.len()));
        if n == 0 {
            return 0;
        }
        for frame in self.sent.drain(self.sent.len() - n..) {
            // There is room: no more frames were taken.
            let _ = frames.push(frame);
        }
        frames.taken_back(FrameState::Posted, w, before);
        FrameState::Posted.leave_last(w, frames, n);
        self.counters.completed.add(n as u64);
        n
    }
}
