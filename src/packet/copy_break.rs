//! Copying small slices out of the large memory that they pin.
//!
//! A packet that is kept for long keeps whole frames, however few of their bytes it has: an attacker who gets one tiny
//! slice of every frame held holds all the frames ([brouer17-pages]'s reason against large pages that are cut up). So whoever
//! keeps packets condenses them first. A part is copied out when
//!
//! ```text
//!   bytes pinned > bound × max(bytes of the part, 64)
//! ```
//! which is what Linux does by truesize, and drivers by their copy-break: with frames of 2 KiB the default bound of 8
//! copies what is no longer than 255 bytes. Afterwards, for all packets held together,
//! `bytes pinned <= bound × bytes held`, where a part of less than 64 bytes counts as 64. The copies lie in slabs of their
//! own size, whose free places the next copies fill.

use super::data::Data;
use super::external::External;
use super::packet::Packet;
use crate::limits::CACHE_LINE;
use crate::slab::{SizeClasses, SlabBytes};
use crate::sync::{Steps, Worker};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Copies small packets into objects of their size; see the formula of the module.
#[derive(Debug)]
pub struct CopyBreak {
    sizes: SizeClasses,
    bound: AtomicUsize,
}

/// A copy, lent to packets.
struct Copied(SlabBytes);

impl AsRef<[u8]> for Copied {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl CopyBreak {
    /// Bytes pinned for each byte held, at most, by default.
    pub const BOUND: usize = 8;

    /// The least bound: a copy's own size class may have nearly twice its bytes.
    pub const BOUND_MIN: usize = 2;

    /// Copies into `sizes`, by the default bound.
    pub fn new(sizes: &SizeClasses) -> CopyBreak {
        CopyBreak { sizes: sizes.clone(), bound: AtomicUsize::new(Self::BOUND) }
    }

    /// Bytes pinned for each byte held, at most.
    pub fn bound(&self) -> usize {
        self.bound.load(Relaxed)
    }

    /// Changes the bound, for packets that are condensed from now on; at least [`CopyBreak::BOUND_MIN`].
    pub fn set_bound(&self, bound: usize) {
        self.bound.store(bound.max(Self::BOUND_MIN), Relaxed);
    }

    /// Whether a part of `len` bytes may keep `pinned`.
    fn allows(&self, len: usize, pinned: usize) -> bool {
        pinned <= self.bound().saturating_mul(len.max(CACHE_LINE))
    }

    /// A copy of bytes that pin so much, where that is too much for them; None where it is not, or there is no memory.
    pub(crate) fn copy(&self, w: &mut Worker, bytes: &[u8], pinned: usize) -> Option<SlabBytes> {
        if self.allows(bytes.len(), pinned) { None } else { self.sizes.bytes_from(w, bytes) }
    }

    /// Frees a copy.
    pub(crate) fn free_copy(&self, w: &mut Worker, copy: SlabBytes) {
        self.sizes.free_bytes(w, copy);
    }

    /// Copies out the parts of a packet that pin too much, and gives up what they pinned; returns how many bytes fewer the
    /// packet pins. A part for whose copy there is no memory stays as it is, and so does one to which something
    /// is left to be done ([`Packet::offload`]) or of which it is known when it was recorded ([`Packet::timestamp`]).
    ///
    /// # Cost
    /// A look at each part; a copy of at most `pinned / bound` bytes for those that pin too much.
    pub fn apply(&self, w: &mut Worker, packet: &mut Packet) -> usize {
        let (before, mut steps) = (packet.pinned(), Steps::new());
        packet.each_data_mut(|data| {
            if data.offload().is_none()
                && data.timestamp().is_none()
                && let Some(copy) = self.copy(w, data.bytes(), data.pinned())
            {
                let of_others = mem::replace(data, Data::External(External::new(Copied(copy), drop)));
                // Their code may panic.
                steps.run(|| of_others.free(w));
            }
            true
        });
        steps.end();
        before.saturating_sub(packet.pinned())
    }
}
