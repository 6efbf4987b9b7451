//! HOT: received frames from the device.

use super::MemPort;
use crate::pool::Batch;
use crate::port::Rx;
use crate::sync::Worker;

impl Rx for MemPort {
    #[inline]
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        let n = self.rx.claim(w, frames);
        if n > 0 {
            frames.sync_for_cpu(w, before);
            self.counters.rx.add(n as u64);
            self.counters.rx_bytes.add(frames[before..].iter().map(|frame| frame.len() as u64).sum());
        }
        n
    }
}
