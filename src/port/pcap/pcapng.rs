//! Packets of a pcapng file: sections of blocks, of which one kind describes interfaces and three kinds hold packets.
//!
//! Every length is checked: a packet's against its block's, the block's against the maximum for a packet, and the one at
//! the block's start against the one at its end. So a hostile file can at worst be reported as damaged. Blocks of other
//! kinds are skipped, however long they are.
//!
//! Source: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>

#[cfg(test)]
mod tests;

use super::capture::{Bad, Located, Next};
use super::format::{ETHERNET, FormatError, PACKET_MAX, Record};
use std::num::NonZeroU64;
use std::time::Duration;

/// Kinds of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;

/// The constant in a section's block that shows its byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// The major version of all files so far.
const VERSION: u16 = 1;
/// Bytes of a section's block without options.
const SECTION_MIN: u32 = 28;
/// Maximum number of interfaces of a section.
const INTERFACES_MAX: usize = 1 << 16;
/// Bytes of a block without contents: its kind, and its length twice.
const EMPTY: u32 = 12;
/// Bytes of the length at the end of a block.
const LENGTH: u32 = 4;
/// Bytes of a packet's block before the packet.
const BEFORE_PACKET: usize = 28;
/// The same in a simple block.
const BEFORE_SIMPLE: usize = 12;

/// Options of an interface that define its timestamps.
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;
/// The resolution of an interface that names none.
const MICROSECONDS: u8 = 6;

/// The state of reading a pcapng file.
#[derive(Debug, Default)]
pub(super) struct Pcapng {
    /// The byte order of this section is not this machine's.
    swapped: bool,
    /// The interfaces of this section.
    interfaces: Vec<Interface>,
    /// An interface of the file, also of an earlier section, has Ethernet frames.
    has_ethernet: bool,
    /// The length of the block whose second length comes next; 0 between two blocks.
    ending: u32,
}

/// The interface on which packets were recorded.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u32,
    /// Maximum number of bytes recorded of a packet; 0 for all.
    snap: u32,
    /// The resolution of its timestamps, as its option names it.
    resolution: u8,
    /// Units of its timestamps in a second; None if there are too many for a number.
    per_second: Option<NonZeroU64>,
    /// Seconds to add to its timestamps.
    offset: i64,
}

impl Pcapng {
    /// Returns whether a file that begins with `bytes` is a pcapng file.
    pub(super) fn is_begun_by(bytes: &[u8]) -> bool {
        bytes.first_chunk() == Some(&SECTION.to_ne_bytes())
    }

