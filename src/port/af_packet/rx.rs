//! HOT: frames from the socket.

use super::AfPacketLink;
use crate::limits::BATCH_MAX;
use crate::port::PortCounters;
use crate::port::copying::{RxBuffer, RxBuffers};
use crate::port::virtio::{Received, put_back};
use crate::sys::errno::Errno;
use crate::sys::packet as sys;
use crate::wire::offload::Offload;
use std::io::IoSliceMut;

/// Frames that are asked for when none was there.
const FEW: usize = 8;

impl AfPacketLink {
    pub(super) fn receive_burst(&mut self, rooms: &mut RxBuffers<'_>, counters: &PortCounters) -> usize {
        if !self.link.is_up() {
            return 0;
        }
        if !self.uncut.is_empty() {
            return self.uncut.fill(rooms, 0, counters);
        }
        let want = rooms.len().min(self.burst);
        let mut received = [sys::Received::default(); BATCH_MAX];
        let done = {
            let mut open = rooms.iter_mut().take(want).map(RxBuffer::whole).zip(self.uncut.beyond());
            let mut parts = [(); BATCH_MAX].map(|()| {
                let (room, beyond) = open.next().unwrap_or_default();
                [room, beyond].map(IoSliceMut::new)
            });
            self.socket.receive(&mut parts[..want], &mut received)
        };
        let got = done.unwrap_or_else(|errno| self.lost(errno, counters));
        self.burst = if got == want { (2 * want).clamp(FEW, BATCH_MAX) } else { got.max(FEW) };
        self.taken += got as u64;
        let mut good = 0;
        for (i, one) in received[..got].iter().enumerate() {
            if rooms.get(i).is_some_and(|mut room| self.is_whole(&mut room, i, one, counters)) {
                rooms.swap(good, i);
                good += 1;
            }
        }
        for mut room in rooms.iter_mut().take(want).skip(good) {
            // To nothing, which is always less than there is.
            let _ = room.trim(0);
        }
        if self.uncut.is_empty() { good } else { self.uncut.fill(rooms, good, counters) }
    }

    /// The call failed: nothing came, or one that the kernel could not give.
    #[cold]
    fn lost(&mut self, errno: Errno, counters: &PortCounters) -> usize {
        match errno {
            Errno::INVAL => counters.rx_dropped.add(1),
            _ => self.link.heed(errno),
        }
        0
    }

    /// Makes a frame what was received as number `i` of a burst; false where it is none yet, or none at all, which is counted.
    #[inline]
    fn is_whole(
        &mut self,
        room: &mut RxBuffer<'_>,
        i: usize,
        received: &sys::Received,
        counters: &PortCounters,
    ) -> bool {
        if received.is_cut {
            counters.rx_too_long.add(1);
            return false;
        }
        if Offload::is_in(&received.header) || received.len > room.len() || !self.uncut.is_empty() {
            let sys::Received { len, header, tag, .. } = *received;
            return self.uncut.settle(
                i,
                room,
                Received { len, tag, header, keeps: self.keeps_offloads },
                counters,
            );
        }
        // No longer than its room.
        let _ = room.trim(received.len);
        let Some(tag) = received.tag else { return true };
        put_back(room, tag).inspect_err(|_| counters.rx_dropped.add(1)).is_ok()
    }
}
