//! The structure of every owner-only cache: a bounded array that works last in, first out.
//!
//! Page lists, frame caches and sheaves of objects are this array with different constants. Items that leave in bulk
//! for another user come from the cold end.

use crate::sys::array_stack::ArrayStack;

/// An array of up to a fixed number of `T`, newest last.
#[derive(Debug)]
pub(crate) struct Lifo<T> {
    stack: ArrayStack<T>,
    /// Items to move at once between this array and the store below it; at most the capacity.
    pub(crate) batch: usize,
}

impl<T: Copy + Default> Lifo<T> {
    pub(crate) fn new(capacity: usize, batch: usize) -> Self {
        Lifo { stack: ArrayStack::new(capacity), batch: batch.min(capacity) }
    }

    /// Takes the newest item.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.stack.pop()
    }

    /// Takes the newest `n` items, or all if there are fewer. The oldest of them comes first.
    #[inline(always)]
    pub(crate) fn pop_slice(&mut self, n: usize) -> &[T] {
        self.stack.pop_exactly(n.min(self.stack.len())).unwrap_or_default()
    }

    /// Takes the newest `n` items, oldest first. Returns None if there are fewer.
    #[inline(always)]
    pub(crate) fn pop_exactly(&mut self, n: usize) -> Option<&[T]> {
        self.stack.pop_exactly(n)
    }

    /// Puts an item. Returns false if the limit is reached.
    #[inline(always)]
    pub(crate) fn push(&mut self, item: T) -> bool {
        self.stack.push(item)
    }

    /// Puts the items that `item` makes from `from`, from the first on, until the limit is reached. Returns how many it
    /// put.
    ///
    /// It takes a slice instead of an iterator, so that the copy is a few vector instructions.
    #[inline(always)]
    pub(crate) fn extend<S>(&mut self, from: &[S], item: impl Fn(&S) -> T) -> usize {
        let n = from.len().min(self.stack.room());
        let places = self.stack.push_exactly(n).unwrap_or_default();
        places.iter_mut().zip(from).for_each(|(place, from)| *place = item(from));
        n
    }

    /// Returns the next `n` slots for the caller to write. Their contents count as items from now on. Returns None if
    /// there is no room for `n` items.
    #[inline(always)]
    pub(crate) fn places(&mut self, n: usize) -> Option<&mut [T]> {
        self.stack.push_exactly(n)
    }

    /// Takes out the `n` oldest items, or all if there are fewer.
    pub(crate) fn coldest(&mut self, n: usize, mut give: impl FnMut(T)) {
        let n = n.min(self.stack.len());
        self.stack.items()[..n].iter().for_each(|&item| give(item));
        self.stack.remove_oldest(n);
    }

    /// Copies the oldest items into an array and takes them out, as many as the array has room for. Returns how many.
    pub(crate) fn coldest_into(&mut self, into: &mut [T]) -> usize {
        let n = into.len().min(self.stack.len());
        into[..n].copy_from_slice(&self.stack.items()[..n]);
        self.stack.remove_oldest(n);
        n
    }

    /// Iterates over the items, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.stack.items().iter()
    }

    /// Takes all items out.
    pub(crate) fn drain(&mut self, give: impl FnMut(T)) {
        self.coldest(self.stack.len(), give);
    }

    /// The number of items.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.stack.len()
    }

    /// The number of items that the array has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.stack.capacity()
    }

    /// The number of items that there is still room for.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        self.stack.room()
    }

    /// The number of items from which on no more are put: at first the capacity.
    pub(crate) fn limit(&self) -> usize {
        self.stack.limit()
    }

    /// Sets that number, to at most the capacity. More items than that stay.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.stack.set_limit(limit);
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
