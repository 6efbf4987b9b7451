//! What a capture is made of, one packet after the other: a classic pcap file's, or a pcapng file's.

use super::format::{Format, FormatError, HEADER, PACKET_MAX, RECORD, Record};
use super::pcapng::Pcapng;

/// How a capture is to be read on.
#[derive(Debug)]
pub(super) enum Capture {
    /// Nobody knows before its first bytes have come: a pipe's.
    Unread,
    /// A header, and 16 bytes before each packet.
    Classic(Format),
    /// Blocks.
    Pcapng(Pcapng),
}

/// What comes next in a capture.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It cannot be told before there are more bytes.
    More,
    /// So many bytes that are no packet.
    Skip(u64),
    /// A packet.
    Packet(Located),
}

/// A packet, and where it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Located {
    pub(super) record: Record,
    /// Where its bytes begin.
    pub(super) start: usize,
    /// Bytes up to what comes after it.
    pub(super) size: u64,
}

/// Why a capture cannot be read on.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It is none that can be read, or the packet is of a link of another type than Ethernet.
    Format(FormatError),
    /// It is damaged: what it does.
    Damaged(String),
}

impl Bad {
    /// It says that a packet is longer than any is.
    #[cold]
    pub(super) fn too_long(len: u32) -> Bad {
        Bad::Damaged(format!("says that a packet has {len} bytes"))
    }
}

impl Capture {
    /// The format of the capture that begins with `bytes`, of which [`HEADER`] are enough.
    pub(super) fn of(bytes: &[u8]) -> Result<Capture, FormatError> {
        if Pcapng::is_begun_by(bytes) {
            Ok(Capture::Pcapng(Pcapng::default()))
        } else {
            Format::of(bytes).map(Capture::Classic)
        }
    }

    /// Forgets what came: the capture begins again. Returns the bytes before its first packet or block.
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

    /// What comes first in `bytes`.
    ///
    /// # Errors
    /// [`Bad`], after which nothing more can be read.
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

    /// Finds out by its first bytes which one it is.
    #[cold]
    fn look_at(&mut self, bytes: &[u8]) -> Result<Next, Bad> {
        if bytes.len() < HEADER {
            return Ok(Next::More);
        }
        *self = Capture::of(bytes).map_err(Bad::Format)?;
        Ok(Next::Skip(self.begin()))
    }
}
