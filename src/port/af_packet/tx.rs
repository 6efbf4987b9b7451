//! HOT: frames to the socket.

use super::AfPacketLink;
use crate::limits::BATCH_MAX;
use crate::pool::Frame;
use crate::port::PortCounters;
use crate::port::virtio::header;
use crate::sys::errno::Errno;
use crate::sys::virtio::VirtioHeader;
use std::io::IoSlice;
use std::time::{Duration, Instant};

/// How long a frame is offered again for which the kernel reports that it has no buffer or no memory.
const PATIENCE: Duration = Duration::from_millis(5);

/// The frames that the kernel refused with ENOBUFS or ENOMEM. The kernel returns them in two cases: there is no room now,
/// or it drops this frame each time. A filter or the queueing discipline does so (ENOBUFS), and the stack if it cannot
/// cut the frame into segments (ENOMEM). In the second case the frame would hold up all later frames forever.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    /// The time since which the oldest frame is refused.
    since: Option<Instant>,
    /// The frame before it was given up.
    one_is_lost: bool,
    /// The frame behind the last one given up was sent at once. So there was room, and the next frame is not offered
    /// again.
    has_room: bool,
}

impl Refusals {
    fn is_sent(&mut self) {
        self.has_room |= std::mem::take(&mut self.one_is_lost);
        self.since = None;
    }

    /// Returns whether the oldest frame, which was refused now, is given up.
    #[cold]
    fn is_lost(&mut self) -> bool {
        if std::mem::take(&mut self.one_is_lost) {
            self.has_room = false;
        }
        let since = *self.since.get_or_insert_with(Instant::now);
        let is_lost = self.has_room || since.elapsed() >= PATIENCE;
        if is_lost {
            (self.since, self.one_is_lost) = (None, true);
        }
        is_lost
    }
}

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
                Ok(sent) => {
                    taken += sent;
                    self.refusals.is_sent();
                }
                Err(Errno::NOBUFS | Errno::NOMEM) if self.refusals.is_lost() => {
                    counters.tx_lost.add(1);
                    taken += 1;
                }
                // There is no room: the remaining frames stay with the caller.
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM | Errno::INTR) => break,
                // The interface does not send such a frame. It is taken; otherwise it would be offered forever.
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