    /// Returns the first element in `bytes`.
    ///
    /// # Errors
    /// Returns [`Bad`]. Nothing more can be read afterwards.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Next, Bad> {
        if self.ending > 0 {
            return self.end_block(bytes);
        }
        if bytes.len() < EMPTY as usize {
            return Ok(Next::More);
        }
        // This kind is the same in both byte orders, since a section may change the order.
        if self.word(bytes, 0) == SECTION {
            let Some(head) = bytes.first_chunk() else { return Ok(Next::More) };
            self.begin_section(head)?;
        }
        let (kind, size) = (self.word(bytes, 0), self.word(bytes, 4));
        if size < EMPTY || size % 4 != 0 {
            return Err(Bad::Damaged(format!("says that a block has {size} bytes")));
        }
        match kind {
            INTERFACE => self.interface(bytes, size),
            PACKET => self.packet(bytes, size, |pcapng| pcapng.word(bytes, 8)),
            OLD_PACKET => self.packet(bytes, size, |pcapng| pcapng.half(bytes, 8).into()),
            SIMPLE_PACKET => self.simple_packet(bytes, size),
            _ => Ok(self.skip(size)),
        }
    }

    /// The packet was received that [`next`](Self::next) returned with that `size`: its block ends next.
    #[inline]
    pub(super) fn pass_packet(&mut self, size: u64) {
        self.ending = size as u32 + LENGTH;
    }

    /// Returns whether the file may end here.
    pub(super) fn is_between(&self) -> bool {
        self.ending == 0
    }

    /// Skips a block of `size` bytes up to its second length.
    fn skip(&mut self, size: u32) -> Next {
        self.ending = size;
        Next::Skip((size - LENGTH).into())
    }

    /// Skips the packet of a block of `size` bytes, which is no Ethernet frame.
    #[cold]
    fn skip_other_link(&mut self, size: u32) -> Next {
        self.ending = size;
        Next::OtherLink((size - LENGTH).into())
    }

    /// Compares the length at a block's end with the one at its start. If they differ, packets may have been skipped.
    #[inline]
    fn end_block(&mut self, bytes: &[u8]) -> Result<Next, Bad> {
        if bytes.len() < LENGTH as usize {
            return Ok(Next::More);
        }
        let (first, second) = (self.ending, self.word(bytes, 0));
        if first != second {
            let what = format!("says first that a block has {first} bytes, and at its end {second}");
            return Err(Bad::Damaged(what));
        }
        self.ending = 0;
        Ok(Next::Skip(LENGTH.into()))
    }

    /// Begins a section: reads its byte order, length and version. It has no interface yet.
    #[cold]
    fn begin_section(&mut self, bytes: &[u8; 16]) -> Result<(), Bad> {
        self.interfaces.clear();
        self.swapped = false;
        self.swapped = match self.word(bytes, 8) {
            BYTE_ORDER => false,
            order if order.swap_bytes() == BYTE_ORDER => true,
            order => return Err(Bad::Damaged(format!("has a section of byte order {order:#010x}"))),
        };
        let (size, version) = (self.word(bytes, 4), self.half(bytes, 12));
        if size < SECTION_MIN {
            return Err(Bad::Damaged(format!("has a section whose block has {size} bytes")));
        }
        if version == VERSION { Ok(()) } else { Err(Bad::Format(FormatError::Version(version))) }
    }

    #[cold]
    fn interface(&mut self, bytes: &[u8], size: u32) -> Result<Next, Bad> {
        if size < EMPTY + 8 || size as usize > PACKET_MAX || self.interfaces.len() == INTERFACES_MAX {
            return Err(Bad::Damaged(format!("describes an interface in {size} bytes, or too many of them")));
        }
        let Some(block) = bytes.get(..size as usize) else { return Ok(Next::More) };
        let mut interface = Interface {
            link_type: self.half(block, 8).into(),
            snap: self.word(block, 12),
            resolution: MICROSECONDS,
            per_second: per_second(MICROSECONDS),
            offset: 0,
        };
        let mut at = 16;
        let end = block.len() - 4;
        while at + 4 <= end {
            let (option, len) = (self.half(block, at), usize::from(self.half(block, at + 2)));
            let Some(value) = block[..end].get(at + 4..at + 4 + len) else {
                return Err(Bad::Damaged("has an option that is longer than its block".into()));
            };
            match (option, value) {
                (0, _) => break,
                (RESOLUTION, &[resolution, ..]) => {
                    (interface.resolution, interface.per_second) = (resolution, per_second(resolution));
                }
                (OFFSET, &[_, _, _, _, _, _, _, _]) => {
                    let [one, other] = [0, 4].map(|at| u64::from(self.word(value, at)));
                    let big = self.swapped != cfg!(target_endian = "big");
                    interface.offset = (if big { one << 32 | other } else { other << 32 | one }) as i64;
                }
                _ => {}
            }
            at += 4 + len.next_multiple_of(4);
        }
        self.has_ethernet |= interface.link_type == ETHERNET;
        self.interfaces.push(interface);
        Ok(self.skip(size))
    }

    /// Returns a packet with its time, from the interface whose number `which` finds.
    #[inline]
    fn packet(&mut self, bytes: &[u8], size: u32, which: impl Fn(&Self) -> u32) -> Result<Next, Bad> {
        if bytes.len() < BEFORE_PACKET {
            return Ok(Next::More);
        }
        let Some(interface) = self.recorded_at(which(self))? else { return Ok(self.skip_other_link(size)) };
        let [high, low, len, original] = [12, 16, 20, 24].map(|at| self.word(bytes, at));
        let at = Some(interface.time(u64::from(high) << 32 | u64::from(low))?);
        located(bytes, size, BEFORE_PACKET, Record { at, len, original })
    }

    /// Returns a packet of the section's first interface, which has no time.
    #[cold]
    fn simple_packet(&mut self, bytes: &[u8], size: u32) -> Result<Next, Bad> {
        let Some(interface) = self.recorded_at(0)? else { return Ok(self.skip_other_link(size)) };
        let original = self.word(bytes, 8);
        let most = if interface.snap == 0 { u32::MAX } else { interface.snap };
        let len = original.min(most).min(size.saturating_sub(BEFORE_SIMPLE as u32 + 4));
        located(bytes, size, BEFORE_SIMPLE, Record { at: None, len, original })
    }

    /// Returns the interface with this number, or None if its packets are not Ethernet frames as those of others are.
    #[inline]
    fn recorded_at(&self, number: u32) -> Result<Option<&Interface>, Bad> {
        match self.interfaces.get(number as usize) {
            Some(interface) if interface.link_type == ETHERNET => Ok(Some(interface)),
            Some(_) if self.has_ethernet => Ok(None),
            Some(interface) => Err(Bad::Format(FormatError::LinkType(interface.link_type))),
            None => {
                Err(Bad::Damaged(format!("has a packet of interface {number}, which it does not describe")))
            }
        }
    }

    /// Reads the word at `at`, which lies within the bytes.
    #[inline]
    fn word(&self, bytes: &[u8], at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        let word = u32::from_ne_bytes(word);
        if self.swapped { word.swap_bytes() } else { word }
    }

    /// Reads the half word at `at`, which lies within the bytes.
    fn half(&self, bytes: &[u8], at: usize) -> u16 {
        let half = u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        if self.swapped { half.swap_bytes() } else { half }
    }
}

