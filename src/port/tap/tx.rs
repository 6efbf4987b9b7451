//! HOT: frames for the host to receive.

use super::TapLink;
use crate::pool::Frame;
use crate::port::PortCounters;
use crate::port::virtio::header;
use crate::sys::errno::Errno;

impl TapLink {
    pub(super) fn send_burst(&mut self, frames: &[Frame], counters: &PortCounters) -> usize {
        for (i, frame) in frames.iter().enumerate() {
            if !self.link.is_up() {
                return i;
            }
            match self.queue.send(&header(frame), frame.data()) {
                Ok(true) => {}
                // There is no room: the remaining frames stay with the caller.
                Ok(false) | Err(Errno::NOBUFS | Errno::NOMEM) => return i,
                // An interface cannot receive such a frame. It is taken; otherwise it would be offered forever.
                Err(Errno::INVAL | Errno::MSGSIZE) => counters.tx_invalid.add(1),
                Err(errno) => {
                    self.link.heed(errno);
                    return i;
                }
            }
        }
        frames.len()
    }
}
