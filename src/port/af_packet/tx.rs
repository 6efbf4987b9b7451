//! HOT: frames to the socket.

use super::AfPacketLink;
use crate::limits::BATCH_MAX;
use crate::pool::Frame;
use crate::port::PortCounters;
use crate::port::virtio::header;
use crate::sys::errno::Errno;
use crate::sys::virtio::VirtioHeader;
use std::io::IoSlice;

impl AfPacketLink {
    pub(super) fn send_burst(&mut self, frames: &[Frame], counters: &PortCounters) -> usize {
        let mut taken = 0;
        while taken < frames.len() && self.link.is_up() {
            let rest = &frames[taken..];
            let parts: [(VirtioHeader, IoSlice<'_>); BATCH_MAX] =
                std::array::from_fn(|i| match rest.get(i) {
                    Some(frame) => (header(frame), IoSlice::new(frame.data())),
                    None => (VirtioHeader::default(), IoSlice::new(&[])),
                });
            match self.socket.send(&parts[..rest.len().min(BATCH_MAX)]) {
                Ok(0) => break,
                Ok(sent) => taken += sent,
                // There is no room: what is left stays with the caller.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => break,
                // The interface sends no such frame. It is taken, or it would be offered for ever.
                Err(Errno::INVAL | Errno::MSGSIZE) => {
                    counters.tx_invalid.add(1);
                    taken += 1;
                }
                Err(errno) => {
                    self.link.heed(errno);
                    break;
                }
            }
        }
        taken
    }
}
