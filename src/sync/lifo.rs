//! The one shape of every owner-only cache: a bounded array, the last one in is the first one out.
//!
//! Page lists, frame caches and sheaves of objects are this array with other constants. What is taken out in
//! bulk for someone else comes from the cold end.

use crate::sys::cpu::by_one_register;

/// Up to a fixed number of `T`, newest last.
///
/// What was put last is often taken next, before its store is through: so both reach it by one register.
#[derive(Debug)]
pub(crate) struct Lifo<T> {
    items: Box<[T]>,
    len: usize,
    /// How many to move at once between this array and the store below it; at most the capacity.
    pub(crate) batch: usize,
}

impl<T: Copy + Default> Lifo<T> {
    pub(crate) fn new(capacity: usize, batch: usize) -> Self {
        Lifo { items: vec![T::default(); capacity].into(), len: 0, batch: batch.min(capacity) }
    }

    /// The newest item.
    #[inline(always)]
    pub(crate) fn pop(&mut self) -> Option<T> {
        // Of an empty array the newest would be at usize::MAX: one check for both.
        let newest = self.len.wrapping_sub(1);
        let item = *by_one_register(self.items.get_mut(newest)?);
        self.len = newest;
        Some(item)
    }

    /// The newest `n` items (fewer if there are fewer), oldest of them first.
    #[inline(always)]
    pub(crate) fn pop_slice(&mut self, n: usize) -> &[T] {
        let end = self.len;
        self.len -= n.min(end);
        self.items.get(self.len..end).unwrap_or_default()
    }

    /// The newest `n` items, oldest of them first; None when there are fewer.
    #[inline(always)]
    pub(crate) fn pop_exactly(&mut self, n: usize) -> Option<&[T]> {
        let rest = self.len.checked_sub(n)?;
        let items = self.items.get(rest..rest + n)?;
        self.len = rest;
        Some(items)
    }

    /// Keeps an item; false when the array is full.
    #[inline(always)]
    pub(crate) fn push(&mut self, item: T) -> bool {
        let len = self.len;
        let Some(place) = self.items.get_mut(len) else { return false };
        *by_one_register(place) = item;
        // Not `+= 1`: for all the compiler knows the item was written over the length.
        self.len = len + 1;
        true
    }

    /// Keeps the items that `item` makes of `from`, as many as there is room for, from the first on; returns how many.
    ///
    /// Of a slice, not an iterator: so the copy is a few vector instructions.
    #[inline(always)]
    pub(crate) fn extend<S>(&mut self, from: &[S], item: impl Fn(&S) -> T) -> usize {
        let (len, n) = (self.len, from.len().min(self.room()));
        let places = &mut self.items[len..len + n];
        places.iter_mut().zip(from).for_each(|(place, from)| *place = item(from));
        self.len = len + n;
        n
    }

    /// The next `n` places, for the caller to write: what is in them counts as items from now on. None when there is
    /// no room for as many.
    #[inline(always)]
    pub(crate) fn places(&mut self, n: usize) -> Option<&mut [T]> {
        let end = self.len + n;
        let places = self.items.get_mut(self.len..end)?;
        self.len = end;
        Some(places)
    }

    /// Takes out the `n` items that have lain longest (fewer if there are fewer).
    pub(crate) fn coldest(&mut self, n: usize, mut give: impl FnMut(T)) {
        let n = n.min(self.len);
        self.items[..n].iter().for_each(|&item| give(item));
        self.items.copy_within(n..self.len, 0);
        self.len -= n;
    }

    /// As [`Lifo::coldest`], by a copy into an array, as many as it has room for; returns how many.
    pub(crate) fn coldest_into(&mut self, into: &mut [T]) -> usize {
        let n = into.len().min(self.len);
        into[..n].copy_from_slice(&self.items[..n]);
        self.items.copy_within(n..self.len, 0);
        self.len -= n;
        n
    }

    /// The items, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.items[..self.len].iter()
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self, give: impl FnMut(T)) {
        self.coldest(self.len, give);
    }

    /// Items inside.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Items there is room for when it is empty.
    pub(crate) fn capacity(&self) -> usize {
        self.items.len()
    }

    /// Items there is room for.
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
