//! The elements of a capture, one after the other: of a classic pcap file or a pcapng file.

use super::format::{Format, FormatError, HEADER, PACKET_MAX, RECORD, Record};
use super::pcapng::Pcapng;

/// The state of reading a capture.
#[derive(Debug)]
pub(super) enum Capture {
    /// Unknown before the first bytes have come: the input is a pipe.
    Unread,
    /// A header, and 16 bytes before each packet.
    Classic(Format),
    /// Blocks.
    Pcapng(Pcapng),
}

/// The next element of a capture.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Unknown until more bytes are there.
    More,
    /// That many bytes that are not a packet.
    Skip(u64),
    /// A packet that is no Ethernet frame, and as many bytes to skip.
    OtherLink(u64),
    /// A packet.
    Packet(Located),
}

/// A packet, and its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) record: Record,
    /// Offset of its bytes.
    pub(super) start: usize,
    /// Number of bytes up to the next element.
    pub(super) size: u64,
}

/// The reason why a capture cannot be read on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// The format cannot be read, or the packet's link type is not Ethernet.
    Format(FormatError),
    /// The capture is damaged; the text says how.
    Damaged(String),
}

impl Bad {
    /// The capture names a packet length above the maximum.
    #[cold]
    pub(super) fn too_long(len: u32) -> Bad {
        Bad::Damaged(format!("says that a packet has {len} bytes"))
    }
}

impl Capture {
    /// Returns the format of the capture that begins with `bytes`. [`HEADER`] bytes are enough.
    pub(super) fn of(bytes: &[u8]) -> Result<Capture, FormatError> {
        if Pcapng::is_begun_by(bytes) {
            Ok(Capture::Pcapng(Pcapng::default()))
        } else {
            Format::of(bytes).map(Capture::Classic)
        }
    }

    /// Resets the state: the capture begins again. Returns the number of bytes before its first packet or block.
    pub(super) fn begin(&mut self) -> u64 {
        match self {
            Capture::Unread => 0,
            Capture::Classic(_) => HEADER as u64,
            Capture::Pcapng(pcapng) => {
                *pcapng = Pcapng::default();
                0
            }
        }
    }

    /// Returns the first element in `bytes`.
    ///
    /// # Errors
    /// Returns [`Bad`]. Nothing more can be read afterwards.
    #[inline]
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Next, Bad> {
        let format = match self {
            Capture::Classic(format) => *format,
            Capture::Pcapng(pcapng) => return pcapng.next(bytes),
            Capture::Unread => return self.look_at(bytes),
        };
        let Some(head) = bytes.first_chunk() else { return Ok(Next::More) };
        let record = format.record(head);
        let size = RECORD + record.len as usize;
        if record.len as usize > PACKET_MAX {
            return Err(Bad::too_long(record.len));
        }
        let here = bytes.len() >= size;
        Ok(if here { Next::Packet(Located { record, start: RECORD, size: size as u64 }) } else { Next::More })
    }

    /// The packet was received that [`next`](Self::next) returned with that `size`.
    #[inline]
    pub(super) fn pass_packet(&mut self, size: u64) {
        if let Capture::Pcapng(pcapng) = self {
            pcapng.pass_packet(size);
        }
    }

    /// Returns whether the capture may end behind the elements that were returned.
    pub(super) fn is_between(&self) -> bool {
        !matches!(self, Capture::Pcapng(pcapng) if !pcapng.is_between())
    }

    /// Detects the format by the first bytes.
    #[cold]
    fn look_at(&mut self, bytes: &[u8]) -> Result<Next, Bad> {
        if bytes.len() < HEADER {
            return Ok(Next::More);
        }
        *self = Capture::of(bytes).map_err(Bad::Format)?;
        Ok(Next::Skip(self.begin()))
    }
}
