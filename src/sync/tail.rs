//! Takes and puts the newest items of an array one at a time, or moves them behind the items of another array. Each
//! item is read and written once.

use crate::sys::cpu::in_one_register;
use std::mem::ManuallyDrop;

/// Takes the newest item.
///
/// `pop` does the same, but waits for an item that was put a moment ago; see [`in_one_register`].
#[inline(always)]
pub(crate) fn take_newest<T>(from: &mut Vec<T>) -> Option<T> {
    let rest = from.len().checked_sub(1)?;
    // SAFETY: the item is initialised, is read once, and does not belong to `from` any more when it is read.
    unsafe {
        from.set_len(rest);
        Some(in_one_register(from.as_ptr().add(rest)).read())
    }
}

/// Puts an item behind the others.
///
/// # Errors
/// The item, if the array is full: this call never allocates.
#[inline(always)]
pub(crate) fn put_newest<T>(into: &mut Vec<T>, item: T) -> Result<(), T> {
    let end = into.len();
    if end == into.capacity() {
        return Err(item);
    }
    // SAFETY: there is room behind the last item, and the value written there belongs to `into` from then on.
    unsafe {
        in_one_register(into.as_mut_ptr().add(end)).cast_mut().write(item);
        into.set_len(end + 1);
    }
    Ok(())
}

/// Moves the newest `n` items of `from` (all, if there are fewer) behind the items of `into`, in order. Returns how
/// many.
///
/// # Panics
/// If `into` has no room for them and none can be allocated.
#[inline(always)]
pub(crate) fn move_last<T>(from: &mut Vec<T>, n: usize, into: &mut Vec<T>) -> usize {
    let n = n.min(from.len());
    let (rest, end) = (from.len() - n, into.len());
    into.reserve(n);
    // SAFETY: the last `n` items are initialised. `into` is another vector and has room for them behind its own. They
    // do not belong to `from` any more when they become `into`'s, and nothing between can panic.
    unsafe {
        from.set_len(rest);
        into.as_mut_ptr().add(end).copy_from_nonoverlapping(from.as_ptr().add(rest), n);
        into.set_len(end + n);
    }
    n
}

/// Converts the newest `n` items of `from` (all, if there are fewer) with `make`, and puts the results behind the items
/// of `into`, in order. Returns how many.
///
/// `drain` and `extend` do the same, but cost seven instructions an item.
///
/// # Panics
/// If `into` has no room for them and none can be allocated. A panic of `make` leaks them.
#[inline(always)]
pub(crate) fn make_of_last<T, U>(
    from: &mut Vec<T>,
    n: usize,
    into: &mut Vec<U>,
    make: impl FnMut(T) -> U,
) -> usize {
    let n = n.min(from.len());
    let (rest, end) = (from.len() - n, into.len());
    into.reserve(n);
    // SAFETY: the last `n` items are initialised. `into` is another vector and has room for as many behind its own. The
    // items do not belong to `from` any more when each is read, once. The results belong to `into` when all are
    // written.
    unsafe {
        from.set_len(rest);
        make_each(from.as_ptr().add(rest), n, into.as_mut_ptr().add(end), make);
        into.set_len(end + n);
    }
    n
}

/// Does the same as [`make_of_last`] with the oldest `n` items; the others move up.
#[inline(always)]
pub(crate) fn make_of_first<T, U>(from: &mut Vec<T>, n: usize, into: &mut Vec<U>, make: impl FnMut(T) -> U) {
    let (n, end) = (n.min(from.len()), into.len());
    let rest = from.len() - n;
    into.reserve(n);
    // SAFETY: the first `n` items are initialised. `into` is another vector and has room for as many behind its own.
    // The items do not belong to `from` any more when each is read, once. The results belong to `into` when all are
    // written. The items behind them belong to `from` again then.
    unsafe {
        from.set_len(0);
        make_each(from.as_ptr(), n, into.as_mut_ptr().add(end), make);
        into.set_len(end + n);
        from.as_mut_ptr().copy_from(from.as_ptr().add(n), rest);
        from.set_len(rest);
    }
}

/// Writes the result of `make` for each of `n` items.
///
/// # Safety
/// The items are initialised, and the caller may give them away. `places` has room for as many results, in other
/// memory.
#[inline(always)]
unsafe fn make_each<T, U>(items: *const T, n: usize, places: *mut U, mut make: impl FnMut(T) -> U) {
    for i in 0..n {
        // SAFETY: the caller's promise, for each of them once.
        unsafe { places.add(i).write(make(items.add(i).read())) };
    }
}