impl Interface {
    /// Converts a timestamp to the time since 1970.
    fn time(&self, stamp: u64) -> Result<Duration, Bad> {
        let per_second = self.per_second.ok_or_else(|| self.bad_resolution())?;
        let (seconds, part) = (stamp / per_second, stamp % per_second);
        let nanoseconds = u128::from(part) * 1_000_000_000 / u128::from(per_second.get());
        Ok(Duration::new(seconds.saturating_add_signed(self.offset), nanoseconds as u32))
    }

    #[cold]
    fn bad_resolution(&self) -> Bad {
        let (base, power) = base_and_power(self.resolution);
        Bad::Damaged(format!("has a packet with a time stamp of a resolution of {base}^-{power} s"))
    }
}

/// Returns a packet whose bytes begin at `start` in a block of `size` bytes.
#[inline]
fn located(bytes: &[u8], size: u32, start: usize, record: Record) -> Result<Next, Bad> {
    if record.len as usize > PACKET_MAX {
        return Err(Bad::too_long(record.len));
    }
    let end = start + record.len as usize;
    if end.next_multiple_of(4) + 4 > size as usize {
        return Err(Bad::Damaged(format!("has a packet of {} bytes in a block of {size}", record.len)));
    }
    // Options behind the packet are skipped as they come.
    let here = bytes.len() >= end;
    // The block's second length is an element of its own.
    let size = (size - LENGTH).into();
    Ok(if here { Next::Packet(Located { record, start, size }) } else { Next::More })
}

/// Returns the power of ten or of two that the option stands for.
const fn base_and_power(resolution: u8) -> (u64, u8) {
    if resolution & 0x80 == 0 { (10, resolution) } else { (2, resolution & 0x7f) }
}

/// Returns the units in a second that the option defines, if a number has room for them.
#[cold]
fn per_second(resolution: u8) -> Option<NonZeroU64> {
    let (base, power) = base_and_power(resolution);
    base.checked_pow(power.into()).and_then(NonZeroU64::new)
}
