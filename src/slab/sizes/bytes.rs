//! A box of bytes.

use super::Sizes;
use crate::slab::{Damage, Misuse};
use crate::sync::Worker;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Some bytes of a [`Sizes`], yours alone: move-only, derefs to `[u8]`.
///
/// Give it back with [`Sizes::free_bytes`]; dropped anywhere else, on any thread, it goes home by a slower way.
///
/// ```compile_fail,E0382
/// # fn f(sizes: netmem::slab::Sizes, w: &mut netmem::sync::Worker, bytes: netmem::slab::Bytes) {
/// sizes.free_bytes(w, bytes);
/// println!("{}", bytes[0]); // freed bytes cannot be read
/// # }
/// ```
pub struct Bytes {
    /// Invariant: an allocation of a [`Sizes`] that nobody else claims, with room for `len` bytes, all written.
    at: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes are this box's alone, and `Sizes::release` takes them on any thread.
unsafe impl Send for Bytes {}
// SAFETY: a shared box gives only shared bytes.
unsafe impl Sync for Bytes {}

impl Bytes {
    /// # Safety
    /// What the invariant says; the claim moves into the box.
    pub(super) unsafe fn claim(at: NonNull<u8>, len: usize) -> Bytes {
        Bytes { at, len }
    }

    /// Gives the claim up: whoever takes the pointer frees it.
    pub fn into_raw(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).at
    }
}

impl Sizes {
    /// Puts zeroes into `len` bytes, in a box that needs no freeing.
    #[track_caller]
    pub fn bytes(&self, w: &mut Worker, len: usize) -> Option<Bytes> {
        let at = self.alloc_zeroed(w, len)?;
        // SAFETY: allocated for `len` bytes just now, and all are written.
        Some(unsafe { Bytes::claim(at, len) })
    }

    /// Copies `bytes` into a box that needs no freeing.
    #[track_caller]
    pub fn bytes_from(&self, w: &mut Worker, bytes: &[u8]) -> Option<Bytes> {
        let at = self.alloc(w, bytes.len())?;
        // SAFETY: allocated for as many bytes just now, so nobody else has them, and all are written.
        unsafe {
            at.copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
            Some(Bytes::claim(at, bytes.len()))
        }
    }

    /// Gives a box back, faster than by dropping it; one of another memory goes home to its own.
    #[inline]
    #[track_caller]
    pub fn free_bytes(&self, w: &mut Worker, bytes: Bytes) {
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
        let _refused = unsafe { Sizes::release(at) };
    }
}

impl Deref for Bytes {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the invariant of `at`; `&self` excludes a writer.
        unsafe { std::slice::from_raw_parts(self.at.as_ptr(), self.len) }
    }
}

impl DerefMut for Bytes {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: the invariant of `at`; `&mut self` is the only claim.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bytes").field("at", &self.at).field("len", &self.len).finish()
    }
}

impl Drop for Bytes {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the invariant of `at`; the claim ends here.
        // Where a cache reports misuse and someone wrote past these bytes, they stay out.
        let _refused = unsafe { Sizes::release(self.at) };
    }
}
