//! A box of bytes.

use super::SizeClasses;
use crate::slab::{Damage, Misuse};
use crate::sync::Worker;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes from a [`SizeClasses`] with one owner: move-only, derefs to `[u8]`.
///
/// Give it back with [`SizeClasses::free_bytes`]; dropped anywhere else, on any thread, it goes home by a slower way.
///
/// ```compile_fail,E0382
/// # fn f(sizes: netmem::slab::SizeClasses, w: &mut netmem::sync::Worker, bytes: netmem::slab::SlabBytes) {
/// sizes.free_bytes(w, bytes);
/// println!("{}", bytes[0]); // freed bytes cannot be read
/// # }
/// ```
pub struct SlabBytes {
    /// Invariant: an allocation of a [`SizeClasses`] that nobody else claims, with room for `len` bytes, all written.
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are this box's alone, and `SizeClasses::release` takes them on any thread.
unsafe impl Send for SlabBytes {}
// SAFETY: a shared box gives only shared bytes.
unsafe impl Sync for SlabBytes {}

impl SlabBytes {
    /// # Safety
    /// What the invariant says; the claim moves into the box.
    pub(super) unsafe fn claim(at: NonNull<u8>, len: usize) -> SlabBytes {
        SlabBytes { at, len }
    }

    /// Gives the claim up: whoever takes the pointer frees it.
    pub fn into_raw(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).at
    }
}

impl SizeClasses {
    /// Puts zeroes into `len` bytes, in a box that needs no freeing.
    #[track_caller]
    pub fn bytes(&self, w: &mut Worker, len: usize) -> Option<SlabBytes> {
        let at = self.alloc_zeroed(w, len)?;
        // SAFETY: allocated for `len` bytes just now, and all are written.
        Some(unsafe { SlabBytes::claim(at, len) })
    }

    /// Copies `bytes` into a box that needs no freeing.
    #[track_caller]
    pub fn bytes_from(&self, w: &mut Worker, bytes: &[u8]) -> Option<SlabBytes> {
        let at = self.alloc(w, bytes.len())?;
        // SAFETY: allocated for as many bytes just now, so nobody else has them, and all are written.
        unsafe {
            at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            Some(SlabBytes::claim(at, bytes.len()))
        }
    }

    /// Gives a box back, faster than by dropping it; one of another memory goes home to its own.
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

/// What is none of this memory's is another one's. Where a cache reports misuse and someone wrote past the bytes, they
/// stay out.
#[cold]
#[inline(never)]
fn refused(at: NonNull<u8>, misuse: &Misuse) {
    if *misuse.damage() == Damage::OutsideSlabs {
        // SAFETY: `at` was in a box, which had the only claim, and nobody took it so far.
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
        // SAFETY: the invariant of `at`; the claim ends here.
        // Where a cache reports misuse and someone wrote past these bytes, they stay out.
        let _refused = unsafe { SizeClasses::release(self.at) };
    }
}
