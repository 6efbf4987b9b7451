//! The structure of every owner-only cache: a bounded array that works last in, first out.
//!
//! Page lists, frame caches and sheaves of objects are this array with different constants. Items that leave in bulk
//! for another user come from the cold end.

use crate::limits::CACHE_LINE;
use crate::sys::aligned_array::AlignedArray;
use crate::sys::cpu::by_one_register;

/// An array of up to a fixed number of `T`, newest last.
///
/// The item that was put last is often taken next, before its store has completed. For this reason both operations
/// reach the item through one register.
#[derive(Debug)]
pub(crate) struct Lifo<T> {
    items: AlignedArray<T, CACHE_LINE>,
    len: usize,
    /// Items to move at once between this array and the store below it; at most the capacity.
    pub(crate) batch: usize,
}

impl<T: Copy + Default> Lifo<T> {
    pub(crate) fn new(capacity: usize, batch: usize) -> Self {
        Lifo { items: AlignedArray::new(capacity, T::default), len: 0, batch: batch.min(capacity) }
    }

    /// Takes the newest item.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        // In an empty array the newest index is usize::MAX, so one check covers both cases.
        let newest = self.len.wrapping_sub(1);
        let item = *by_one_register(self.items.get_mut(newest)?);
        self.len = newest;
        Some(item)
    }

    /// Takes the newest `n` items, or all if there are fewer. The oldest of them comes first.
    #[inline(always)]
    pub(crate) fn pop_slice(&mut self, n: usize) -> &[T] {
        let end = self.len;
        self.len -= n.min(end);
        self.items.get(self.len..end).unwrap_or_default()
    }

    /// Takes the newest `n` items, oldest first. Returns None if there are fewer.
    #[inline(always)]
    pub(crate) fn pop_exactly(&mut self, n: usize) -> Option<&[T]> {
        let rest = self.len.checked_sub(n)?;
        let items = self.items.get(rest..rest + n)?;
        self.len = rest;
        Some(items)
    }

    /// Puts an item. Returns false if the array is full.
    #[inline(always)]
    pub(crate) fn push(&mut self, item: T) -> bool {
        let len = self.len;
        let Some(place) = self.items.get_mut(len) else { return false };
        *by_one_register(place) = item;
        // Not `+= 1`: the compiler must assume that the write of the item changed the length.
        self.len = len + 1;
        true
    }

    /// Puts the items that `item` makes from `from`, from the first on, until the array is full. Returns how many it
    /// put.
    ///
    /// It takes a slice instead of an iterator, so that the copy is a few vector instructions.
    #[inline(always)]
    pub(crate) fn extend<S>(&mut self, from: &[S], item: impl Fn(&S) -> T) -> usize {
        let (len, n) = (self.len, from.len().min(self.room()));
        let places = &mut self.items[len..len + n];
        places.iter_mut().zip(from).for_each(|(place, from)| *place = item(from));
        self.len = len + n;
        n
    }

    /// Returns the next `n` slots for the caller to write. Their contents count as items from now on. Returns None if
    /// there is no room for `n` items.
    #[inline(always)]
    pub(crate) fn places(&mut self, n: usize) -> Option<&mut [T]> {
        let end = self.len + n;
        let places = self.items.get_mut(self.len..end)?;
        self.len = end;
        Some(places)
    }

    /// Takes out the `n` oldest items, or all if there are fewer.
    pub(crate) fn coldest(&mut self, n: usize, mut give: impl FnMut(T)) {
        let n = n.min(self.len);
        self.items[..n].iter().for_each(|&item| give(item));
        self.items.copy_within(n..self.len, 0);
        self.len -= n;
    }

    /// Copies the oldest items into an array and takes them out, as many as the array has room for. Returns how many.
    pub(crate) fn coldest_into(&mut self, into: &mut [T]) -> usize {
        let n = into.len().min(self.len);
        into[..n].copy_from_slice(&self.items[..n]);
        self.items.copy_within(n..self.len, 0);
        self.len -= n;
        n
    }

    /// Iterates over the items, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.items[..self.len].iter()
    }

    /// Takes all items out.
    pub(crate) fn drain(&mut self, give: impl FnMut(T)) {
        self.coldest(self.len, give);
    }

    /// The number of items.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The number of items that an empty array has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.items.len()
    }

    /// The number of items that there is still room for.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.items.len() - self.len
    }
}

#[cfg(test)]
mod tests {
    use super::Lifo;

    #[test]
    fn the_newest_comes_out_first_and_the_oldest_leave_in_bulk() {
        let mut lifo = Lifo::new(4, 2);
        assert_eq!(lifo.extend(&[1, 2, 3, 4, 5, 6], |&item| item), 4);
        assert!(!lifo.push(5));
        let mut cold = Vec::new();
        lifo.coldest(2, |i| cold.push(i));
        assert_eq!((cold, lifo.room()), (vec![1, 2], 2));
        assert_eq!(lifo.pop_slice(9), [3, 4]);
        assert_eq!((lifo.pop(), lifo.len()), (None, 0));
    }
}