/// Moves items from the front of `from` behind the items of `into` as long as `ready` returns true. `ready` may change
/// the item. Returns how many it moved. The item for which `ready` returned false stays, and so do all items behind it.
///
/// Each item is loaded and stored once. If items were changed in place, a later copy of all of them would wait for
/// those stores.
///
/// # Panics
/// As [`make_of_last`]. A panic of `ready` leaks what was in `from`.
#[inline(always)]
pub(crate) fn move_while<T>(
    from: &mut Vec<T>,
    into: &mut Vec<T>,
    mut ready: impl FnMut(&mut T) -> bool,
) -> usize {
    let (n, end) = (from.len(), into.len());
    into.reserve(n);
    // SAFETY: the first `n` items of `from` are initialised, and do not belong to it from now on. `into` is another
    // vector and has room for `n` behind its own. Each item is moved once, or stays where it is.
    unsafe {
        from.set_len(0);
        let (first, mut place) = (from.as_mut_ptr(), into.as_mut_ptr().add(end));
        let mut next = first;
        while next != first.add(n) {
            let mut item = ManuallyDrop::new(next.read());
            let is_ready = ready(&mut item);
            let item = ManuallyDrop::into_inner(item);
            if !is_ready {
                next.write(item);
                break;
            }
            place.write(item);
            (next, place) = (next.add(1), place.add(1));
        }
        let moved = next.offset_from_unsigned(first);
        into.set_len(end + moved);
        if moved < n {
            first.copy_from(next, n - moved);
            from.set_len(n - moved);
        }
        moved
    }
}

#[cfg(test)]
mod tests {
    use super::{make_of_first, make_of_last, move_last, move_while, put_newest, take_newest};
    use std::ops::Range;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    #[test]
    fn the_newest_is_taken_first_and_an_array_that_is_full_gives_the_item_back() {
        let held: Vec<_> = (0..5).map(Arc::new).collect();
        let mut items = Vec::with_capacity(4);
        let room = items.capacity();
        let back: Vec<_> =
            held.iter().filter_map(|item| put_newest(&mut items, Arc::clone(item)).err()).collect();
        assert_eq!((items.len(), back.len()), (room, held.len() - room));
        for n in (0..room).rev() {
            assert_eq!((take_newest(&mut items), items.len()), (Some(Arc::clone(&held[n])), n));
        }
        drop(back);
        assert!(take_newest(&mut items).is_none() && held.iter().all(|item| Arc::strong_count(item) == 1));
    }

    #[test]
    fn the_newest_move_in_order_as_they_are_or_made_into_others() {
        let items = |from: Range<usize>| from.map(|n| n.to_string()).collect::<Vec<_>>();
        for n in 0..=6 {
            let (mut from, mut into, mut made) = (items(0..5), items(9..10), vec![9]);
            assert_eq!(move_last(&mut from.clone(), n, &mut into), n.min(5));
            assert_eq!(make_of_last(&mut from, n, &mut made, |item| item.parse().unwrap()), n.min(5));
            let rest = 5 - n.min(5);
            assert_eq!((from, into[1..].to_vec()), (items(0..rest), items(rest..5)));
            assert_eq!(made, [9].into_iter().chain(rest..5).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_oldest_move_in_order_the_others_up_and_each_is_dropped_once() {
        for n in 0..=5 {
            let held: Vec<_> = (0..4).map(Arc::new).collect();
            let (mut from, mut into) = (held.clone(), vec![(Arc::new(9), 9)]);
            make_of_first(&mut from, n, &mut into, |item| (Arc::clone(&item), *item));
            let (first, rest) = held.split_at(n.min(4));
            assert_eq!(from, rest);
            assert!(
                into[1..].iter().map(|(item, _)| item).eq(first) && into.iter().all(|(item, n)| **item == *n)
            );
            drop((from, into));
            assert!(held.iter().all(|item| Arc::strong_count(item) == 1));
        }
    }

    #[test]
    fn what_is_not_ready_stays_with_all_behind_it_and_each_is_dropped_once() {
        let counted = |n: usize| Arc::new(n);
        for refused in 0..=4 {
            let held: Vec<_> = (0..4).map(counted).collect();
            let (mut from, mut into) = (held.clone(), vec![counted(9)]);
            let moved = move_while(&mut from, &mut into, |item| {
                let ready = **item != refused;
                *item = Arc::clone(&held[**item]);
                ready
            });
            let left = |items: &[Arc<usize>]| items.iter().map(|item| **item).collect::<Vec<_>>();
            assert_eq!((moved, left(&from)), (refused, (refused..4).collect()));
            assert_eq!(left(&into[1..]), (0..refused).collect::<Vec<_>>());
            drop((from, into));
            assert!(held.iter().all(|item| Arc::strong_count(item) == 1));
        }
    }

    #[test]
    fn a_panic_on_the_way_drops_nothing_twice() {
        let held: Vec<_> = (0..3).map(Arc::new).collect();
        let (mut from, mut into) = (held.clone(), Vec::new());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            move_while(&mut from, &mut into, |item| if **item == 1 { panic!("no") } else { true })
        }));
        assert!(panicked.is_err());
        assert_eq!((from.len(), into.len()), (0, 0), "leaked, not dropped twice");
        drop((from, into));
        assert!(held.iter().all(|item| Arc::strong_count(item) == 2));
        // SAFETY: the counts that were leaked, which have no other owner.
        held.iter().for_each(|item| drop(unsafe { std::ptr::read(item) }));
    }
}
