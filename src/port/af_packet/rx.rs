//! HOT: frames from the socket.

use super::AfPacketLink;
use crate::limits::BATCH_MAX;
use crate::port::PortCounters;
use crate::port::copying::RxBuffers;
use crate::port::spread::FRAMES;
use crate::port::virtio::{Received, frames_each, parts};
use crate::sys::errno::Errno;
use crate::sys::packet as sys;
use std::io::IoSliceMut;

/// Number of frames to ask for after a call that found none.
const FEW: usize = 8;

impl AfPacketLink {
    pub(super) fn receive_burst(&mut self, rooms: &mut RxBuffers<'_>, counters: &PortCounters) -> usize {
        // An interface that is down or was removed has left packets in the socket's buffer.
        if self.link.is_failed() {
            return 0;
        }
        if !self.uncut.is_empty() {
            return self.uncut.fill(rooms, 0, counters);
        }
        if let Some(left) = &mut self.left {
            left.refresh();
        }
        let among = 0..rooms.len().max(FRAMES);
        let each = frames_each(rooms, among, self.keeps_offloads);
        let want = (rooms.len() / each).min(self.burst);
        let mut received = [sys::Received::default(); BATCH_MAX];
        let done = {
            let (mut open, mut beyond) = (rooms.iter_mut(), self.uncut.beyond());
            let mut parts: [_; BATCH_MAX] = std::array::from_fn(|i| {
                let beyond = if i < want { beyond.next() } else { None };
                let parts = beyond.map(|beyond| parts(each, &mut open, beyond));
                parts.unwrap_or_default().map(IoSliceMut::new)
            });
            self.socket.receive(&mut parts[..want], &mut received)
        };
        let got = done.unwrap_or_else(|errno| self.lost(errno, counters));
        self.burst = if got == want { (2 * want).clamp(FEW, BATCH_MAX) } else { got.max(FEW) };
        self.backlog.take(got);
        let mut good = 0;
        for (i, one) in received[..got].iter().enumerate() {
            let first = i * each;
            for at in 0..self.land(i, (first, each), rooms, one, counters) {
                rooms.swap(good, first + at);
                good += 1;
            }
        }
        for mut room in rooms.iter_mut().take(want * each).skip(good) {
            // Trimming to 0 bytes always succeeds.
            let _ = room.trim(0);
        }
        if self.uncut.is_empty() { good } else { self.uncut.fill(rooms, good, counters) }
    }

    /// Turns number `i` of a received burst into frames ([`Uncut::land`](crate::port::uncut::Uncut)). Returns their
    /// number.
    #[inline]
    fn land(
        &mut self,
        i: usize,
        place: (usize, usize),
        rooms: &mut RxBuffers<'_>,
        received: &sys::Received,
        counters: &PortCounters,
    ) -> usize {
        let sys::Received { len, is_cut, header, tag, time } = *received;
        if is_cut {
            counters.rx_too_long.add(1);
            return 0;
        }
        if let (Some(left), Some(mut room)) = (&self.left, rooms.get(place.0)) {
            let data = room.data_mut();
            if left.contains(&data[..len.min(data.len())]) {
                counters.rx_kernel.add(1);
                return 0;
            }
        }
        let received = Received { len, tag, header, keeps: self.keeps_offloads, time };
        self.uncut.land(i, place, rooms, received, counters)
    }

    /// The call failed: no packet came, or the kernel could not return one.
    #[cold]
    fn lost(&mut self, errno: Errno, counters: &PortCounters) -> usize {
        match errno {
            // The kernel has taken it out of the buffer. Its virtio header cannot say how the packet is to be cut.
            Errno::INVAL => {
                self.uncut.has_refused = true;
                self.backlog.take(1);
                counters.rx_dropped.add(1);
            }
            _ => self.link.heed(errno),
        }
        0
    }
}
