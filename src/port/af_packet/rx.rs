//! HOT: frames from the socket.

use super::AfPacketLink;
use crate::limits::BATCH_MAX;
use crate::pool::NoRoom;
use crate::port::PortCounters;
use crate::port::copying::{RxBuffer, RxBuffers};
use crate::sys::packet::Received;
use std::io::IoSliceMut;

/// Bytes of the two addresses, behind which a VLAN tag stands.
const ADDRESSES: usize = 12;
/// Frames that are asked for when none was there.
const FEW: usize = 8;

impl AfPacketLink {
    pub(super) fn receive_burst(&mut self, rooms: &mut RxBuffers<'_>, counters: &PortCounters) -> usize {
        if !self.link.is_up() {
            return 0;
        }
        let want = rooms.len().min(self.burst);
        let mut received = [Received::default(); BATCH_MAX];
        let done = {
            let mut open = rooms.iter_mut().take(want).map(RxBuffer::whole);
            let mut slices = [(); BATCH_MAX].map(|()| IoSliceMut::new(open.next().unwrap_or_default()));
            self.socket.receive(&mut slices[..want], &mut received)
        };
        let got = done.unwrap_or_else(|errno| {
            self.link.heed(errno);
            0
        });
        self.burst = if got == want { (2 * want).clamp(FEW, BATCH_MAX) } else { got.max(FEW) };
        self.taken += got as u64;
        let mut good = 0;
        for (i, one) in received[..got].iter().enumerate() {
            if rooms.get(i).is_some_and(|mut room| is_whole(&mut room, one, counters)) {
                rooms.swap(good, i);
                good += 1;
            }
        }
        for mut room in rooms.iter_mut().take(want).skip(good) {
            // To nothing, which is always less than there is.
            let _ = room.trim(0);
        }
        good
    }
}

/// Makes a frame what was received; false, and counted, where that is not all of it.
#[inline]
fn is_whole(room: &mut RxBuffer<'_>, received: &Received, counters: &PortCounters) -> bool {
    if received.is_cut {
        counters.rx_too_long.add(1);
        return false;
    }
    // No longer than its room.
    let _ = room.trim(received.len);
    let Some(tag) = received.tag else { return true };
    put_back(room, tag).inspect_err(|_| counters.rx_dropped.add(1)).is_ok()
}

/// Puts a VLAN tag back between the addresses and the type, into the headroom: the addresses move, which are fewer bytes
/// than the rest.
fn put_back(room: &mut RxBuffer<'_>, tag: [u8; 4]) -> Result<(), NoRoom> {
    if room.len() < ADDRESSES {
        return Ok(());
    }
    room.push(tag.len())?;
    let data = room.data_mut();
    data.copy_within(tag.len()..tag.len() + ADDRESSES, 0);
    data[ADDRESSES..ADDRESSES + tag.len()].copy_from_slice(&tag);
    Ok(())
}
