//! HOT: received frames from the device.

use super::MemPort;
use crate::pool::{Batch, unposted};
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn rx_burst(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        let mut bytes = 0;
        let n = self.rx.recv_burst(frames.room(), |posted| {
            if let Some(frame) = posted.into_frame() {
                bytes += frame.len() as u64;
                // The burst is no larger than the batch's room.
                let _ = frames.push(frame);
            }
        });
        if n > 0 {
            unposted(w, &frames[before..]);
            self.counters.rx.add(n as u64);
            self.counters.rx_bytes.add(bytes);
        }
        n
    }
}
