//! HOT: empty frames to the device.

use super::MemPort;
use crate::pool::Batch;
use crate::port::Fill;
use crate::sync::Worker;

impl Fill for MemPort {
    /// Free slots; 0 without a device.
    fn fill_room(&mut self) -> usize {
        if self.end.is_device_gone() { 0 } else { self.rx.room(usize::MAX) }
    }

    #[inline]
    fn fill(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = if self.end.is_device_gone() { 0 } else { self.rx.room(frames.len()) };
        frames.empty_first(n);
        self.rx.post(w, frames, n);
        self.counters.filled.add(n as u64);
        n
    }

    fn rx_posted(&self) -> usize {
        self.rx.inside()
    }
}
