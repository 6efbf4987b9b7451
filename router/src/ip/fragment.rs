//! IPv4 packets that are longer than what they are to leave by carries, and may be cut (RFC 791 §2.3, RFC 1812 §4.2.2.7). COLD.
//!
//! ```text
//!   verdict: fragment ─► the way, again ─► Cut ─► frames for all pieces but the first, or none
//!                                           └─► TTL, options, addresses: once ─► the header again before each piece's data
//! ```
//! The pieces are those that Linux makes: each as long as fits, the last what is left. A piece is cut as a whole packet is.

use super::{Way, check, leave, options, way};
use crate::route::Fib;
use netmem::forward::{Pieces, Verdict};
use netmem::limits::BATCH_MAX;
use netmem::pool::{Batch, Frame};
use netmem::wire::{Ethernet, Ipv4, ethernet, options as wire_options};
use std::ops::Range;
use zerocopy::FromBytes;

/// The smallest MTU that a link of IPv4 may have (RFC 791 §3.2).
const LEAST_MTU: usize = 68;
/// Where a piece begins is said in units of so many bytes.
const UNIT: usize = 8;
/// The last unit at which a piece may begin.
const LAST_UNIT: usize = 0x1fff;

/// How a packet is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cut {
    /// Bytes of the header, options and all.
    header: usize,
    /// Bytes of data behind it.
    data: usize,
    /// Bytes of data in every piece but the last, whole units of eight; the last has as many as fit.
    each: usize,
    /// Pieces in all.
    pieces: usize,
    /// Where in a larger packet the data begins, in units, and whether more of that packet follows.
    offset: usize,
    more: bool,
}

impl Cut {
    /// How a packet of which this is the header goes through what carries `mtu` bytes; None where IPv4 cannot do that.
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

    /// Where in the packet's data that of piece `i` lies.
    fn part(&self, i: usize) -> Range<usize> {
        let begin = i * self.each;
        begin..if i + 1 == self.pieces { self.data } else { begin + self.each }
    }

    /// Makes the header in `frame`, which is that of the packet, the one of piece `i`.
    fn seal(&self, i: usize, frame: &mut [u8]) {
        let packet = &mut frame[ethernet::HEADER_LEN..];
        // In a piece that is cut once more they are so already.
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

    /// Pieces of the packet in `frame` from the second on, in frames of `empty`; None where one of those has no room.
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

/// Cuts the packet in `frame`, which was decided about, and sends the pieces the way it was to go; all of it where that fits, as the last
/// segment of a longer packet may.
///
/// # Errors
/// The frame, where it cannot be cut, or there are no frames: nothing is sent of it.
pub(crate) fn fragment(mut frame: Frame, fib: &Fib, pieces: &mut Pieces<'_>) -> Result<(), Frame> {
    match cut(&mut frame, fib, pieces) {
        None => Err(frame),
        Some((verdict, mut later)) => {
            // There is room for as many as a batch has.
            drop(pieces.push(frame, verdict));
            later.drain().for_each(|piece| drop(pieces.push(piece, verdict)));
            Ok(())
        }
    }
}

/// Makes the frame that holds the packet the first piece; the others, and where all of them go.
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

/// How the packet in `frame` is cut, if it does not fit its way, that way, and whether its options record it. It was let in before, and
/// is as it came.
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
