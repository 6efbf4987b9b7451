//! Copying small slices out of the large memory that they pin.
//!
//! A packet that is kept for long keeps whole frames, however few of their bytes it uses. An attacker who gets one tiny
//! slice of every frame kept would hold all frames. ([brouer17-pages] gives the same reason against large pages that
//! are cut up.) So code that keeps packets condenses them first. A part is copied out if
//!
//! ```text
//!   bytes pinned > bound × max(bytes of the part, 64)
//! ```
//! Linux does this by truesize, and drivers by their copy-break. With frames of 2 KiB, the default bound of 8 copies
//! parts of at most 255 bytes. Afterwards, for all packets held together, `bytes pinned <= bound × bytes held`, where a
//! part of less than 64 bytes counts as 64. The copies lie in slabs of their own size class. The next copies use the
//! free objects of these slabs.

use super::data::Data;
use super::external::External;
use super::packet::Packet;
use crate::limits::CACHE_LINE;
use crate::slab::{SizeClasses, SlabBytes};
use crate::sync::{Steps, Worker};
use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Copies small packets into objects of their size; see the formula in the module's documentation.
#[derive(Debug)]
pub struct CopyBreak {
    sizes: SizeClasses,
    bound: AtomicUsize,
}

/// A copy that is lent to packets.
struct Copied(SlabBytes);

impl AsRef<[u8]> for Copied {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl CopyBreak {
    /// The default maximum of bytes pinned for each byte held.
    pub const BOUND: usize = 8;

    /// The minimum of the bound: a copy's own size class may have nearly twice its bytes.
    pub const BOUND_MIN: usize = 2;

    /// Returns a copy-break that copies into `sizes`, with the default bound.
    pub fn new(sizes: &SizeClasses) -> CopyBreak {
        CopyBreak { sizes: sizes.clone(), bound: AtomicUsize::new(Self::BOUND) }
    }

    /// Maximum of bytes pinned for each byte held.
    pub fn bound(&self) -> usize {
        self.bound.load(Relaxed)
    }

    /// Changes the bound for packets that are condensed from now on. The bound is at least [`CopyBreak::BOUND_MIN`].
    pub fn set_bound(&self, bound: usize) {
        self.bound.store(bound.max(Self::BOUND_MIN), Relaxed);
    }

    /// Returns whether a part of `len` bytes may pin `pinned` bytes.
    fn allows(&self, len: usize, pinned: usize) -> bool {
        pinned <= self.bound().saturating_mul(len.max(CACHE_LINE))
    }

    /// Returns a copy of bytes that pin too much. Returns None if they do not pin too much, or if there is no memory.
    pub(crate) fn copy(&self, w: &mut Worker, bytes: &[u8], pinned: usize) -> Option<SlabBytes> {
        if self.allows(bytes.len(), pinned) { None } else { self.sizes.bytes_from(w, bytes) }
    }

    /// Frees a copy.
    pub(crate) fn free_copy(&self, w: &mut Worker, copy: SlabBytes) {
        self.sizes.free_bytes(w, copy);
    }

    /// Copies out the parts of a packet that pin too much, and frees the memory that they pinned. Returns how many
    /// bytes fewer the packet pins. A part stays as it is if there is no memory for its copy, if it has open offload
    /// work ([`Packet::offload`]), or if it has a timestamp ([`Packet::timestamp`]).
    ///
    /// # Cost
    /// A look at each part, and a copy of at most `pinned / bound` bytes for each part that pins too much.
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
