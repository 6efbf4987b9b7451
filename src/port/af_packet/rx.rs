//! HOT: frames from the socket.

use super::AfPacketLink;
use crate::limits::BATCH_MAX;
use crate::pool::NoRoom;
use crate::port::PortCounters;
use crate::port::copying::{RxBuffer, RxBuffers};
use crate::port::uncut::insert;
use crate::sys::errno::Errno;
use crate::sys::packet::Received;
use crate::wire::ethernet::ADDRESSES_LEN;
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
            return self.cut(rooms, 0, counters);
        }
        let want = rooms.len().min(self.burst);
        let mut received = [Received::default(); BATCH_MAX];
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
        if self.uncut.is_empty() { good } else { self.cut(rooms, good, counters) }
    }

    /// Puts what waits into `rooms`, which are empty from the one at `n` on, as far as there are any; returns how many have data
    /// then.
    #[cold]
    #[inline(never)]
    fn cut(&mut self, rooms: &mut RxBuffers<'_>, mut n: usize, counters: &PortCounters) -> usize {
        while let (Some(len), Some(mut room)) = (self.uncut.next_len(), rooms.get(n)) {
            if self.uncut.write_next(room.put(len).ok(), counters) {
                n += 1;
            } else {
                // To nothing, which is always less than there is.
                let _ = room.trim(0);
            }
        }
        n
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
        received: &Received,
        counters: &PortCounters,
    ) -> bool {
        if received.is_cut {
            counters.rx_too_long.add(1);
            return false;
        }
        if Offload::is_in(&received.header) || received.len > room.len() || !self.uncut.is_empty() {
            return self.is_finished(room, i, received, counters);
        }
        // No longer than its room.
        let _ = room.trim(received.len);
        let Some(tag) = received.tag else { return true };
        put_back(room, tag).inspect_err(|_| counters.rx_dropped.add(1)).is_ok()
    }

    /// The same where something is left to be done, or another waits for that.
    #[cold]
    #[inline(never)]
    fn is_finished(
        &mut self,
        room: &mut RxBuffer<'_>,
        i: usize,
        received: &Received,
        counters: &PortCounters,
    ) -> bool {
        let Ok(offload) = Offload::from_virtio(received.header) else {
            counters.rx_dropped.add(1);
            return false;
        };
        if offload.gso.is_some() || !self.uncut.is_empty() {
            let here = received.len.min(room.len());
            let front = &room.data_mut()[..here];
            if self.uncut.wait(i, front, received.len - here, received.tag, offload).is_err() {
                counters.rx_dropped.add(1);
            }
            return false;
        }
        if room.trim(received.len).is_err() {
            counters.rx_too_long.add(1);
            return false;
        }
        let finished = offload.checksum.is_none_or(|checksum| checksum.finish(room.data_mut()).is_ok());
        counters.csum_finished.add(u64::from(finished && offload.checksum.is_some()));
        let whole = finished && received.tag.is_none_or(|tag| put_back(room, tag).is_ok());
        counters.rx_dropped.add(u64::from(!whole));
        whole
    }
}

/// Puts a VLAN tag back between the addresses and the type, into the headroom: the addresses move, which are fewer bytes
/// than the rest.
fn put_back(room: &mut RxBuffer<'_>, tag: [u8; 4]) -> Result<(), NoRoom> {
    if room.len() < ADDRESSES_LEN {
        return Ok(());
    }
    room.push(tag.len())?;
    insert(room.data_mut(), tag);
    Ok(())
}
