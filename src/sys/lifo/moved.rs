//! HOT: items with an owner in bulk, which are moved from and to a vector. Each is read and written once.

use super::{Item, Lifo};
use std::mem::ManuallyDrop;

impl<T: Item> Lifo<T> {
    /// Takes the newest `n` items, or all if there are fewer, and appends them to `into`, the oldest of them first.
    /// Returns how many. They are copied as a whole, which takes less time than one by one (ADR 0016).
    ///
    /// # Panics
    /// If `into` has no room for them and none can be allocated.
    #[inline(always)]
    pub fn move_newest(&mut self, n: usize, into: &mut Vec<T>) -> usize {
        self.join();
        let (n, end) = (n.min(self.joined()), into.len());
        into.reserve(n);
        // SAFETY: there are `n` items below the top, and `into` has room for as many behind its own. Nothing between can
        // panic.
        unsafe {
            self.top = self.top.sub(n);
            into.as_mut_ptr().add(end).copy_from_nonoverlapping(self.top.as_ptr(), n);
            into.set_len(end + n);
        }
        n
    }

    /// Does the same as [`Lifo::move_newest`], but appends what `make` makes of each item.
    ///
    /// # Panics
    /// As [`Lifo::move_newest`]. A panic of `make` leaks the items.
    #[inline(always)]
    pub fn make_of_newest<U>(&mut self, n: usize, into: &mut Vec<U>, make: impl FnMut(T) -> U) -> usize {
        self.join();
        let (n, end) = (n.min(self.joined()), into.len());
        into.reserve(n);
        // SAFETY: there are `n` items below the top, which do not belong to the array any more when each is read, once.
        // `into` has room for as many results behind its own items. They belong to it when all are written.
        unsafe {
            self.top = self.top.sub(n);
            make_each(self.top.as_ptr(), n, into.as_mut_ptr().add(end), make);
            into.set_len(end + n);
        }
        n
    }

    /// Takes the oldest `n` items, or all if there are fewer, and appends them to `into`.
    ///
    /// # Panics
    /// If `into` has no room for them and none can be allocated.
    pub fn move_oldest(&mut self, n: usize, into: &mut Vec<T>) {
        self.join();
        let (n, end) = (n.min(self.joined()), into.len());
        into.reserve(n);
        // SAFETY: there are `n` items, and `into` has room for as many behind its own. Nothing between can panic.
        unsafe {
            into.as_mut_ptr().add(end).copy_from_nonoverlapping(self.start.as_ptr(), n);
            self.close_up(n);
            into.set_len(end + n);
        }
    }

    /// Puts what `make` makes of the first `n` items of `from`, or of all if there are fewer. The others move up. Returns
    /// false and does nothing if there is not room for all of them.
    ///
    /// # Panics
    /// A panic of `make` leaks all items of `from`.
    #[inline(always)]
    pub fn put_first<S>(&mut self, from: &mut Vec<S>, n: usize, make: impl FnMut(S) -> T) -> bool {
        self.join();
        let n = n.min(from.len());
        if n > self.room() {
            return false;
        }
        let rest = from.len() - n;
        // SAFETY: the first `n` items of `from` are initialised, and do not belong to it any more when each is read,
        // once. There is room for as many above the top. They belong to the array when all are written, and the items
        // behind them belong to `from` again then.
        unsafe {
            from.set_len(0);
            make_each(from.as_ptr(), n, self.top.as_ptr(), make);
            self.top = self.top.add(n);
            from.as_mut_ptr().copy_from(from.as_ptr().add(n), rest);
            from.set_len(rest);
        }
        true
    }

