//! The object: a box out of a cache.

use super::shared::Shared;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A `T` in a [`Cache`](super::Cache): eight bytes, move-only, derefs to the `T`.
///
/// Give it back with [`Cache::free`](super::Cache::free); dropped anywhere else it goes home by a slower way.
///
/// ```compile_fail,E0382
/// # fn f(cache: netmem::slab::Cache<u64>, w: &mut netmem::sync::Worker, object: netmem::slab::Object<u64>) {
/// cache.free(w, object);
/// println!("{}", *object); // a freed object cannot be read
/// # }
/// ```
#[derive(Debug)]
pub struct Object<T> {
    /// Invariant: initialised, inside an object of a live cache, and claimed by nobody else.
    at: NonNull<T>,
    _owns: PhantomData<T>,
}

const _: () = assert!(size_of::<Option<Object<u64>>>() == 8);

// SAFETY: an Object owns its T like a Box; going home from another thread is what `free_from_anywhere` is for.
unsafe impl<T: Send> Send for Object<T> {}
// SAFETY: a shared Object gives only a shared T.
unsafe impl<T: Sync> Sync for Object<T> {}

impl<T> Object<T> {
    /// Claims the object at `at` and moves `value` into it.
    ///
    /// # Safety
    /// `at` was just taken off a list of a cache whose objects have room and alignment for `T`.
    #[inline(always)]
    pub(super) unsafe fn claim(at: NonNull<u8>, value: T) -> Object<T> {
        let at = at.cast::<T>();
        // SAFETY: the caller's promise: room, alignment, and nobody else at it.
        unsafe { at.write(value) };
        Object { at, _owns: PhantomData }
    }

    /// Moves the value out and gives the claim up.
    #[inline(always)]
    pub(super) fn take(self) -> (NonNull<u8>, T) {
        // SAFETY: the invariant of `at`; the claim is forgotten, so the value is read once.
        let value = unsafe { self.at.read() };
        let at = self.at.cast();
        std::mem::forget(self);
        (at, value)
    }

    /// Moves the value out; the object goes home by the slow way.
    #[cold]
    pub fn into_value(self) -> T {
        let (at, value) = self.take();
        // SAFETY: the claim was this object's and ends here.
        unsafe { Shared::free_from_anywhere(at) }
        value
    }

    /// The object's address.
    #[inline(always)]
    pub(super) fn address(&self) -> NonNull<u8> {
        self.at.cast()
    }
}

impl<T> Deref for Object<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the invariant of `at`.
        unsafe { self.at.as_ref() }
    }
}

impl<T> DerefMut for Object<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the invariant of `at`; `&mut self` is the only claim.
        unsafe { self.at.as_mut() }
    }
}

impl<T> Drop for Object<T> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the invariant of `at`; the value is dropped once and the claim ends here.
        unsafe {
            self.at.drop_in_place();
            Shared::free_from_anywhere(self.at.cast());
        }
    }
}
