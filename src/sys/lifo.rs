//! HOT: the structure of every owner-only cache: a bounded array that works last in, first out.
//!
//! Page lists, frame caches, sheaves of objects, free heads and ready packets are this array with different constants.
//! Items that leave in bulk for another user come from the cold end. Numbers are copied in bulk (`numbers.rs`), and
//! items with an owner are moved from and to a vector (`moved.rs`).
//!
//! Unsafe code: the pointers stay inside the array. The items below the top are initialised and belong to the array.

mod item;
mod moved;
mod numbers;

pub use item::{Item, Owned};

use super::aligned_array::AlignedArray;
use crate::limits::CACHE_LINE;
use std::mem::{self, MaybeUninit};
use std::ptr::{self, NonNull};
use std::slice;

/// An array of up to a fixed number of `T`, newest last.
///
/// The first item that is put alone lies apart, and is taken before all others. While single items are put and taken in
/// turn, the top stays where it is. Otherwise each pop would wait for the top that the push before it stored, and each
/// push for that of the pop before it (ADR 0016). Items that are put after it lie in the array, so that they cost no more
/// than without it: of a number of items that are put one by one, the first is taken first, then the others, newest
/// first.
///
/// It holds a pointer instead of a length, so that an item is reached without an index.
///
/// The order of the fields leaves no gap: an array of numbers has 32 bytes.
#[derive(Debug)]
#[repr(C)]
pub struct Lifo<T: Item> {
    /// The item that lies apart, if there is one. Invariant: then the top is not at the end of the array.
    apart: T::Place,
    capacity: u32,
    /// The slot behind the newest item of the array. Invariant: inside the array or at its end. The items below it are
    /// initialised and belong to the array.
    top: NonNull<T>,
    /// The first slot. Invariant: there are `capacity` slots, each of which is zero, or holds an item or the bytes of one
    /// that was taken.
    start: NonNull<T>,
    /// Where [`push`](Lifo::push) stops. Invariant: as for `top`, but it may lie below it.
    limit: NonNull<T>,
}

/// The memory of the items.
type Slots<T> = AlignedArray<MaybeUninit<T>, CACHE_LINE>;

// SAFETY: the pointers point into an array that the `Lifo` owns. A place holds an item or nothing.
unsafe impl<T: Item + Send> Send for Lifo<T> {}

impl<T: Item> Lifo<T> {
    /// Makes an empty array with room for `capacity` items.
    ///
    /// # Panics
    /// If they do not fit into memory, or are more than 2^32 - 1.
    #[cold]
    pub fn new(capacity: usize) -> Self {
        const { assert!(size_of::<T>() > 0, "pointers count the items") };
        let slots = u32::try_from(capacity).expect("an array of more than 2^32 - 1 items");
        let start = Slots::<T>::new(capacity, MaybeUninit::zeroed).into_start().cast();
        let mut lifo = Lifo { apart: T::NOTHING, capacity: slots, top: start, start, limit: start };
        lifo.set_limit(capacity);
        lifo
    }

    /// A pointer to the slot with this number.
    ///
    /// # Panics
    /// If the array has fewer items.
    #[inline(always)]
    fn at(&self, number: usize) -> NonNull<T> {
        assert!(number <= self.capacity(), "behind the end of the array");
        // SAFETY: at most at the end of the array.
        unsafe { self.start.add(number) }
    }

    /// Takes the item that lies apart, or else the newest.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        if self.has_apart() {
            return T::out_of(mem::replace(&mut self.apart, T::NOTHING));
        }
        if self.top == self.start {
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
        if self.has_apart() {
            // SAFETY: the top is not at the end of the array while an item lies apart.
            let top = unsafe { self.top.add(1) };
            if top >= self.limit {
                return Err(item);
            }
            // SAFETY: as above.
            unsafe { self.top.write(item) };
            self.top = top;
            return Ok(());
        }
        if self.top >= self.limit {
            return Err(item);
        }
        // There is nothing in the place, so nothing to drop.
        mem::forget(mem::replace(&mut self.apart, item.into_place()));
        Ok(())
    }

    /// Whether an item lies apart.
    #[inline(always)]
    fn has_apart(&self) -> bool {
        T::is_in(&self.apart)
    }

    /// Makes the item that lies apart the newest of the array. Each call for several items begins with this.
    #[inline(always)]
    fn join(&mut self) {
        if !self.has_apart() {
            return;
        }
        // SAFETY: there is an item apart, and so there is a slot at the top. The item is moved. The place is written last,
        // so that the compiler knows its contents in what follows.
        unsafe {
            if let Some(item) = T::out_of(ptr::read(&self.apart)) {
                self.top.write(item);
            }
            self.top = self.top.add(1);
            ptr::write(&mut self.apart, T::NOTHING);
        }
    }

    /// The number of items in the array.
    #[inline(always)]
    fn joined(&self) -> usize {
        // SAFETY: both point into one array, and the top is not below the beginning.
        unsafe { self.top.offset_from_unsigned(self.start) }
    }

    /// The items, oldest first, except that the one that lay apart is the last.
    #[inline(always)]
    pub fn items(&mut self) -> &[T] {
        self.join();
        // SAFETY: the items below the top are initialised.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.joined()) }
    }

    /// The number of items.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.joined() + usize::from(self.has_apart())
    }

    /// The number of items that there is still room for.
    #[inline(always)]
    pub fn room(&self) -> usize {
        if self.top >= self.limit {
            return 0;
        }
        // SAFETY: both point into one array, and the limit is not below the top.
        let slots = unsafe { self.limit.offset_from_unsigned(self.top) };
        slots - usize::from(self.has_apart())
    }

    /// The number of items that the array has room for.
    #[inline(always)]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The number of items from which on no more are put.
    #[inline(always)]
    pub fn limit(&self) -> usize {
        // SAFETY: both point into one array, and the limit is not below the beginning.
        unsafe { self.limit.offset_from_unsigned(self.start) }
    }

    /// Sets that number, to at most the capacity. More items than that stay.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = self.at(limit.min(self.capacity()));
    }

    /// Moves the items behind the `n` oldest to the beginning.
    ///
    /// # Safety
    /// There are `n` items, of which none lies apart. The oldest `n` were moved out or need not be dropped.
    unsafe fn close_up(&mut self, n: usize) {
        let rest = self.joined() - n;
        // SAFETY: the caller's promise: there are `rest` items behind the first `n`.
        unsafe { self.start.copy_from(self.start.add(n), rest) };
        self.top = self.at(rest);
    }
}