    /// Puts items from the front of `from` as long as `ready` returns true, which may change the item. The item for which
    /// it returns false stays in `from`, and so do all items behind it. Puts none if there is not room for all.
    ///
    /// Each item is loaded and stored once. If items were changed in place, a later copy of all of them would wait for
    /// those stores.
    ///
    /// # Panics
    /// A panic of `ready` leaks all items of `from`.
    #[inline(always)]
    pub fn put_while(&mut self, from: &mut Vec<T>, mut ready: impl FnMut(&mut T) -> bool) {
        self.join();
        let n = from.len();
        if n > self.room() {
            return;
        }
        // SAFETY: the first `n` items of `from` are initialised, and do not belong to it from now on. There is room for
        // `n` above the top. Each item is moved once, or stays in its place.
        unsafe {
            from.set_len(0);
            let (first, mut slot) = (from.as_mut_ptr(), self.top.as_ptr());
            let mut next = first;
            while next != first.add(n) {
                let mut item = ManuallyDrop::new(next.read());
                let is_ready = ready(&mut item);
                let item = ManuallyDrop::into_inner(item);
                if !is_ready {
                    next.write(item);
                    break;
                }
                slot.write(item);
                (next, slot) = (next.add(1), slot.add(1));
            }
            let moved = next.offset_from_unsigned(first);
            self.top = self.top.add(moved);
            if moved < n {
                first.copy_from(next, n - moved);
                from.set_len(n - moved);
            }
        }
    }

    /// Gives the array room for `capacity` items. The oldest that it has no room for any more are appended to `surplus`.
    ///
    /// # Panics
    /// As [`Lifo::new`] and [`Lifo::move_oldest`].
    #[cold]
    pub fn resize(&mut self, capacity: usize, surplus: &mut Vec<T>) {
        self.move_oldest(self.len().saturating_sub(capacity), surplus);
        let mut resized = Lifo::new(capacity);
        // SAFETY: there is room for all items, which belong to the new array from then on.
        unsafe {
            resized.top.copy_from_nonoverlapping(self.start, self.len());
            resized.top = resized.top.add(self.len());
            self.top = self.start;
        }
        *self = resized;
    }
}

/// Writes the result of `make` for each of `n` items.
///
/// # Safety
/// The items are initialised, and the caller may give them away. `slots` has room for as many results, in other memory.
#[inline(always)]
unsafe fn make_each<T, U>(items: *const T, n: usize, slots: *mut U, mut make: impl FnMut(T) -> U) {
    for i in 0..n {
        // SAFETY: the caller's promise, for each of them once.
        unsafe { slots.add(i).write(make(items.add(i).read())) };
    }
}

#[cfg(test)]
mod tests {
    use super::Lifo;
    use std::ops::Range;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    fn counted(numbers: Range<usize>) -> Vec<Arc<usize>> {
        numbers.map(Arc::new).collect()
    }

    fn numbers(items: &[Arc<usize>]) -> Vec<usize> {
        items.iter().map(|item| **item).collect()
    }

    /// An array with room for 8 items that has these.
    fn array(items: &[Arc<usize>]) -> Lifo<Arc<usize>> {
        let mut array = Lifo::new(8);
        assert!(array.put_first(&mut items.to_vec(), usize::MAX, |item| item));
        array
    }

    #[test]
    fn what_lies_apart_is_taken_first_then_the_newest_and_an_array_that_is_full_gives_the_item_back() {
        let held = counted(0..5);
        let mut array = Lifo::new(4);
        let back: Vec<_> = held.iter().filter_map(|item| array.push(Arc::clone(item)).err()).collect();
        assert_eq!((array.len(), numbers(&back)), (4, vec![4]));
        for (n, left) in [(0, 3), (3, 2)] {
            assert_eq!((array.pop(), array.len()), (Some(Arc::clone(&held[n])), left));
        }
        drop((back, array));
        assert!(held.iter().all(|item| Arc::strong_count(item) == 1), "each is dropped once");
    }

