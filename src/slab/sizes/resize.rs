//! `krealloc`.

use super::SizeClasses;
use crate::slab::Misuse;
use crate::sync::Worker;
use std::ptr::NonNull;

impl SizeClasses {
    /// Resizes an allocation to `bytes`: in place if there is room, otherwise in a new place, to which the contents
    /// move. Returns None if there is no memory; the old allocation is unchanged then.
    ///
    /// It never moves to become smaller. `bytes` of 0 frees it and returns [`SizeClasses::ZERO`].
    ///
    /// # Errors
    /// As [`SizeClasses::free`]; the old allocation is unchanged then.
    ///
    /// # Safety
    /// As [`SizeClasses::size_of`]; the claim on `at` becomes a claim on the result.
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
        // SAFETY: both hold at least the smaller number of bytes, and no other code has the new one.
        unsafe { to.copy_from_nonoverlapping(at, room.min(bytes)) };
        // SAFETY: the caller's promise.
        if let Err(misuse) = unsafe { self.free(w, at) } {
            // SAFETY: allocated above, and no other code knows of it.
            unsafe { self.free(w, to)? };
            return Err(misuse);
        }
        Ok(Some(to))
    }
}
