//! A box of bytes.

use super::SizeClasses;
use crate::slab::{Damage, Misuse};
use crate::sync::Worker;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes from a [`SizeClasses`] with one owner: move-only, derefs to `[u8]`.
///
/// Give it back with [`SizeClasses::free_bytes`]. A box that is dropped, on any thread, is also freed, more slowly.
///
/// ```compile_fail,E0382
/// # fn f(sizes: netmem::slab::SizeClasses, w: &mut netmem::sync::Worker, bytes: netmem::slab::SlabBytes) {
/// sizes.free_bytes(w, bytes);
/// println!("{}", bytes[0]); // freed bytes cannot be read
/// # }
/// ```
#[must_use = "dropping it frees it on the slow path: give it back with a worker"]
pub struct SlabBytes {
    /// Invariant: an allocation of a [`SizeClasses`] without another claim, with room for `len` bytes, all written.
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes belong to this box alone, and `SizeClasses::release` takes them on any thread.
unsafe impl Send for SlabBytes {}
// SAFETY: a shared box gives only shared bytes.
unsafe impl Sync for SlabBytes {}

impl SlabBytes {
    /// # Safety
    /// As the invariant says; the claim moves into the box.
    pub(super) unsafe fn claim(at: NonNull<u8>, len: usize) -> SlabBytes {
        SlabBytes { at, len }
    }

    /// Gives the claim up. The caller has to free the pointer.
    pub fn into_raw(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).at
    }
}

impl SizeClasses {
    /// Allocates a box of `len` zeroed bytes, which frees itself.
    #[track_caller]
    pub fn bytes(&self, w: &mut Worker, len: usize) -> Option<SlabBytes> {
        let at = self.alloc_zeroed(w, len)?;
        // SAFETY: allocated for `len` bytes just now, and all are written.
        Some(unsafe { SlabBytes::claim(at, len) })
    }

    /// Copies `bytes` into a box, which frees itself.
    #[track_caller]
    pub fn bytes_from(&self, w: &mut Worker, bytes: &[u8]) -> Option<SlabBytes> {
        let at = self.alloc(w, bytes.len())?;
        // SAFETY: allocated for as many bytes just now, so no other code has them, and all are written.
        unsafe {
            at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            Some(SlabBytes::claim(at, bytes.len()))
        }
    }

    /// Frees a box, faster than by dropping it. A box of another memory goes back to that memory.
    #[inline]
    #[track_caller]
    pub fn free_bytes(&self, w: &mut Worker, bytes: SlabBytes) {
        let at = bytes.into_raw();
        // SAFETY: the box had the only claim, and it ends here or in `refused`.
        if let Err(misuse) = unsafe { self.free(w, at) } {
            refused(at, &misuse);
        }
    }
}

/// Frees a pointer that this memory refused, because it belongs to another memory. If a cache reports that bytes past
/// the end were written, the bytes stay out.
#[cold]
#[inline(never)]
fn refused(at: NonNull<u8>, misuse: &Misuse) {
    if *misuse.damage() == Damage::OutsideSlabs {
        // SAFETY: `at` was in a box, which had the only claim, and no code took it so far.
        let _refused = unsafe { SizeClasses::release(at) };
    }
}

impl Deref for SlabBytes {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the invariant of `at`; `&self` excludes a writer.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl DerefMut for SlabBytes {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the invariant of `at`; `&mut self` is the only claim.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for SlabBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlabBytes").field("at", &self.at).field("len", &self.len).finish()
    }
}

impl Drop for SlabBytes {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the invariant of `at`; the claim ends here. If a cache reports that bytes past these were written,
        // they stay out.
        let _refused = unsafe { SizeClasses::release(self.at) };
    }
}
