//! `krealloc`.

use super::SizeClasses;
use crate::slab::Misuse;
use crate::sync::Worker;
use std::ptr::NonNull;

impl SizeClasses {
    /// Makes an allocation hold `bytes`: where it is if there is room, else in a new place, to which the contents
    /// move. None when there is no memory; the old one stays as it is then.
    ///
    /// It never moves to become smaller; `bytes` of 0 frees it and gives [`SizeClasses::ZERO`].
    ///
    /// # Errors
    /// As [`SizeClasses::free`]; the old one stays as it is then.
    ///
    /// # Safety
    /// As [`SizeClasses::size_of`]; the claim on `at` becomes one on what is returned.
    #[track_caller]
    pub unsafe fn resize(
        &self,
        w: &mut Worker,
        at: NonNull<u8>,
        bytes: usize,
    ) -> Result<Option<NonNull<u8>>, Misuse> {
        // SAFETY: the caller's promise.
        let room = unsafe { self.size_of(at) };
        if 0 < bytes && bytes <= room {
            return Ok(Some(at));
        }
        let Some(to) = self.alloc(w, bytes) else { return Ok(None) };
        // SAFETY: both hold at least the smaller number of bytes, and the new one is nobody else's.
        unsafe { to.copy_from_nonoverlapping(at, room.min(bytes)) };
        // SAFETY: the caller's promise.
        if let Err(misuse) = unsafe { self.free(w, at) } {
            // SAFETY: allocated above, and nobody knows of it.
            unsafe { self.free(w, to)? };
            return Err(misuse);
        }
        Ok(Some(to))
    }
}
