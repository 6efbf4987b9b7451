//! One slot of a burst, for the code that fills or empties it. An item as large as a cache line is made and taken in
//! place.

use std::mem::MaybeUninit;
use std::ops::Deref;

/// A free slot, to be filled. If it is dropped, it stays free and ends the burst.
#[derive(Debug)]
pub(crate) struct Vacant<'a, T> {
    place: &'a mut MaybeUninit<T>,
    filled: &'a mut u32,
}

impl<'a, T> Vacant<'a, T> {
    /// Wraps a free slot, and the count of filled slots.
    #[inline(always)]
    pub(super) fn new(place: &'a mut MaybeUninit<T>, filled: &'a mut u32) -> Vacant<'a, T> {
        Vacant { place, filled }
    }

    /// Puts an item into the slot.
    #[inline(always)]
    pub(crate) fn fill(self, item: T) {
        self.place.write(item);
        *self.filled += 1;
    }

    /// The memory of the slot, to write an item by parts.
    #[inline(always)]
    pub(crate) fn place(&mut self) -> &mut MaybeUninit<T> {
        self.place
    }

    /// Records that an item was written.
    ///
    /// # Safety
    /// The memory of the slot is initialised.
    #[inline(always)]
    pub(crate) unsafe fn filled(self) {
        *self.filled += 1;
    }
}

/// The oldest waiting item, to be read and taken. If this is dropped, the item stays and ends the burst.
#[derive(Debug)]
pub(crate) struct Waiting<'a, T> {
    /// Invariant: initialised, and not counted as taken.
    item: &'a mut MaybeUninit<T>,
    taken: &'a mut u32,
}

impl<'a, T> Waiting<'a, T> {
    /// Wraps an item, and the count of taken items.
    ///
    /// # Safety
    /// The item is initialised, and is not read any more once it is counted.
    #[inline(always)]
    pub(super) unsafe fn new(item: &'a mut MaybeUninit<T>, taken: &'a mut u32) -> Waiting<'a, T> {
        Waiting { item, taken }
    }

    /// Takes the item.
    #[inline(always)]
    pub(crate) fn take(self) -> T {
        *self.taken += 1;
        // SAFETY: the field's invariant; it is counted, so this is the only time.
        unsafe { self.item.assume_init_read() }
    }

    /// Takes the item without reading it. Contents that were not copied out before are forgotten.
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
