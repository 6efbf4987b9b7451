//! The classic file format: a header of 24 bytes, and 16 bytes before each packet.

use std::time::Duration;

/// Bytes of the file's header.
pub(in crate::port) const HEADER: usize = 24;
/// Bytes before each packet.
pub(in crate::port) const RECORD: usize = 16;
/// Maximum number of bytes of a packet. A file that names more is damaged. The limit of tcpdump and Wireshark.
pub(super) const PACKET_MAX: usize = 256 << 10;

/// First word of files with microseconds, and of those with nanoseconds.
const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// LINKTYPE_ETHERNET.
pub(super) const ETHERNET: u32 = 1;

/// The reason why a file cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum FormatError {
    /// The first word is not a known magic number.
    #[error("not a pcap or pcapng file: it begins with {0:#010x}; give a capture, such as one of tcpdump -w")]
    Magic(u32),
    /// The file ends before its header does.
    #[error("not a pcap file: it has {0} bytes, the header alone has 24")]
    Short(usize),
    /// A pcapng file, or a section of it, has another major version than 1.
    #[error("pcapng of version {0}: only version 1 can be read")]
    Version(u16),
    /// Its packets are not Ethernet frames.
    #[error("link type {0}: only Ethernet, 1, can be forwarded")]
    LinkType(u32),
}

/// The format of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    /// Its byte order is not this machine's.
    swapped: bool,
    /// Nanoseconds per unit of the second part of its timestamps.
    unit: u32,
}

/// The record header before a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    /// The time of recording, since 1970.
    pub(super) at: Option<Duration>,
    /// Bytes in the file.
    pub(super) len: u32,
    /// Number of bytes on the wire.
    pub(super) original: u32,
}

impl Format {
    /// Returns the format of the file that begins with `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Result<Format, FormatError> {
        let magic = bytes.first_chunk().map(|first| u32::from_ne_bytes(*first));
        let magic = magic.ok_or(FormatError::Short(bytes.len()))?;
        let (swapped, unit) = match magic {
            MICROSECONDS => (false, 1000),
            NANOSECONDS => (false, 1),
            _ => match magic.swap_bytes() {
                MICROSECONDS => (true, 1000),
                NANOSECONDS => (true, 1),
                _ => return Err(FormatError::Magic(u32::from_be(magic))),
            },
        };
        let format = Format { swapped, unit };
        let header: &[u8; HEADER] = bytes.first_chunk().ok_or(FormatError::Short(bytes.len()))?;
        // The upper bits say whether frames end in a check sequence, and are mostly wrong.
        match format.word(header, 20) & 0xffff {
            ETHERNET => Ok(format),
            other => Err(FormatError::LinkType(other)),
        }
    }

    /// Reads the record header before the next packet.
    #[inline]
    pub(super) fn record(self, bytes: &[u8; RECORD]) -> Record {
        let [seconds, part, len, original] = [0, 4, 8, 12].map(|at| self.word(bytes, at));
        let part = Duration::from_nanos(u64::from(part) * u64::from(self.unit));
        Record { at: Some(Duration::from_secs(seconds.into()) + part), len, original }
    }

    /// Reads the word at `at`, which lies within the bytes.
    #[inline]
    fn word<const N: usize>(self, bytes: &[u8; N], at: usize) -> u32 {
        let mut word = [0; 4];
        word.copy_from_slice(&bytes[at..at + 4]);
        let word = u32::from_ne_bytes(word);
        if self.swapped { word.swap_bytes() } else { word }
    }
}

/// Returns the header of a file with nanoseconds.
pub(in crate::port) fn header() -> [u8; HEADER] {
    // Version 2.4: two halves of a word, the first one at the lower address.
    let version = if cfg!(target_endian = "big") { 2 << 16 | 4 } else { 4 << 16 | 2 };
    words([NANOSECONDS, version, 0, 0, PACKET_MAX as u32, ETHERNET])
}

/// Returns the record header for the first `len` bytes of a packet of `original` bytes that was written at `at`.
#[inline]
pub(in crate::port) fn record(at: Duration, len: usize, original: usize) -> [u8; RECORD] {
    // Seconds wrap in 2106, as in every file of this format.
    words([at.as_secs() as u32, at.subsec_nanos(), len as u32, original as u32])
}

#[inline]
fn words<const WORDS: usize, const BYTES: usize>(words: [u32; WORDS]) -> [u8; BYTES] {
    const { assert!(BYTES == 4 * WORDS) };
    let mut bytes = [0; BYTES];
    for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header of the other byte order: magic, version 2.4, zone, accuracy, snap length, link type.
    fn foreign(magic: u32, link_type: u32) -> Vec<u8> {
        let swap = |word: u32| word.swap_bytes().to_ne_bytes();
        [magic, 0x0002_0004, 0, 0, 65535, link_type].into_iter().flat_map(swap).collect()
    }

    #[test]
    fn what_is_written_is_read_back() {
        let format = Format::of(&header()).unwrap();
        assert_eq!(format, Format { swapped: false, unit: 1 });
        let at = Duration::new(1_700_000_000, 987_654_321);
        assert_eq!(format.record(&record(at, 60, 60)), Record { at: Some(at), len: 60, original: 60 });
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn the_header_is_the_one_of_the_specification() {
        let bytes = [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
        assert_eq!(header(), bytes);
    }

    #[test]
    fn the_other_byte_order_and_microseconds_are_understood() {
        let format = Format::of(&foreign(MICROSECONDS, 1)).unwrap();
        assert_eq!(format, Format { swapped: true, unit: 1000 });
        let words = [5_u32, 7, 60, 1500].map(|word| word.swap_bytes().to_ne_bytes());
        let record = format.record(words.as_flattened().first_chunk().unwrap());
        assert_eq!(record, Record { at: Some(Duration::new(5, 7_000)), len: 60, original: 1500 });
        assert_eq!(Format::of(&foreign(NANOSECONDS, 1)).unwrap().unit, 1);
    }

    #[test]
    fn a_fraction_of_more_than_a_second_is_carried() {
        let format = Format::of(&foreign(MICROSECONDS, 1)).unwrap();
        let words = [u32::MAX; 4].map(u32::to_ne_bytes);
        let record = format.record(words.as_flattened().first_chunk().unwrap());
        assert!(record.at > Some(Duration::from_secs(u32::MAX.into())));
    }

    #[test]
    fn other_files_are_refused_and_told_apart() {
        assert_eq!(Format::of(&[]), Err(FormatError::Short(0)));
        assert_eq!(Format::of(&header()[..23]), Err(FormatError::Short(23)));
        assert_eq!(Format::of(b"\x7fELF...."), Err(FormatError::Magic(0x7f45_4c46)));
        assert_eq!(Format::of(&foreign(MICROSECONDS, 113)), Err(FormatError::LinkType(113)));
        assert!(Format::of(&foreign(MICROSECONDS, 0x2400_0001)).is_ok(), "with a check sequence, it says");
    }
}
