//! COLD: where the objects of a stock are. Other threads take objects and give them back meanwhile.
//!
//! While a query holds the lock of a stock, every thread that uses the stock waits. So a query holds the lock for a slice
//! of the objects at a time, copies what it needs, and computes without the lock. If the stock is closed between two
//! slices, the query ends: its handle names no stock that is opened later.

use crate::code::Code;
use crate::failure::Barred;
use crate::stock::{self, Counts, Moment, Object, Stock};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// Maximum number of objects that a query copies while it holds the lock. `netmem_stock_ledger` names it: 8 KiB are copied
/// in a few microseconds, also from memory.
const SLICE: usize = 512;
/// Maximum number of addresses that a query looks up while it holds the lock. `netmem_stock_ledger` names it. Each can
/// miss the processor's caches twice.
const LOOKUPS: usize = 64;

/// Number of objects in each state.
#[derive(Clone, Copy, Debug, Default)]
pub struct Census {
    pub total: usize,
    pub free: usize,
    /// Out, and in one of the caches that the caller named.
    pub cached: usize,
    /// Out, and in none of these caches.
    pub out: usize,
    /// In one of these caches although free, or in the caches twice.
    pub duplicated: usize,
    /// In one of these caches although not of this stock.
    pub foreign: usize,
}

/// Counts the objects of a stock by state, and returns its counters. `cached` holds the addresses that lie in caches of
/// the program.
///
/// If no object moves meanwhile, each number is exact. Otherwise the total, the free objects and the counters are those
/// of the moment at which the query began, and the others add up to the same total.
#[cold]
pub fn census(word: u64, cached: &[usize]) -> Result<(Census, Counts), Barred> {
    let different = sorted(cached);
    let before = stock::with(word, |stock| stock.moment())?;
    // First, because the caches change fastest.
    let (mut within, mut foreign) = (0, 0);
    for slice in different.chunks(LOOKUPS) {
        let looked_up = |stock: &mut Stock| {
            within += slice.iter().filter(|&&one| stock.is_out(one)).count();
            foreign += slice.iter().filter(|&&one| !stock.has(one)).count();
        };
        stock::with(word, looked_up)?;
    }
    let mut out = 0;
    each_out(word, before.total, |_| out += 1)?;
    if stock::with(word, |stock| stock.moment())? != before {
        // Each slice was seen at another moment, so their sum is that of no moment.
        out = before.total - before.free;
    }
    let Moment { total, free, counts } = before;
    let (inside, duplicated) = (within.min(out), cached.len() - within - foreign);
    Ok((Census { total, free, cached: inside, out: out - inside, duplicated, foreign }, counts))
}

/// Returns the code addresses at which objects of a stock were taken that are out and not among `cached`, with their
/// numbers, largest first.
#[cold]
pub fn holders(word: u64, cached: &[usize]) -> Result<Vec<(Code, u64)>, Barred> {
    let cached = sorted(cached);
    let total = stock::with(word, |stock| stock.moment().total)?;
    let mut by_place = BTreeMap::new();
    each_out(word, total, |object| {
        if cached.binary_search(&object.address).is_err() {
            *by_place.entry(object.at().0).or_insert(0) += 1;
        }
    })?;
    let mut all: Vec<(Code, u64)> = by_place.into_iter().map(|(at, n)| (Code(at), n)).collect();
    all.sort_by_key(|(_, n)| Reverse(*n));
    Ok(all)
}

/// The different addresses, in order.
fn sorted(addresses: &[usize]) -> Vec<usize> {
    let mut sorted = addresses.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted
}

