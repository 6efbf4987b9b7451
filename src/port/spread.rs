//! Splits received packets of many segments that the device wrote to several frames, one behind the other. They become
//! packets of fewer segments in place: the headers are copied to each frame, and the part of a segment before the end
//! of a frame moves to the next frame.
//!
//! ```text
//!   received   ├ headers ┼ segments ... ┼ part┤        ├ rest ┼ segments ... ┤
//!   made       ├ headers ┼ segments ... ┤      ├ headers ┼ part ┼ rest ┼ segments ... ┤
//!                                              ├─── BEFORE, at most ───┤
//! ```

use super::PortCounters;
use super::copying::{RxBuffer, RxBuffers};
use super::virtio::Received;
use crate::wire::offload::Offload;
use crate::wire::segment::Segments;
use std::ops::Range;

/// Maximum number of frames that a packet may lie in.
pub(super) const FRAMES: usize = 3;
/// Bytes that the device leaves free in all frames but the first.
const BEFORE: usize = 2048;
/// Bytes of the longest packet, with its link header and tags.
const LONGEST: usize = (64 << 10) + 64;
/// Bytes of the longest headers.
const HEADERS: usize = 256;

/// Returns whether frames with that much room can hold any packet together.
pub(super) const fn have_room(room: usize) -> bool {
    room > BEFORE && bytes_of(0, room) + (FRAMES - 1) * bytes_of(1, room) >= LONGEST
}

/// Number of bytes that the device may write to frame `i` of a packet, which has that much room. The last byte stays
/// free: the data of the longest frame must not end with it.
const fn bytes_of(i: usize, room: usize) -> usize {
    room.saturating_sub(if i == 0 { 1 } else { BEFORE + 1 })
}

/// Returns those bytes.
pub(super) fn room_of(i: usize, whole: &mut [u8]) -> &mut [u8] {
    let (from, bytes) = (if i == 0 { 0 } else { BEFORE }, bytes_of(i, whole.len()));
    whole.get_mut(from..).and_then(|room| room.get_mut(..bytes)).unwrap_or_default()
}

/// Splits the packet received into the [`FRAMES`] frames from `first` on, all of them full, into several packets. Each
/// lies in the frame that holds most of it. Returns their number, 0 if the packet was dropped and counted. Returns
/// None, with nothing changed, if the packet cannot be split in this way, because of a short frame of another pool for
/// example.
#[cold]
#[inline(never)]
pub(super) fn part(
    rooms: &mut RxBuffers<'_>,
    first: usize,
    received: &Received,
    counters: &PortCounters,
) -> Option<usize> {
    let offload = Offload::from_virtio(received.header).ok()?;
    let mut there = 0;
    for i in 0..FRAMES {
        let frame = rooms.get(first + i)?;
        let here = bytes_of(i, frame.len());
        if here == 0 || !frame.has_room_for_offload() {
            return None;
        }
        there += here;
    }
    let mut frames = rooms.iter_mut().skip(first).take(FRAMES);
    let mut frame = frames.next()?;
    let (mut begin, mut end) = (0, received.len.min(bytes_of(0, frame.len())));
    let segments = Segments::of_front(&frame.data_mut()[..end], received.len, &offload).ok()?.in_pieces(0);
    let (headers, size) = (segments.headers(), usize::from(offload.gso?.size.get()));
    // Bytes behind the packet belong to no segment. It is gathered and cut without them.
    let is_whole = received.len == segments.end();
    if headers > HEADERS || headers + size > BEFORE || there < received.len || !is_whole {
        return None;
    }
    let mut copy = [0; HEADERS];
    copy[..headers].copy_from_slice(&frame.data_mut()[..headers]);
    let (mut rest, mut number, mut made, mut whole) = (received.len - end, 0, 0, true);
    loop {
        let (payload, next) = (end - begin - headers, frames.next().filter(|_| rest > 0));
        // Bytes of the segment that ends in the next frame.
        let beyond = if next.is_some() { payload % size } else { 0 };
        let (piece, mut later) = (begin..end - beyond, next);
        if let Some(later) = &mut later {
            let (room, before) = (later.data_mut(), BEFORE - beyond);
            room[before - headers..before].copy_from_slice(&copy[..headers]);
            room[before..BEFORE].copy_from_slice(&frame.data_mut()[end - beyond..end]);
            let here = rest.min(bytes_of(1, room.len()));
            (begin, end, rest) = (before - headers, BEFORE + here, rest - here);
        }
        whole &= finish(&mut frame, piece, number, &segments, received, counters);
        made += 1;
        number += (payload - beyond) / size;
        match later {
            Some(later) => frame = later,
            None => break,
        }
    }
    counters.gso_cut.add(whole.into());
    counters.rx_dropped.add((!whole).into());
    Some(if whole { made } else { 0 })
}

/// Copies the bytes received into the frames behind `first` to `to`, one behind the other, and ends that frame's data
/// at the end of the device's bytes. Used for packets that cannot be split here.
#[cold]
#[inline(never)]
pub(super) fn gather(rooms: &mut RxBuffers<'_>, first: usize, len: usize, to: &mut [u8]) {
    let Some(mut frame) = rooms.get(first) else { return };
    let mut done = bytes_of(0, frame.len());
    // Trimming to fewer bytes always succeeds.
    let _ = frame.trim(done);
    let (mut to, last) = (to, first + FRAMES);
    for mut later in rooms.iter_mut().take(last).skip(first + 1) {
        let bytes = room_of(1, later.data_mut());
        let n = bytes.len().min(len.saturating_sub(done)).min(to.len());
        let (here, behind) = to.split_at_mut(n);
        here.copy_from_slice(&bytes[..n]);
        (to, done) = (behind, done + n);
    }
}

/// Turns the bytes of a frame, a piece from segment `first` on, into a packet. Returns whether that succeeded.
fn finish(
    frame: &mut RxBuffer<'_>,
    piece: Range<usize>,
    first: usize,
    segments: &Segments,
    received: &Received,
    counters: &PortCounters,
) -> bool {
    if frame.trim(piece.end).and_then(|()| frame.pull(piece.start)).is_err() {
        return false;
    }
    segments.seal(first, frame.data_mut());
    let offload = segments.offload_of(piece.len());
    counters.gso_kept.add(offload.gso.is_some().into());
    frame.set_offload(offload).is_ok() && received.add_tag_and_time(frame).is_ok()
}

#[cfg(test)]
mod tests;