    #[test]
    fn the_newest_and_the_oldest_leave_in_order_and_the_others_stay() {
        let held = counted(0..5);
        for n in 0..=6 {
            let n_or_all = n.min(5);
            let rest = 5 - n_or_all;
            let (mut moving, mut moved) = (array(&held), counted(9..10));
            let (mut making, mut made) = (array(&held), vec![9]);
            assert_eq!(moving.move_newest(n, &mut moved), n_or_all);
            assert_eq!(making.make_of_newest(n, &mut made, |item| *item), n_or_all);
            for mut left in [moving, making] {
                assert_eq!(numbers(left.items()), (0..rest).collect::<Vec<_>>());
            }
            assert_eq!((&numbers(&moved), &made), (&made, &[9].into_iter().chain(rest..5).collect()));
            let (mut array, mut oldest) = (array(&held), counted(9..10));
            array.move_oldest(n, &mut oldest);
            assert_eq!(numbers(&oldest[1..]), (0..n_or_all).collect::<Vec<_>>());
            assert_eq!(numbers(array.items()), (n_or_all..5).collect::<Vec<_>>());
        }
        assert!(held.iter().all(|item| Arc::strong_count(item) == 1));
    }

    #[test]
    fn the_first_are_put_in_order_and_the_others_move_up() {
        for n in 0..=5 {
            let held = counted(0..4);
            let (mut from, mut array) = (held.clone(), Lifo::new(8));
            assert!(array.put_first(&mut from, n, |item| (Arc::clone(&item), *item)));
            let (first, rest) = held.split_at(n.min(4));
            assert_eq!(from, rest);
            assert!(array.items().iter().map(|(item, _)| item).eq(first));
            drop((from, array));
            assert!(held.iter().all(|item| Arc::strong_count(item) == 1));
        }
    }

    #[test]
    fn nothing_is_put_if_there_is_not_room_for_all() {
        let (mut array, mut from) = (array(&counted(0..6)), counted(6..9));
        assert!(!array.put_first(&mut from, 3, |item| item));
        array.put_while(&mut from, |_| true);
        array.set_limit(3);
        assert!(!array.put_first(&mut from, 1, |item| item));
        assert_eq!((numbers(array.items()), from.len()), ((0..6).collect(), 3));
    }

    #[test]
    fn what_is_not_ready_stays_with_all_behind_it_and_each_is_dropped_once() {
        for refused in 0..=4 {
            let held = counted(0..4);
            let (mut from, mut array) = (held.clone(), array(&counted(9..10)));
            array.put_while(&mut from, |item| {
                let ready = **item != refused;
                *item = Arc::clone(&held[**item]);
                ready
            });
            assert_eq!(numbers(&from), (refused..4).collect::<Vec<_>>());
            assert_eq!(numbers(&array.items()[1..]), (0..refused).collect::<Vec<_>>());
            drop((from, array));
            assert!(held.iter().all(|item| Arc::strong_count(item) == 1));
        }
    }

    #[test]
    fn an_array_of_another_size_keeps_the_newest() {
        for capacity in [0, 3, 5, 9] {
            let held = counted(0..5);
            let (mut array, mut surplus) = (array(&held), Vec::new());
            array.resize(capacity, &mut surplus);
            let over = 5_usize.saturating_sub(capacity);
            assert_eq!((array.capacity(), array.limit()), (capacity, capacity));
            assert_eq!(numbers(&surplus), (0..over).collect::<Vec<_>>());
            assert_eq!(numbers(array.items()), (over..5).collect::<Vec<_>>());
            drop((array, surplus));
            assert!(held.iter().all(|item| Arc::strong_count(item) == 1));
        }
    }

    #[test]
    fn a_panic_on_the_way_drops_nothing_twice() {
        let held = counted(0..3);
        let (mut from, mut array) = (held.clone(), Lifo::new(8));
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            array.put_while(&mut from, |item| if **item == 1 { panic!("no") } else { true });
        }));
        assert!(panicked.is_err());
        assert_eq!((from.len(), array.len()), (0, 0), "leaked, not dropped twice");
        drop((from, array));
        assert!(held.iter().all(|item| Arc::strong_count(item) == 2));
        // SAFETY: the counts that were leaked, which have no other owner.
        held.iter().for_each(|item| drop(unsafe { std::ptr::read(item) }));
    }
}
