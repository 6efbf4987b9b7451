//! The contents of a frame without its claim: the position of the data.

use crate::limits::FRAME_SIZE_MAX;
use crate::sys::region;
use crate::wire::offload::VIRTIO_LEN;
use std::num::{NonZeroU32, NonZeroU64};

/// There is less room than requested; nothing has changed. Eight bytes, so that it travels in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{wanted} bytes wanted where there are {room}")]
pub struct NoRoom {
    /// Bytes requested; `u32::MAX` for more than that.
    pub wanted: u32,
    /// Bytes available; `u32::MAX` for more than that.
    pub room: u32,
}

impl NoRoom {
    /// `wanted` bytes were requested, but there are only `room`.
    #[cold]
    pub(crate) fn of(wanted: usize, room: usize) -> NoRoom {
        let [wanted, room] = [wanted, room].map(|bytes| u32::try_from(bytes).unwrap_or(u32::MAX));
        NoRoom { wanted, room }
    }

    /// Returns `wanted` if there is that much room. No frame has more room than its 32 KiB.
    #[inline(always)]
    pub(super) fn check(wanted: usize, room: usize) -> Result<u16, NoRoom> {
        if wanted > room { Err(NoRoom::of(wanted, room)) } else { Ok(wanted as u16) }
    }
}

/// The bit of `off` that says that [metadata](super::metadata) lies at the frame's start. It is free, because no frame
/// is longer. The bit alone is the end of the longest frame, where empty data may begin. Without data the bit means
/// nothing, so taking data off needs no check of it.
pub(super) const METADATA: u16 = FRAME_SIZE_MAX as u16;

/// The number of bytes of metadata: a `struct virtio_net_hdr` and a timestamp.
pub(crate) const METADATA_LEN: usize = VIRTIO_LEN + size_of::<u64>();

/// The contents of a frame without its claim, as they lie in rings and come back from devices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Desc {
    /// Process-wide number of the frame's first chunk.
    pub(crate) id: NonZeroU32,
    /// Bytes from the chunk's start to the data. If the bit [`METADATA`] is set too, metadata lies at the chunk's start.
    pub(crate) off: u16,
    /// Bytes of data.
    pub(crate) len: u16,
}

impl Desc {
    /// The word of a [`Frame`](super::Frame) with these contents.
    #[inline(always)]
    pub(super) fn word(self) -> NonZeroU64 {
        NonZeroU64::from(self.id) | u64::from(self.off) << 32 | u64::from(self.len) << 48
    }

    /// The upper half of [`Desc::word`].
    #[inline(always)]
    pub(super) fn upper(self) -> u32 {
        u32::from(self.off) | u32::from(self.len) << 16
    }

    /// Bytes from the chunk's start to the data; 0 for empty data at the end of the longest frame.
    #[inline(always)]
    pub(super) fn begins_at(self) -> usize {
        usize::from(self.off & (METADATA - 1))
    }

    /// The address of the data's first byte. No code reads at the address of empty data.
    #[inline(always)]
    pub(super) fn start(self) -> *mut u8 {
        region::address(self.id.get()).wrapping_add(self.begins_at())
    }

    /// Bytes from the chunk's start to the data's end. The end lies within 32 KiB of the start.
    #[inline(always)]
    pub(super) fn end(self) -> usize {
        usize::from(self.plain().off) + usize::from(self.len)
    }

    /// Whether metadata lies at the chunk's start.
    #[inline(always)]
    pub(super) fn has_metadata(self) -> bool {
        self.off > METADATA && self.len > 0
    }

    /// Bytes before the data, without the bytes of metadata.
    #[cold]
    #[inline(never)]
    pub(super) fn room_before(self) -> usize {
        let off = usize::from(self.plain().off);
        if self.settled().has_metadata() { off - METADATA_LEN } else { off }
    }

    /// The position of the data, without metadata.
    #[inline(always)]
    pub(super) fn plain(self) -> Desc {
        if self.off & METADATA == 0 { self } else { self.plain_rarely() }
    }

    #[cold]
    #[inline(never)]
    fn plain_rarely(self) -> Desc {
        let off = if self.off > METADATA { self.off - METADATA } else { self.off };
        Desc { off, ..self }
    }
}
