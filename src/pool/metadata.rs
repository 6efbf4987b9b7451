//! COLD: the metadata that travels with a packet in its frame, before the headroom.
//!
//! ```text
//!   chunk start                       headroom      off                off + len
//!   ├─ virtio_net_hdr ─┼─ timestamp ─┼─────────────┼─── data ─────────────┼── tailroom ──┤
//! ```
//! One bit of the frame's word says that a frame has metadata. Such a frame has 18 bytes less of headroom. A frame with
//! neither an offload nor a timestamp has no metadata, and the bit is clear.
//!
//! A peer that breaks its promise can write frames of a shared memory. Code that reads a field checks it.

use super::desc::{Desc, METADATA, METADATA_LEN, NoRoom};
use super::frame::Frame;
use crate::sys::region;
use crate::wire::offload::{Offload, VIRTIO_LEN};

/// The metadata of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Metadata {
    /// The work left to be done to the packet: a `struct virtio_net_hdr` whose `csum_start` counts from the frame's
    /// start. All zeros mean nothing.
    pub(super) offload: [u8; VIRTIO_LEN],
    /// The time when the packet was recorded, in nanoseconds since 1970; [`Metadata::NO_TIME`] if it is not known.
    pub(super) timestamp: u64,
}

impl Metadata {
    pub(super) const NO_TIME: u64 = u64::MAX;
    pub(super) const NONE: Metadata = Metadata { offload: [0; VIRTIO_LEN], timestamp: Metadata::NO_TIME };

    /// Whether the offload can belong to data that begins at `off`.
    fn fits(&self, off: u16) -> bool {
        Offload::from_virtio(self.offload)
            .is_ok_and(|offload| offload.checksum.is_none_or(|checksum| off <= checksum.start))
    }
}

impl Desc {
    /// The metadata at the start of a frame that is out. Empty if the frame's bit is not set. An offload whose checksum
    /// starts before the data is left out.
    #[cold]
    #[inline(never)]
    pub(super) fn metadata(self) -> Metadata {
        if !self.has_metadata() {
            return Metadata::NONE;
        }
        let mut bytes = [0; METADATA_LEN];
        let stored: *const u8 = region::address(self.id.get());
        // SAFETY: the frame's first bytes, which are mapped while it is out, and lie before its data. They are copied,
        // and no reference to them is made. No other code writes them: the claim is the frame's only one, or one of
        // those that only read.
        unsafe { stored.copy_to_nonoverlapping(bytes.as_mut_ptr(), METADATA_LEN) };
        let [offload @ .., a, b, c, d, e, f, g, h] = bytes;
        let metadata = Metadata { offload, timestamp: u64::from_ne_bytes([a, b, c, d, e, f, g, h]) };
        let offload = if metadata.fits(self.plain().off) { offload } else { Metadata::NONE.offload };
        Metadata { offload, ..metadata }
    }

    /// The same contents, without the metadata bit if there is no data or no metadata that belongs to it.
    #[cold]
    #[inline(never)]
    pub(super) fn settled(self) -> Desc {
        if self.metadata() == Metadata::NONE { self.plain() } else { self }
    }

    /// As [`Desc::settled`], before the data begins earlier. An offload that does not belong to the data is erased: it
    /// would come back.
    ///
    /// # Safety
    /// The frame is out, and the caller has the only claim on it.
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn settled_for_push(self) -> Desc {
        let settled = self.settled();
        if settled.has_metadata() {
            // SAFETY: the caller's promise; there is room where there is metadata already.
            unsafe { settled.write_metadata(settled.metadata()) };
        }
        settled
    }

    /// Writes the metadata at the frame's start.
    ///
    /// # Safety
    /// The frame is out, the caller has the only claim on it, and its data begins behind the metadata.
    unsafe fn write_metadata(self, metadata: Metadata) {
        let mut bytes = [0; METADATA_LEN];
        bytes[..VIRTIO_LEN].copy_from_slice(&metadata.offload);
        bytes[VIRTIO_LEN..].copy_from_slice(&metadata.timestamp.to_ne_bytes());
        let stored = region::address(self.id.get());
        // SAFETY: the frame's first bytes, which are mapped while it is out, belong to no other code, and lie before
        // its data.
        unsafe { stored.copy_from_nonoverlapping(bytes.as_ptr(), METADATA_LEN) };
    }
}

impl Frame {
    /// Writes the metadata at the frame's start, over earlier metadata. With [`Metadata::NONE`] the frame has none.
    ///
    /// # Errors
    /// [`NoRoom`] if the headroom has no room for it, if the data ends with a frame of 32 KiB, or if there is no data.
    /// The frame is unchanged then.
    pub(super) fn set_metadata(&mut self, metadata: Metadata) -> Result<(), NoRoom> {
        let Desc { id, off, len } = self.desc().plain();
        if metadata == Metadata::NONE {
            self.word = Desc { id, off, len }.word();
            return Ok(());
        }
        NoRoom::check(METADATA_LEN, off.into())?;
        NoRoom::check(1, len.min(METADATA - off - len).into())?;
        // SAFETY: the frame is out, `&mut` makes this the only claim, and there is room before the data.
        unsafe { self.desc().write_metadata(metadata) };
        self.word = Desc { id, off: off | METADATA, len }.word();
        Ok(())
    }
}
