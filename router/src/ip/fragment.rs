//! Fragmentation of IPv4 packets that are longer than the MTU of their path and may be fragmented (RFC 791 §2.3,
//! RFC 1812 §4.2.2.7). COLD.
//!
//! ```text
//!   verdict: fragment ─► the way, again ─► Cut ─► frames for all pieces but the first, or none
//!                                           └─► TTL, options, addresses: once ─► the header again before each piece's data
//! ```
//! The fragments are those that Linux makes: each as long as fits, and the last holds the rest. A fragment is
//! fragmented like a whole packet.

use super::{Way, check, leave, options, way};
use crate::route::Fib;
use netmem::forward::{Pieces, Verdict};
use netmem::limits::BATCH_MAX;
use netmem::pool::{Batch, Frame};
use netmem::wire::{Ethernet, Ipv4, ethernet, options as wire_options};
use std::ops::Range;
use zerocopy::FromBytes;

/// The smallest MTU of an IPv4 link (RFC 791 §3.2).
const LEAST_MTU: usize = 68;
/// The unit of fragment offsets, in bytes.
const UNIT: usize = 8;
/// The largest fragment offset, in units.
const LAST_UNIT: usize = 0x1fff;

/// The layout of a packet's fragments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    /// Bytes of the header, including options.
    header: usize,
    /// Bytes of data behind the header.
    data: usize,
    /// Bytes of data in every fragment but the last: a multiple of eight. The last fragment holds at most what
    /// fits.
    each: usize,
    /// Number of fragments.
    pieces: usize,
    /// The data's offset in a larger packet, in units, and whether more of that packet follows.
    offset: usize,
    more: bool,
}

impl Cut {
    /// Returns the layout for a packet with this header and a path with this MTU, or None if the packet cannot be
    /// fragmented.
    fn of(header: &Ipv4, mtu: usize) -> Option<Cut> {
        let length = header.header_len();
        let (room, data) = (mtu.checked_sub(length)?, usize::from(header.total_length()) - length);
        let each = room / UNIT * UNIT;
        if mtu < LEAST_MTU || each == 0 {
            return None;
        }
        let pieces = 1 + data.checked_sub(room)?.div_ceil(each);
        let offset = usize::from(header.fragment_offset());
        let can_be = pieces <= BATCH_MAX && offset + (pieces - 1) * each / UNIT <= LAST_UNIT;
        can_be.then_some(Cut { header: length, data, each, pieces, offset, more: header.more_fragments() })
    }

    /// Returns the range of fragment `i` in the packet's data.
    fn part(&self, i: usize) -> Range<usize> {
        let begin = i * self.each;
        begin..if i + 1 == self.pieces { self.data } else { begin + self.each }
    }

    /// Turns the header in `frame`, which is the packet's header, into that of fragment `i`.
    fn seal(&self, i: usize, frame: &mut [u8]) {
        let packet = &mut frame[ethernet::HEADER_LEN..];
        // In a fragment that is fragmented once more they are filtered already.
        if i > 0 && self.offset == 0 {
            wire_options::retain_copied(packet);
        }
        let (part, has_more) = (self.part(i), self.more || i + 1 < self.pieces);
        if let Ok((header, _)) = Ipv4::mut_from_prefix(packet) {
            let offset = self.offset + part.start / UNIT;
            header.set_fragment(offset as u16, has_more, (self.header + part.len()) as u16);
        }
        Ipv4::seal(packet);
    }

    /// Makes the fragments of the packet in `frame` from the second on, in frames of `empty`. Returns None if one
    /// of these has no room.
    fn later(&self, frame: &[u8], mut empty: Batch) -> Option<Batch> {
        let (headers, data) = frame.split_at(ethernet::HEADER_LEN + self.header);
        let mut later = Batch::new();
        for (i, mut piece) in (1..).zip(empty.drain()) {
            piece.put_slice(headers).ok()?;
            piece.put_slice(&data[self.part(i)]).ok()?;
            self.seal(i, piece.data_mut());
            later.push(piece).ok()?;
        }
        Some(later)
    }
}

/// Fragments the packet in `frame`, which was decided about, and sends the fragments on the packet's path. A packet
/// that fits is sent whole, as the last segment of a longer packet may be.
///
/// # Errors
/// The frame, if the packet cannot be fragmented or there are no frames. No part of the packet is sent then.
pub(crate) fn fragment(mut frame: Frame, fib: &Fib, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
    match cut(&mut frame, fib, pieces) {
        None => Err(frame),
        Some((verdict, mut later)) => {
            // There is room for a full batch.
            drop(pieces.push(frame, verdict));
            later.drain().for_each(|piece| drop(pieces.push(piece, verdict)));
            Ok(())
        }
    }
}

/// Turns the frame that holds the packet into the first fragment. Returns the other fragments and the verdict about
/// all of them.
fn cut(frame: &mut Frame, fib: &Fib, pieces: &mut Pieces<'_>) -> Option<(Verdict, Batch)> {
    let (cut, way, records) = plan(frame.data(), fib)?;
    let Some(cut) = cut else {
        return Some((leave(frame.data_mut(), way, records, fib).ok()?, Batch::new()));
    };
    let empty = pieces.alloc(cut.pieces - 1)?;
    let verdict = leave(frame.data_mut(), way, records, fib).ok()?;
    let later = cut.later(frame.data(), empty)?;
    cut.seal(0, frame.data_mut());
    frame.trim(ethernet::HEADER_LEN + cut.header + cut.each).ok()?;
    Some((verdict, later))
}

/// Returns the layout of the packet in `frame` if it does not fit its path, the path, and whether its options
/// record the path. The packet was admitted before and is unchanged.
fn plan(frame: &[u8], fib: &Fib) -> Option<(Option<Cut>, Way, bool)> {
    let packet = check(frame, None, fib).ok()?;
    let way = way(frame, &packet, fib).ok()??;
    let (_, bytes) = Ethernet::parse(frame).ok()?;
    let records = options::check(bytes, fib.allow).ok()?;
    let cut = match packet.length > way.mtu {
        true => Some(Cut::of(Ipv4::parse(bytes).ok()?.0, way.mtu)?),
        false => None,
    };
    Some((cut, way, records))
}
