//! HOT: the structure of every owner-only cache: a bounded array that works last in, first out.
//!
//! Page lists, frame caches and sheaves of objects are this array with different constants. Items that leave in bulk
//! for another user come from the cold end.
//!
//! Unsafe code: the pointers stay inside the array, all items of which are initialised.

use super::aligned_array::AlignedArray;
use crate::limits::CACHE_LINE;
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
    /// The slot behind the newest item. Invariant: inside `items` or at its end.
    top: NonNull<T>,
    items: AlignedArray<T, CACHE_LINE>,
    /// Where [`push`](Lifo::push) stops. Invariant: as for `top`, but it may lie below it.
    limit: NonNull<T>,
}

// SAFETY: both pointers point into `items`, which the stack owns.
unsafe impl<T: Send> Send for Lifo<T> {}
// SAFETY: as above; what takes `&self` only reads.
unsafe impl<T: Sync> Sync for Lifo<T> {}

impl<T: Copy + Default> Lifo<T> {
    /// Makes an empty array with room for `capacity` items.
    ///
    /// # Panics
    /// If they do not fit into memory.
    #[cold]
    pub fn new(capacity: usize) -> Self {
        let items = AlignedArray::new(capacity, T::default);
        let top = items.start();
        let mut lifo = Lifo { top, limit: top, items };
        lifo.set_limit(capacity);
        lifo
    }

    /// A pointer to the slot with this number.
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
            let newest = self.top.sub(1);
            let item = newest.read();
            self.top = newest;
            Some(item)
        }
    }

    /// Puts an item. Returns false if the limit is reached.
    #[inline(always)]
    pub fn push(&mut self, item: T) -> bool {
        if self.top >= self.limit {
            return false;
        }
        // SAFETY: the top is below the limit, so there is a slot at it.
        unsafe {
            self.top.write(item);
            self.top = self.top.add(1);
        }
        true
    }

    /// Takes the newest `n` items, or all if there are fewer. The oldest of them comes first.
    #[inline(always)]
    pub fn pop_slice(&mut self, n: usize) -> &[T] {
        self.pop_exactly(n.min(self.len())).unwrap_or_default()
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

    /// Puts the items that `item` makes from `from`, from the first on, until the limit is reached. Returns how many it
    /// put.
    ///
    /// It takes a slice instead of an iterator, so that the copy is a few vector instructions.
    #[inline(always)]
    pub fn extend<S>(&mut self, from: &[S], item: impl Fn(&S) -> T) -> usize {
        let n = from.len().min(self.room());
        let slots = self.push_slots(n).unwrap_or_default();
        slots.iter_mut().zip(from).for_each(|(slot, from)| *slot = item(from));
        n
    }

    /// Returns the next `n` slots for the caller to write. Their contents count as items from now on. Returns None if
    /// there is no room for `n` items.
    #[inline(always)]
    pub fn push_slots(&mut self, n: usize) -> Option<&mut [T]> {
        if n > self.room() {
            return None;
        }
        // SAFETY: there are `n` slots from the top on. The borrow is the only access.
        unsafe {
            let slots = slice::from_raw_parts_mut(self.top.as_ptr(), n);
            self.top = self.top.add(n);
            Some(slots)
        }
    }

    /// Takes out the `n` oldest items, or all if there are fewer.
    pub fn coldest(&mut self, n: usize, mut give: impl FnMut(T)) {
        let n = n.min(self.len());
        self.items()[..n].iter().for_each(|&item| give(item));
        self.remove_coldest(n);
    }

    /// Copies the oldest items into an array and takes them out, as many as the array has room for. Returns how many.
    pub fn coldest_into(&mut self, into: &mut [T]) -> usize {
        let n = into.len().min(self.len());
        into[..n].copy_from_slice(&self.items()[..n]);
        self.remove_coldest(n);
        n
    }

    /// Takes all items out.
    pub fn drain(&mut self, give: impl FnMut(T)) {
        self.coldest(self.len(), give);
    }

    /// Moves the items behind the `n` oldest to the beginning.
    fn remove_coldest(&mut self, n: usize) {
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
    use super::Lifo;

    #[test]
    fn an_array_without_room_takes_and_gives_nothing() {
        let mut lifo = Lifo::<u64>::new(0);
        assert_eq!((lifo.push(1), lifo.pop(), lifo.len(), lifo.room()), (false, None, 0, 0));
        assert_eq!(lifo.pop_exactly(1), None);
        assert_eq!(lifo.push_slots(1), None);
        assert_eq!(lifo.pop_exactly(0), Some(&[][..]));
        assert!(lifo.items().is_empty());
    }

    #[test]
    fn items_above_a_lowered_limit_stay_and_no_more_are_put() {
        let mut lifo = Lifo::new(4);
        assert!((1..=4).all(|item| lifo.push(item)));
        assert!(!lifo.push(5), "the array is full");
        lifo.set_limit(2);
        assert_eq!((lifo.room(), lifo.limit(), lifo.push(5)), (0, 2, false));
        assert_eq!(lifo.push_slots(1), None);
        assert_eq!(lifo.pop_exactly(3), Some(&[2, 3, 4][..]));
        assert_eq!((lifo.room(), lifo.push(6), lifo.push(7)), (1, true, false));
        assert_eq!(lifo.items(), [1, 6]);
        lifo.set_limit(9);
        assert_eq!((lifo.limit(), lifo.capacity(), lifo.room()), (4, 4, 2));
    }

    #[test]
    fn the_newest_comes_out_first_and_the_oldest_leave_in_bulk() {
        let mut lifo = Lifo::new(4);
        assert_eq!(lifo.extend(&[1, 2, 3, 4, 5, 6], |&item| item), 4);
        assert!(!lifo.push(5));
        let mut cold = Vec::new();
        lifo.coldest(2, |i| cold.push(i));
        assert_eq!((cold, lifo.room()), (vec![1, 2], 2));
        assert_eq!(lifo.pop_slice(9), [3, 4]);
        assert_eq!((lifo.pop(), lifo.len()), (None, 0));
    }
}
