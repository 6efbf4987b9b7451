//! HOT: sent frames from the device.

use super::MemPort;
use crate::pool::{Batch, unposted};
use crate::sync::Worker;

impl MemPort {
    #[inline]
    pub(super) fn complete_burst(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        let n = self.complete.recv_burst(frames.room(), |posted| {
            // The burst is no larger than the batch's room.
            let _ = posted.into_frame().map(|frame| frames.push(frame));
        });
        if n > 0 {
            unposted(w, &frames[before..]);
            self.counters.completed.add(n as u64);
        }
        n
    }
}
