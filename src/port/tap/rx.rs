//! HOT: frames that the host sent.

use super::TapLink;
use crate::pool::Frame;
use crate::port::PortCounters;

impl TapLink {
    pub(super) fn receive_burst(&mut self, frames: &mut [Frame], counters: &PortCounters) -> usize {
        let mut n = 0;
        while n < frames.len() && self.link.is_up() {
            let frame = &mut frames[n];
            let room = frame.tailroom();
            // There is as much.
            let read = self.queue.receive(frame.put(room).unwrap_or_default());
            let len = match read {
                Ok(Some(len)) if len <= room => Some(len),
                Ok(Some(_)) => {
                    counters.rx_too_long.add(1);
                    None
                }
                Ok(None) => None,
                Err(errno) => {
                    self.link.heed(errno);
                    None
                }
            };
            // No longer than the room; to nothing where no whole frame came.
            let _ = frame.trim(len.unwrap_or(0));
            n += usize::from(len.is_some());
            if !matches!(read, Ok(Some(_))) {
                break;
            }
        }
        n
    }
}
