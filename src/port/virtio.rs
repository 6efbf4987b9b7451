//! Frames of the kernel's sockets and TAP interfaces. A `struct virtio_net_hdr` names the offload work that each has
//! left.

use super::PortCounters;
use super::copying::{RxBuffer, RxBuffers};
use super::spread;
use super::uncut::{Uncut, finish, insert};
use crate::pool::{Frame, NoRoom};
use crate::wire::ethernet::{ADDRESSES_LEN, TAG_LEN};
use crate::wire::offload::{Offload, VIRTIO_LEN};
use crate::wire::segment::Segments;
use std::ops::Range;
use std::time::Duration;

/// A packet as the device delivered it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received {
    /// Number of bytes, in its frame and beyond.
    pub(super) len: usize,
    /// The tag to insert behind its addresses.
    pub(super) tag: Option<[u8; TAG_LEN]>,
    /// Its open offload work.
    pub(super) header: [u8; VIRTIO_LEN],
    /// The open work stays with the packet.
    pub(super) keeps: bool,
    /// The time that the packet gets.
    pub(super) time: Option<Duration>,
}

impl Received {
    /// Returns whether there is a tag or a time to add to the packet's bytes.
    #[inline]
    fn has_tag_or_time(&self) -> bool {
        self.tag.is_some() || self.time.is_some()
    }

    /// Puts the tag back into the packet's data, and stores its time.
    pub(super) fn add_tag_and_time(&self, room: &mut RxBuffer<'_>) -> Result<(), NoRoom> {
        if let Some(tag) = self.tag {
            put_back(room, tag)?;
        }
        // An empty packet has no time to keep.
        if self.time.is_some() && !room.is_empty() { room.set_timestamp(self.time) } else { Ok(()) }
    }
}

/// Returns the header that goes to the kernel before a frame: the frame's open offload work.
#[inline]
pub(super) fn header(frame: &Frame) -> [u8; VIRTIO_LEN] {
    frame.offload().map_or([0; VIRTIO_LEN], |offload| offload.to_virtio(frame.data()))
}

/// Returns how many of `rooms` the device receives one packet into. It is one, unless packets keep their open offload
/// work and any [`spread::FRAMES`] of the rooms `among` can hold any whole packet.
#[inline]
pub(super) fn frames_each(rooms: &mut RxBuffers<'_>, mut among: Range<usize>, keeps: bool) -> usize {
    let mut have_room = || among.all(|i| rooms.get(i).is_some_and(|room| spread::have_room(room.tailroom())));
    if keeps && have_room() { spread::FRAMES } else { 1 }
}

/// Returns the memory that the device receives a packet into: all of `each` frames, and, if that is one, the memory
/// beyond it.
pub(super) fn parts<'a>(
    each: usize,
    rooms: &mut impl Iterator<Item = RxBuffer<'a>>,
    beyond: &'a mut [u8],
) -> [&'a mut [u8]; 3] {
    let mut next = || rooms.next().map(RxBuffer::behind).unwrap_or_default();
    if each == 1 {
        return [next(), beyond, &mut []];
    }
    let (first, second, third) = (next(), next(), next());
    [spread::room_of(0, first), spread::room_of(1, second), spread::room_of(2, third)]
}

impl Uncut {
    /// Turns packet number `i` of a burst into frames. It was received into `each` of `rooms` from `first` on, which
    /// are full. Returns the number of frames. It is 0 if the packet waits for frames, or is dropped, which is counted.
    #[inline]
    pub(super) fn land(
        &mut self,
        i: usize,
        (first, each): (usize, usize),
        rooms: &mut RxBuffers<'_>,
        received: Received,
        counters: &PortCounters,
    ) -> usize {
        let Some(mut room) = rooms.get(first) else { return 0 };
        let most = if each == 1 { room.len() } else { room.len().saturating_sub(1) };
        if !Offload::is_in(&received.header) && received.len <= most && self.is_empty() {
            // No longer than its buffer.
            let _ = room.trim(received.len);
            if !received.has_tag_or_time() {
                return 1;
            }
            return received
                .add_tag_and_time(&mut room)
                .inspect_err(|_| counters.rx_dropped.add(1))
                .is_ok()
                .into();
        }
        if received.len > most && each > 1 {
            if self.is_empty()
                && let Some(n) = spread::part(rooms, first, &received, counters)
            {
                return n;
            }
            spread::gather(rooms, first, received.len, self.beyond().nth(i).unwrap_or_default());
        }
        rooms.get(first).is_some_and(|mut room| self.settle(i, &mut room, received, counters)).into()
    }

