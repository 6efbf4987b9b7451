//! HOT: frames from the socket.

use super::PacketLink;
use crate::limits::BATCH_MAX;
use crate::pool::{Frame, NoRoom};
use crate::port::PortCounters;
use crate::sys::packet::Received;
use std::io::IoSliceMut;

/// Bytes of the two addresses, behind which a VLAN tag stands.
const ADDRESSES: usize = 12;
/// Frames that are asked for when none was there.
const FEW: usize = 8;

impl PacketLink {
    pub(super) fn receive_burst(&mut self, frames: &mut [Frame], counters: &PortCounters) -> usize {
        if !self.link.is_up() {
            return 0;
        }
        let want = frames.len().min(self.burst);
        let frames = &mut frames[..want];
        let mut received = [Received::default(); BATCH_MAX];
        let done = {
            let mut open = frames.iter_mut().map(whole);
            let mut rooms = [(); BATCH_MAX].map(|()| IoSliceMut::new(open.next().unwrap_or_default()));
            self.socket.receive(&mut rooms[..want], &mut received)
        };
        let got = done.unwrap_or_else(|errno| {
            self.link.heed(errno);
            0
        });
        self.burst = if got == want { (2 * want).clamp(FEW, BATCH_MAX) } else { got.max(FEW) };
        self.taken += got as u64;
        let mut good = 0;
        for (i, one) in received[..got].iter().enumerate() {
            if is_whole(&mut frames[i], one, counters) {
                frames.swap(good, i);
                good += 1;
            }
        }
        for frame in &mut frames[good..] {
            // To nothing, which is always less than there is.
            let _ = frame.trim(0);
        }
        good
    }
}

/// All the room of an empty frame.
#[inline]
fn whole(frame: &mut Frame) -> &mut [u8] {
    let room = frame.tailroom();
    // There is as much.
    frame.put(room).unwrap_or_default()
}

/// Makes a frame what was received; false, and counted, where that is not all of it.
#[inline]
fn is_whole(frame: &mut Frame, received: &Received, counters: &PortCounters) -> bool {
    if received.is_cut {
        counters.rx_too_long.add(1);
        return false;
    }
    // No longer than its room.
    let _ = frame.trim(received.len);
    let Some(tag) = received.tag else { return true };
    put_back(frame, tag).inspect_err(|_| counters.rx_dropped.add(1)).is_ok()
}

/// Puts a VLAN tag back between the addresses and the type, into the headroom: the addresses move, which are fewer bytes
/// than the rest.
fn put_back(frame: &mut Frame, tag: [u8; 4]) -> Result<(), NoRoom> {
    if frame.len() < ADDRESSES {
        return Ok(());
    }
    frame.push(tag.len())?;
    let data = frame.data_mut();
    data.copy_within(tag.len()..tag.len() + ADDRESSES, 0);
    data[ADDRESSES..ADDRESSES + tag.len()].copy_from_slice(&tag);
    Ok(())
}
