//! One slot of a burst, in the hands of whoever fills or empties it: an item as large as a cache line is made and taken
//! where it lies.

use std::mem::MaybeUninit;
use std::ops::Deref;

/// A free slot, to be filled; dropped, it stays free and ends the burst.
#[derive(Debug)]
pub(crate) struct Vacant<'a, T> {
    place: &'a mut MaybeUninit<T>,
    filled: &'a mut u32,
}

impl<'a, T> Vacant<'a, T> {
    /// A free slot, and the count of those that were filled.
    #[inline(always)]
    pub(super) fn new(place: &'a mut MaybeUninit<T>, filled: &'a mut u32) -> Vacant<'a, T> {
        Vacant { place, filled }
    }

    /// Puts an item there.
    #[inline(always)]
    pub(crate) fn fill(self, item: T) {
        self.place.write(item);
        *self.filled += 1;
    }

    /// The place, to write an item by parts.
    #[inline(always)]
    pub(crate) fn place(&mut self) -> &mut MaybeUninit<T> {
        self.place
    }

    /// Says that an item was written.
    ///
    /// # Safety
    /// The place is initialised.
    #[inline(always)]
    pub(crate) unsafe fn filled(self) {
        *self.filled += 1;
    }
}

/// An item that waits, the oldest, to be looked at and taken; dropped, it stays and ends the burst.
#[derive(Debug)]
pub(crate) struct Waiting<'a, T> {
    /// Invariant: initialised, and not counted as taken.
    item: &'a mut MaybeUninit<T>,
    taken: &'a mut u32,
}

impl<'a, T> Waiting<'a, T> {
    /// An item, and the count of those that were taken.
    ///
    /// # Safety
    /// The item is initialised, and is not read any more once it is counted.
    #[inline(always)]
    pub(super) unsafe fn new(item: &'a mut MaybeUninit<T>, taken: &'a mut u32) -> Waiting<'a, T> {
        Waiting { item, taken }
    }

    /// Takes it.
    #[inline(always)]
    pub(crate) fn take(self) -> T {
        *self.taken += 1;
        // SAFETY: the field's invariant; it is counted, so this is the only time.
        unsafe { self.item.assume_init_read() }
    }

    /// Takes it without reading it: what was not copied out of it before is forgotten.
    #[inline(always)]
    pub(crate) fn forget(self) {
        *self.taken += 1;
    }
}

impl<T> Deref for Waiting<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: the field's invariant.
        unsafe { self.item.assume_init_ref() }
    }
}
