//! HOT: the structure of every owner-only cache: a bounded array that works last in, first out.
//!
//! Page lists, frame caches, sheaves of objects, free heads and ready packets are this array with different constants.
//! Items that leave in bulk for another user come from the cold end. Numbers are copied in bulk (`numbers.rs`), and
//! items with an owner are moved from and to a vector (`moved.rs`).
//!
//! Unsafe code: the pointers stay inside the array. The items below the top are initialised and belong to the array.

mod moved;
mod numbers;

use super::aligned_array::AlignedArray;
use crate::limits::CACHE_LINE;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::slice;

/// An array of up to a fixed number of `T`, newest last.
///
/// It holds a pointer instead of a length, so that an item is reached without an index: the item that was put last is
/// often taken next, before its store has completed.
///
/// The order of the fields puts those of [`pop`](Lifo::pop) first.
#[derive(Debug)]
#[repr(C)]
pub struct Lifo<T> {
    /// The slot behind the newest item. Invariant: inside `items` or at its end. The items below it are initialised and
    /// belong to the array.
    top: NonNull<T>,
    /// Invariant: each slot is zero, or holds an item or the bytes of one that was taken.
    items: AlignedArray<MaybeUninit<T>, CACHE_LINE>,
    /// Where [`push`](Lifo::push) stops. Invariant: as for `top`, but it may lie below it.
    limit: NonNull<T>,
}

// SAFETY: both pointers point into `items`, which the `Lifo` owns.
unsafe impl<T: Send> Send for Lifo<T> {}

impl<T> Lifo<T> {
    /// Makes an empty array with room for `capacity` items.
    ///
    /// # Panics
    /// If they do not fit into memory.
    #[cold]
    pub fn new(capacity: usize) -> Self {
        const { assert!(size_of::<T>() > 0, "pointers count the items") };
        let items = AlignedArray::new(capacity, MaybeUninit::<T>::zeroed);
        let top = items.start().cast();
        let mut lifo = Lifo { top, limit: top, items };
        lifo.set_limit(capacity);
        lifo
    }

    /// A pointer to the first slot.
    #[inline(always)]
    fn start(&self) -> NonNull<T> {
        self.items.start().cast()
    }

    /// A pointer to the slot with this number.
    ///
    /// # Panics
    /// If the array has fewer items.
    #[inline(always)]
    fn at(&self, number: usize) -> NonNull<T> {
        assert!(number <= self.items.len(), "behind the end of the array");
        // SAFETY: at most at the end of the array.
        unsafe { self.start().add(number) }
    }

    /// Takes the newest item.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        if self.top == self.start() {
            return None;
        }
        // SAFETY: the top is above the beginning, so there is an item below it. It does not belong to the array any more
        // when the top is below it.
        unsafe {
            // Read before the top is stored: behind that store, the read waits longer (ADR 0016).
            let newest = self.top.sub(1);
            let item = newest.read();
            self.top = newest;
            Some(item)
        }
    }

    /// Puts an item.
    ///
    /// # Errors
    /// The item, if the limit is reached.
    #[inline(always)]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        if self.top >= self.limit {
            return Err(item);
        }
        // SAFETY: the top is below the limit, so there is a slot at it.
        unsafe {
            self.top.write(item);
            self.top = self.top.add(1);
        }
        Ok(())
    }

    /// The items, oldest first.
    #[inline(always)]
    pub fn items(&self) -> &[T] {
        // SAFETY: the items below the top are initialised.
        unsafe { slice::from_raw_parts(self.start().as_ptr(), self.len()) }
    }

    /// The number of items.
    #[inline(always)]
    pub fn len(&self) -> usize {
        // SAFETY: both point into one array, and the top is not below the beginning.
        unsafe { self.top.offset_from_unsigned(self.start()) }
    }

    /// The number of items that there is still room for.
    #[inline(always)]
    pub fn room(&self) -> usize {
        if self.top >= self.limit {
            return 0;
        }
        // SAFETY: both point into one array, and the limit is not below the top.
        unsafe { self.limit.offset_from_unsigned(self.top) }
    }

    /// The number of items that the array has room for.
    pub fn capacity(&self) -> usize {
        self.items.len()
    }

    /// The number of items from which on no more are put.
    pub fn limit(&self) -> usize {
        // SAFETY: both point into one array, and the limit is not below the beginning.
        unsafe { self.limit.offset_from_unsigned(self.start()) }
    }

    /// Sets that number, to at most the capacity. More items than that stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = self.at(limit.min(self.items.len()));
    }

    /// Moves the items behind the `n` oldest to the beginning.
    ///
    /// # Safety
    /// There are `n` items, and the oldest `n` were moved out or need not be dropped.
    unsafe fn close_up(&mut self, n: usize) {
        let (start, rest) = (self.start(), self.len() - n);
        // SAFETY: the caller's promise: there are `rest` items behind the first `n`.
        unsafe { start.copy_from(start.add(n), rest) };
        self.top = self.at(rest);
    }
}

impl<T> Drop for Lifo<T> {
    fn drop(&mut self) {
        let items = NonNull::slice_from_raw_parts(self.start(), self.len());
        self.top = self.start();
        // SAFETY: these were the items below the top.
        unsafe { items.drop_in_place() };
    }
}

#[cfg(test)]
mod tests {
    use super::Lifo;

    #[test]
    fn an_array_without_room_takes_and_gives_nothing() {
        let mut lifo = Lifo::<u64>::new(0);
        assert_eq!((lifo.push(1), lifo.pop(), lifo.len(), lifo.room()), (Err(1), None, 0, 0));
        assert_eq!(lifo.pop_exactly(1), None);
        assert_eq!(lifo.push_slots(1), None);
        assert_eq!(lifo.pop_exactly(0), Some(&[][..]));
        assert!(lifo.items().is_empty());
    }

    #[test]
    fn items_above_a_lowered_limit_stay_and_no_more_are_put() {
        let mut lifo = Lifo::new(4);
        assert!((1..=4).all(|item| lifo.push(item).is_ok()));
        assert_eq!(lifo.push(5), Err(5), "the array is full");
        lifo.set_limit(2);
        assert_eq!((lifo.room(), lifo.limit(), lifo.push(5)), (0, 2, Err(5)));
        assert_eq!(lifo.push_slots(1), None);
        assert_eq!(lifo.pop_exactly(3), Some(&[2, 3, 4][..]));
        assert_eq!((lifo.room(), lifo.push(6), lifo.push(7)), (1, Ok(()), Err(7)));
        assert_eq!(lifo.items(), [1, 6]);
        lifo.set_limit(9);
        assert_eq!((lifo.limit(), lifo.capacity(), lifo.room()), (4, 4, 2));
    }

    #[test]
    fn the_newest_comes_out_first_and_the_oldest_leave_in_bulk() {
        let mut lifo = Lifo::new(4);
        assert_eq!(lifo.extend(&[1, 2, 3, 4, 5, 6], |&item| item), 4);
        assert_eq!(lifo.push(5), Err(5));
        let mut cold = Vec::new();
        lifo.coldest(2, |i| cold.push(i));
        assert_eq!((cold, lifo.room()), (vec![1, 2], 2));
        assert_eq!(lifo.pop_slice(9), [3, 4]);
        assert_eq!((lifo.pop(), lifo.len()), (None, 0));
    }
}
