//! Moving items from one array behind those of another, each read and written once.

use std::mem::ManuallyDrop;

/// Moves the newest `n` items of `from` (all, if there are fewer) behind those of `into`, in order; returns how many.
///
/// `drain` and `extend` say the same, and cost seven instructions an item.
///
/// # Panics
/// If `into` has no room for them and none can be allocated.
#[inline(always)]
pub(crate) fn move_last<T>(from: &mut Vec<T>, n: usize, into: &mut Vec<T>) -> usize {
    let n = n.min(from.len());
    let (rest, end) = (from.len() - n, into.len());
    into.reserve(n);
    // SAFETY: the last `n` items are initialised and `into`, another vector, has room for them behind its own. They are no
    // longer `from`'s when they become `into`'s, and nothing between can panic.
    unsafe {
        from.set_len(rest);
        into.as_mut_ptr().add(end).copy_from_nonoverlapping(from.as_ptr().add(rest), n);
        into.set_len(end + n);
    }
    n
}

/// Moves items from the front of `from` behind those of `into` while `ready`, which may change them, says so; returns how
/// many. The one it says no to stays, and all behind it.
///
/// Each is loaded and stored once: what was changed where it lay would be waited for by a copy of them all.
///
/// # Panics
/// As [`move_last`]. A panic of `ready` leaks what was in `from`.
#[inline(always)]
pub(crate) fn move_while<T>(
    from: &mut Vec<T>,
    into: &mut Vec<T>,
    mut ready: impl FnMut(&mut T) -> bool,
) -> usize {
    let (n, end) = (from.len(), into.len());
    into.reserve(n);
    // SAFETY: the first `n` items of `from` are initialised, and from now on not its own; `into`, another vector, has room for
    // `n` behind its own. Each is moved once, or stays where it is.
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
    use super::{move_last, move_while};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    #[test]
    fn the_newest_move_in_order_and_are_dropped_once() {
        let text = |n: usize| n.to_string();
        let (mut from, mut into): (Vec<_>, Vec<_>) = ((0..5).map(text).collect(), vec![text(9)]);
        assert_eq!(move_last(&mut from, 0, &mut into), 0);
        assert_eq!(move_last(&mut from, 2, &mut into), 2);
        assert_eq!((from.concat(), into.concat()), ("012".to_owned(), "934".to_owned()));
        assert_eq!(move_last(&mut from, 9, &mut into), 3);
        assert_eq!((from.concat(), into.concat()), (String::new(), "934012".to_owned()));
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
    }
}
