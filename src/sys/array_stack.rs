//! An array that is filled from its beginning, with a pointer to where its next item goes.
//!
//! Unsafe code: the pointers stay inside the array, all items of which are initialised.

use super::aligned_array::AlignedArray;
use crate::limits::CACHE_LINE;
use std::ptr::NonNull;
use std::slice;

/// A stack of `T` in an array on cache lines. It holds a pointer instead of a length, so that an item is reached without an
/// index: the item that was put last is often taken next, before its store has completed.
///
/// The order of the fields puts those of [`pop`](ArrayStack::pop) first.
#[derive(Debug)]
#[repr(C)]
pub struct ArrayStack<T> {
    /// One place behind the newest item. Invariant: inside `items` or at its end.
    top: NonNull<T>,
    items: AlignedArray<T, CACHE_LINE>,
    /// Where [`push`](ArrayStack::push) stops. Invariant: as for `top`, but it may lie below it.
    limit: NonNull<T>,
}

// SAFETY: both pointers point into `items`, which the stack owns.
unsafe impl<T: Send> Send for ArrayStack<T> {}
// SAFETY: as above; what takes `&self` only reads.
unsafe impl<T: Sync> Sync for ArrayStack<T> {}

impl<T: Copy + Default> ArrayStack<T> {
    /// Makes an empty stack with room for `capacity` items.
    ///
    /// # Panics
    /// If they do not fit into memory.
    #[cold]
    pub fn new(capacity: usize) -> Self {
        let items = AlignedArray::new(capacity, T::default);
        let top = items.start();
        let mut stack = ArrayStack { top, limit: top, items };
        stack.set_limit(capacity);
        stack
    }

    /// The place of the item with this number.
    ///
    /// # Panics
    /// If the array has fewer items.
    #[inline(always)]
    fn at(&self, number: usize) -> NonNull<T> {
        assert!(number <= self.items.len(), "behind the end of the array");
        // SAFETY: at most at the end of the array.
        unsafe { self.items.start().add(number) }
    }

    /// Takes the newest item.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        if self.top == self.items.start() {
            return None;
        }
        // SAFETY: the top is above the beginning, so there is an item below it.
        unsafe {
            self.top = self.top.sub(1);
            Some(self.top.read())
        }
    }

    /// Puts an item. Returns false if the limit is reached.
    #[inline(always)]
    pub fn push(&mut self, item: T) -> bool {
        if self.top >= self.limit {
            return false;
        }
        // SAFETY: the top is below the limit, so there is a place at it.
        unsafe {
            self.top.write(item);
            self.top = self.top.add(1);
        }
        true
    }

    /// Takes the newest `n` items, oldest first. Returns None if there are fewer.
    #[inline(always)]
    pub fn pop_exactly(&mut self, n: usize) -> Option<&[T]> {
        if n > self.len() {
            return None;
        }
        // SAFETY: there are `n` items below the top. The borrow is the only access.
        unsafe {
            self.top = self.top.sub(n);
            Some(slice::from_raw_parts(self.top.as_ptr(), n))
        }
    }

    /// Puts `n` items, which the caller writes: until then they are of any value. Returns None if there is no room.
    #[inline(always)]
    pub fn push_exactly(&mut self, n: usize) -> Option<&mut [T]> {
        if n > self.room() {
            return None;
        }
        // SAFETY: there are `n` places from the top on. The borrow is the only access.
        unsafe {
            let places = slice::from_raw_parts_mut(self.top.as_ptr(), n);
            self.top = self.top.add(n);
            Some(places)
        }
    }

    /// Takes out the `n` oldest items.
    ///
    /// # Panics
    /// If there are fewer.
    pub fn remove_oldest(&mut self, n: usize) {
        let len = self.len();
        self.items.copy_within(n..len, 0);
        self.top = self.at(len - n);
    }

    /// The items, oldest first.
    #[inline(always)]
    pub fn items(&self) -> &[T] {
        // SAFETY: so many items are initialised, as all of the array are.
        unsafe { slice::from_raw_parts(self.items.as_ptr(), self.len()) }
    }

    /// The number of items.
    #[inline(always)]
    pub fn len(&self) -> usize {
        // SAFETY: both point into one array, and the top is not below the beginning.
        unsafe { self.top.offset_from_unsigned(self.items.start()) }
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
        unsafe { self.limit.offset_from_unsigned(self.items.start()) }
    }

    /// Sets that number, to at most the capacity. More items than that stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = self.at(limit.min(self.items.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::ArrayStack;

    #[test]
    fn a_stack_without_room_takes_and_gives_nothing() {
        let mut stack = ArrayStack::<u64>::new(0);
        assert_eq!((stack.push(1), stack.pop(), stack.len(), stack.room()), (false, None, 0, 0));
        assert_eq!(stack.pop_exactly(1), None);
        assert_eq!(stack.push_exactly(1), None);
        assert_eq!(stack.pop_exactly(0), Some(&[][..]));
        assert!(stack.items().is_empty());
    }

    #[test]
    fn items_above_a_lowered_limit_stay_and_no_more_are_put() {
        let mut stack = ArrayStack::new(4);
        assert!((1..=4).all(|item| stack.push(item)));
        assert!(!stack.push(5), "the array is full");
        stack.set_limit(2);
        assert_eq!((stack.room(), stack.limit(), stack.push(5)), (0, 2, false));
        assert_eq!(stack.push_exactly(1), None);
        assert_eq!(stack.pop_exactly(3), Some(&[2, 3, 4][..]));
        assert_eq!((stack.room(), stack.push(6), stack.push(7)), (1, true, false));
        assert_eq!(stack.items(), [1, 6]);
        stack.set_limit(9);
        assert_eq!((stack.limit(), stack.capacity(), stack.room()), (4, 4, 2));
    }

    #[test]
    fn the_oldest_leave_from_below() {
        let mut stack = ArrayStack::new(5);
        stack.push_exactly(5).unwrap().copy_from_slice(&[1, 2, 3, 4, 5]);
        stack.remove_oldest(2);
        assert_eq!(stack.items(), [3, 4, 5]);
        assert_eq!((stack.pop(), stack.len()), (Some(5), 2));
    }
}
