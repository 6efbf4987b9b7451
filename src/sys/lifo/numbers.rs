//! HOT: numbers in bulk, which are copied.

use super::{Item, Lifo};
use std::slice;
use zerocopy::FromZeros;

impl<T: Item + Copy + FromZeros> Lifo<T> {
    /// Takes the newest `n` items, or all if there are fewer. The oldest of them comes first.
    #[inline(always)]
    pub fn pop_slice(&mut self, n: usize) -> &[T] {
        self.join();
        self.pop_exactly(n.min(self.joined())).unwrap_or_default()
    }

    /// Takes the newest `n` items, oldest first. Returns None if there are fewer.
    #[inline(always)]
    pub fn pop_exactly(&mut self, n: usize) -> Option<&[T]> {
        self.join();
        if n > self.joined() {
            return None;
        }
        // SAFETY: there are `n` items below the top. The borrow is the only access, and they stay initialised when they
        // are behind the top.
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
        self.join();
        let n = from.len().min(self.room());
        let slots = self.push_slots(n).unwrap_or_default();
        slots.iter_mut().zip(from).for_each(|(slot, from)| *slot = item(from));
        n
    }

    /// Returns the next `n` slots for the caller to write. Their contents count as items from now on. Returns None if
    /// there is no room for `n` items.
    #[inline(always)]
    pub fn push_slots(&mut self, n: usize) -> Option<&mut [T]> {
        self.join();
        if n > self.room() {
            return None;
        }
        // SAFETY: there are `n` slots from the top on. Each holds zeroes or an item, and `T` may be zero. The borrow is
        // the only access.
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

    fn remove_coldest(&mut self, n: usize) {
        // SAFETY: items that are copied need not be dropped.
        unsafe { self.close_up(n) };
    }
}