    /// Turns packet number `i` of a burst into a frame; `room` is full of it. Returns false if the packet waits for
    /// frames, or is dropped, which is counted. Used for packets with open offload work, and for those behind a waiting
    /// packet.
    #[cold]
    #[inline(never)]
    pub(super) fn settle(
        &mut self,
        i: usize,
        room: &mut RxBuffer<'_>,
        received: Received,
        counters: &PortCounters,
    ) -> bool {
        let Received { len, tag, header, keeps, time } = received;
        let Ok(offload) = Offload::from_virtio(header) else {
            self.has_refused = true;
            counters.rx_dropped.add(1);
            return false;
        };
        // One byte less: the data of the longest frame must not end with it.
        let most = if keeps && room.has_room_for_offload() { room.len().checked_sub(1) } else { None };
        let is_kept = most.is_some_and(|most| len <= most);
        let front = room.data_mut().get(..len).filter(|_| is_kept);
        let segments = front.and_then(|packet| Segments::of_front(packet, len, &offload).ok());
        if !self.is_empty() || offload.gso.is_some() && segments.is_none() {
            let here = len.min(room.len());
            let waits = self.wait(i, &room.data_mut()[..here], len - here, tag, offload, most);
            let waits = waits.map(|()| self.set_time(time));
            self.has_refused |= waits.is_err();
            counters.rx_dropped.add(waits.is_err().into());
            return false;
        }
        if !self.fits(i, room, len) {
            counters.rx_too_long.add(1);
            return false;
        }
        let done = match segments {
            Some(segments) => keep_segments(room, segments, offload, counters),
            None if is_kept => keep(room, offload, counters),
            None => finish(room.data_mut(), offload, counters),
        };
        let whole = done && received.add_tag_and_time(room).is_ok();
        counters.rx_dropped.add((!whole).into());
        whole
    }

    /// Ends the data of `room`, which is full of packet number `i` of a burst, with the packet's `len` bytes. What the device
    /// wrote beyond the frame is put behind it. Returns false if the frame has no room for that.
    fn fits(&mut self, i: usize, room: &mut RxBuffer<'_>, len: usize) -> bool {
        let Some(beyond) = len.checked_sub(room.len()) else { return room.trim(len).is_ok() };
        let slot = self.beyond().nth(i).unwrap_or_default();
        let rest = slot.get(..beyond).zip(room.put(beyond).ok());
        rest.map(|(from, to)| to.copy_from_slice(from)).is_some()
    }

    /// Puts waiting packets into `rooms`, which are empty from `n` on, as far as there are any. Returns how many have
    /// data then.
    #[cold]
    #[inline(never)]
    pub(super) fn fill(&mut self, rooms: &mut RxBuffers<'_>, mut n: usize, counters: &PortCounters) -> usize {
        while let (Some(len), Some(mut room)) = (self.next_len(), rooms.get(n)) {
            let written = self.write_next(room.put(len).ok(), counters);
            let kept = written.map(|(offload, time)| {
                room.set_offload(offload)?;
                room.set_timestamp(time)
            });
            if let Some(Ok(())) = kept {
                n += 1;
            } else {
                counters.rx_dropped.add(kept.is_some().into());
                // Trimming to 0 bytes always succeeds.
                let _ = room.trim(0);
            }
        }
        n
    }
}

/// Keeps the open checksum with the packet of one segment in a frame that has room for it, or completes it if it cannot
/// stay open. Returns false if it is invalid for the packet.
fn keep(room: &mut RxBuffer<'_>, offload: Offload, counters: &PortCounters) -> bool {
    if !offload.can_wait(room.data_mut()) {
        return finish(room.data_mut(), offload, counters);
    }
    room.set_offload(offload).is_ok()
}

/// Keeps the packet of several segments in a frame that has room for its open offload work. Returns false if it has
/// not.
fn keep_segments(
    room: &mut RxBuffer<'_>,
    segments: Segments,
    offload: Offload,
    counters: &PortCounters,
) -> bool {
    // The kernel would cut what lies behind the packet as well, into more segments than are allowed.
    let _ = room.trim(segments.end());
    let offload = if offload.checksum.is_some() {
        offload
    } else {
        // The kernel cuts UDP only if the checksum is open (`virtio_net_hdr_to_skb`).
        let piece = segments.in_pieces(usize::MAX);
        piece.seal(0, room.data_mut());
        piece.offload_of(segments.end())
    };
    let kept = room.set_offload(offload).is_ok();
    counters.gso_kept.add(u64::from(kept && offload.gso.is_some()));
    kept
}

/// Puts a VLAN tag back between the addresses and the type, into the headroom. The addresses move, which are fewer
/// bytes than the rest.
fn put_back(room: &mut RxBuffer<'_>, tag: [u8; TAG_LEN]) -> Result<(), NoRoom> {
    if room.len() < ADDRESSES_LEN {
        return Ok(());
    }
    room.push(tag.len())?;
    insert(room.data_mut(), tag);
    Ok(())
}

#[cfg(test)]
mod tests;