/// Calls `each`, without the lock, with each of the first `total` objects of a stock that is out. Objects that are added
/// meanwhile have larger numbers.
fn each_out(word: u64, total: usize, mut each: impl FnMut(Object)) -> Result<(), Barred> {
    let mut slice: Vec<Object> = Vec::with_capacity(SLICE);
    for from in (0..total).step_by(SLICE) {
        slice.clear();
        let numbers = from..total.min(from + SLICE);
        stock::with(word, |stock| slice.extend_from_slice(stock.numbered(numbers)))?;
        slice.iter().filter(|object| object.is_out()).for_each(|object| each(*object));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    /// It guards against a hang, nothing else.
    const LIMIT: Duration = Duration::from_secs(60);

    /// The addresses of the objects with these numbers, beginning with 1.
    fn addresses(numbers: impl Iterator<Item = usize>) -> Vec<usize> {
        numbers.map(|number| 64 * number).collect()
    }

    /// A stock of so many objects, with room for as many again. The first ones are free.
    fn stock_of(objects: usize, free: usize) -> u64 {
        let word = stock::open("parts", 2 * objects).unwrap();
        let made = stock::with(word, |stock| {
            addresses(1..objects + 1).into_iter().for_each(|one| stock.add(one).unwrap());
            stock.give(&addresses(1..free + 1), Code::UNKNOWN).len()
        });
        assert_eq!(made, Ok(0));
        word
    }

    /// Takes so many objects and gives them back.
    fn move_some(word: u64, n: usize) {
        let mut some = vec![0; n];
        assert_eq!(stock::with(word, |stock| stock.take(&mut some, Code::UNKNOWN)), Ok(true));
        assert_eq!(stock::with(word, |stock| stock.give(&some, Code::UNKNOWN).len()), Ok(0));
    }

    /// Seen: a query of a million objects held the lock for 9 to 15 ms, in which no lcore took an object or gave one back.
    #[test]
    fn threads_take_and_give_objects_while_a_query_goes_through_a_stock() {
        let word = stock_of(3 * SLICE, 8);
        let ((moved, hears), mut seen) = (mpsc::channel(), 0);
        thread::scope(|scope| {
            let said = each_out(word, 3 * SLICE, |_| {
                if seen % SLICE == 0 {
                    let moved = moved.clone();
                    scope.spawn(move || {
                        move_some(word, 8);
                        moved.send(())
                    });
                    assert_eq!(hears.recv_timeout(LIMIT), Ok(()));
                }
                seen += 1;
            });
            assert_eq!((said, seen), (Ok(()), 3 * SLICE - 8));
        });
        assert_eq!(stock::close(word), Ok(3 * SLICE - 8));
    }

    #[test]
    fn a_ledger_adds_up_while_another_thread_moves_objects() {
        let total = 4 * SLICE;
        let word = stock_of(total, total);
        thread::scope(|scope| {
            let mover = scope.spawn(move || (0..50_000).for_each(|n| move_some(word, 1 + n % 32)));
            while !mover.is_finished() {
                let (now, _) = census(word, &[]).unwrap();
                assert_eq!((now.total, now.free + now.out, now.duplicated), (total, total, 0));
                assert!(now.out <= 32, "{now:?}");
            }
        });
        let (now, counts) = census(word, &[]).unwrap();
        assert_eq!((now.free, now.out, counts.given), (total, 0, counts.taken + total as u64));
        assert_eq!(stock::close(word), Ok(0));
    }

    #[test]
    fn a_query_of_a_stock_at_rest_is_exact_over_many_slices() {
        let word = stock_of(4 * SLICE, SLICE);
        // The first of these are free, and one is there twice.
        let mut cached = addresses(SLICE / 2 + 1..3 * SLICE + 1);
        cached.push(64 * 2 * SLICE);
        let (now, _) = census(word, &cached).unwrap();
        assert_eq!((now.total, now.free, now.cached, now.out), (4 * SLICE, SLICE, 2 * SLICE, SLICE));
        assert_eq!(
            (now.duplicated, holders(word, &cached)),
            (SLICE / 2 + 1, Ok(vec![(Code(0), SLICE as u64)]))
        );
        assert_eq!(stock::with(word, |stock| stock.take(&mut [0; 5], Code(7))), Ok(true));
        assert_eq!(holders(word, &[]), Ok(vec![(Code(0), 3 * SLICE as u64), (Code(7), 5)]));
        assert_eq!(stock::close(word), Ok(3 * SLICE + 5));
    }

    #[test]
    fn a_query_ends_with_its_stock_and_does_not_go_on_in_the_next_one() {
        let word = stock_of(2 * SLICE, 0);
        let (mut seen, mut next) = (0, 0);
        let said = each_out(word, 2 * SLICE, |_| {
            if seen == 0 {
                assert_eq!(stock::close(word), Ok(2 * SLICE));
                next = stock_of(2 * SLICE, 0);
            }
            seen += 1;
        });
        assert_eq!((said, seen), (Err(Barred::Closed), SLICE));
        assert!(census(word, &[]).is_err() && holders(word, &[]).is_err());
        assert_eq!(stock::close(next), Ok(2 * SLICE));
    }

    #[test]
    fn objects_that_are_added_or_forgotten_during_a_query_are_not_part_of_it() {
        let word = stock_of(2 * SLICE, 0);
        let mut seen = 0;
        let said = each_out(word, 2 * SLICE, |_| {
            seen += 1;
            let added = stock::with(word, |stock| stock.add(64 * (2 * SLICE + seen)).is_ok());
            assert_eq!(added, Ok(true));
        });
        assert_eq!((said, seen), (Ok(()), 2 * SLICE));
        seen = 0;
        let said = each_out(word, 4 * SLICE, |_| {
            seen += 1;
            let out = stock::with(word, |stock| stock.clear());
            assert_eq!(out, Ok(if seen == 1 { 4 * SLICE } else { 0 }));
        });
        assert_eq!((said, seen), (Ok(()), SLICE));
        assert_eq!(stock::close(word), Ok(0));
    }
}
