//! Packets of a pcapng file: sections of blocks, of which one kind describes interfaces and three kinds hold packets.
//!
//! Every length is checked: a packet's against its block's, and the block's against the maximum for a packet. So a
//! hostile file can at worst be reported as damaged. Blocks of other kinds are skipped, however long they are.
//!
//! Source: <https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html>

#[cfg(test)]
mod tests;

use super::capture::{Bad, Located, Next};
use super::format::{ETHERNET, FormatError, PACKET_MAX, Record};
use std::time::Duration;

/// Kinds of blocks.
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const PACKET: u32 = 6;

/// The constant in a section's block that shows its byte order.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
/// Maximum number of interfaces of a section.
const INTERFACES_MAX: usize = 1 << 16;
/// Bytes of a block without contents: its kind, and its length twice.
const EMPTY: u32 = 12;
/// Bytes of a packet's block before the packet.
const BEFORE_PACKET: usize = 28;
/// The same in a simple block.
const BEFORE_SIMPLE: usize = 12;

/// Options of an interface that define its timestamps.
const RESOLUTION: u16 = 9;
const OFFSET: u16 = 14;

/// The state of reading a pcapng file.
#[derive(Debug, Default)]
pub(super) struct Pcapng {
    /// The byte order of this section is not this machine's.
    swapped: bool,
    /// The interfaces of this section.
    interfaces: Vec<Interface>,
}

/// The interface on which packets were recorded.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u32,
    /// Maximum number of bytes recorded of a packet; 0 for all.
    snap: u32,
    /// Units of its timestamps in a second.
    per_second: u64,
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
        if bytes.len() < EMPTY as usize {
            return Ok(Next::More);
        }
        // This kind is the same in both byte orders, since a section may change the order.
        if self.word(bytes, 0) == SECTION {
            self.begin_section(bytes)?;
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
            _ => Ok(Next::Skip(size.into())),
        }
    }

    /// Begins a section: reads its byte order. It has no interface yet.
    #[cold]
    fn begin_section(&mut self, bytes: &[u8]) -> Result<(), Bad> {
        self.interfaces.clear();
        self.swapped = false;
        self.swapped = match self.word(bytes, 8) {
            BYTE_ORDER => false,
            order if order.swap_bytes() == BYTE_ORDER => true,
            order => return Err(Bad::Damaged(format!("has a section of byte order {order:#010x}"))),
        };
        Ok(())
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
            per_second: 1_000_000,
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
                (RESOLUTION, &[resolution, ..]) => interface.per_second = per_second(resolution)?,
                (OFFSET, &[_, _, _, _, _, _, _, _]) => {
                    let [one, other] = [0, 4].map(|at| u64::from(self.word(value, at)));
                    let big = self.swapped != cfg!(target_endian = "big");
                    interface.offset = (if big { one << 32 | other } else { other << 32 | one }) as i64;
                }
                _ => {}
            }
            at += 4 + len.next_multiple_of(4);
        }
        self.interfaces.push(interface);
        Ok(Next::Skip(size.into()))
    }

    /// Returns a packet with its time, from the interface whose number `which` finds.
    #[inline]
    fn packet(&self, bytes: &[u8], size: u32, which: impl Fn(&Self) -> u32) -> Result<Next, Bad> {
        if bytes.len() < BEFORE_PACKET {
            return Ok(Next::More);
        }
        let interface = self.recorded_at(which(self))?;
        let [high, low, len, original] = [12, 16, 20, 24].map(|at| self.word(bytes, at));
        let at = Some(interface.time(u64::from(high) << 32 | u64::from(low)));
        located(bytes, size, BEFORE_PACKET, Record { at, len, original })
    }

    /// Returns a packet of the section's first interface, which has no time.
    #[cold]
    fn simple_packet(&self, bytes: &[u8], size: u32) -> Result<Next, Bad> {
        let interface = self.recorded_at(0)?;
        let original = self.word(bytes, 8);
        let most = if interface.snap == 0 { u32::MAX } else { interface.snap };
        let len = original.min(most).min(size.saturating_sub(BEFORE_SIMPLE as u32 + 4));
        located(bytes, size, BEFORE_SIMPLE, Record { at: None, len, original })
    }

    /// Returns the interface with this number, if its packets can be forwarded.
    #[inline]
    fn recorded_at(&self, number: u32) -> Result<&Interface, Bad> {
        match self.interfaces.get(number as usize) {
            Some(interface) if interface.link_type == ETHERNET => Ok(interface),
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
    fn time(&self, stamp: u64) -> Duration {
        let (seconds, part) = (stamp / self.per_second, stamp % self.per_second);
        let nanoseconds = u128::from(part) * 1_000_000_000 / u128::from(self.per_second);
        Duration::new(seconds.saturating_add_signed(self.offset), nanoseconds as u32)
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
    Ok(if here { Next::Packet(Located { record, start, size: size.into() }) } else { Next::More })
}

/// Returns the units in a second that the option defines: a power of ten, or of two.
#[cold]
fn per_second(resolution: u8) -> Result<u64, Bad> {
    let (base, power) = if resolution & 0x80 == 0 { (10_u64, resolution) } else { (2, resolution & 0x7f) };
    let bad = || Bad::Damaged(format!("has time stamps of a resolution of {base}^-{power} s"));
    base.checked_pow(power.into()).ok_or_else(bad)
}