impl<T: Item> Drop for Lifo<T> {
    fn drop(&mut self) {
        self.join();
        let items = NonNull::slice_from_raw_parts(self.start, self.joined());
        // SAFETY: the memory that `new` made, which nothing uses after this value. It is given back also if an item panics.
        let _slots = unsafe { Slots::<T>::from_start(self.start.cast(), self.capacity()) };
        // SAFETY: these are the items of the array.
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
        let mut lifo = Lifo::<u32>::new(4);
        assert!((1..=4).all(|item| lifo.push(item).is_ok()));
        assert_eq!(lifo.push(5), Err(5), "the array is full");
        lifo.set_limit(2);
        assert_eq!((lifo.room(), lifo.limit(), lifo.push(5)), (0, 2, Err(5)));
        assert_eq!(lifo.push_slots(1), None);
        assert_eq!(lifo.pop_exactly(3), Some(&[3, 4, 1][..]));
        assert_eq!((lifo.room(), lifo.push(6), lifo.push(7)), (1, Ok(()), Err(7)));
        assert_eq!(lifo.items(), [2, 6]);
        lifo.set_limit(9);
        assert_eq!((lifo.limit(), lifo.capacity(), lifo.room()), (4, 4, 2));
    }

    #[test]
    fn an_item_that_lies_apart_counts_and_leaves_whatever_comes_next() {
        for capacity in 0..4 {
            let mut lifo = Lifo::<u64>::new(capacity);
            let put = (1..=9).take_while(|&item| lifo.push(item).is_ok()).count();
            assert_eq!((put, lifo.len(), lifo.room(), lifo.capacity()), (capacity, capacity, 0, capacity));
            let all = 1..=capacity as u64;
            assert_eq!(lifo.items(), all.clone().skip(1).chain(all.take(1)).collect::<Vec<_>>());
        }
        let two = || {
            let mut lifo = Lifo::<u32>::new(4);
            assert_eq!((lifo.push(2), lifo.push(1), lifo.len(), lifo.room()), (Ok(()), Ok(()), 2, 2));
            lifo
        };
        assert_eq!((two().pop_exactly(3), two().push_slots(3)), (None, None));
        assert_eq!((two().pop_exactly(2), two().pop_slice(1)), (Some(&[1, 2][..]), &[2][..]));
        let mut lifo = two();
        lifo.push_slots(1).unwrap()[0] = 3;
        assert_eq!((lifo.push(4), lifo.push(5), lifo.len()), (Ok(()), Err(5), 4));
        lifo.set_limit(1);
        assert_eq!((lifo.push(6), lifo.room(), lifo.items()), (Err(6), 0, &[1, 2, 3, 4][..]));
        let mut cold = [0; 3];
        assert_eq!(
            (lifo.coldest_into(&mut cold), cold, lifo.pop(), lifo.pop()),
            (3, [1, 2, 3], Some(4), None)
        );
    }

    #[test]
    fn the_newest_comes_out_first_and_the_oldest_leave_in_bulk() {
        let mut lifo = Lifo::<u32>::new(4);
        assert_eq!(lifo.extend(&[1, 2, 3, 4, 5, 6], |&item| item), 4);
        assert_eq!(lifo.push(5), Err(5));
        let mut cold = Vec::new();
        lifo.coldest(2, |i| cold.push(i));
        assert_eq!((cold, lifo.room()), (vec![1, 2], 2));
        assert_eq!(lifo.pop_slice(9), [3, 4]);
        assert_eq!((lifo.pop(), lifo.len()), (None, 0));
    }
}
