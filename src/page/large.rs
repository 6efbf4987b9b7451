//! HOT: a worker's own lists of larger free blocks, orders 4 to 9: one or two blocks each, by demand.
//!
//! A list keeps as many blocks as allocations did not find in it, up to two. All lists together keep at most a sixteenth of
//! the worker's share.

use crate::limits::LOCAL_ORDER_MAX;
use std::mem;

/// The lowest order of these lists.
const FIRST: u8 = LOCAL_ORDER_MAX + 1;
/// The number of lists. The highest order is 9, blocks of 2 MiB.
pub(super) const LISTS: usize = 6;
/// Maximum number of blocks in a list.
const MOST: usize = 2;
/// In a place: no block. The number of a larger block has the mark, and so is never 0.
const NOTHING: u32 = 0;

/// The lists of one worker.
///
/// A list has no length: while a block is taken and kept in turn, each call would wait for the length that the other
/// stored.
#[derive(Debug, Default)]
pub(super) struct Large {
    /// The numbers of the blocks in each list.
    places: [[u32; MOST]; LISTS],
    /// The number of places that each list uses now. Invariant: the others have nothing, and blocks in all the used places
    /// would have `most` pages at most.
    high: [u8; LISTS],
    most: u32,
}

/// The pages of a block of the `list`-th list.
fn pages(list: usize) -> usize {
    1 << (usize::from(FIRST) + list)
}

/// The list of an order, if it has one.
#[inline(always)]
fn list_of(order: u8) -> Option<usize> {
    order.checked_sub(FIRST).map(usize::from).filter(|at| *at < LISTS)
}

impl Large {
    /// Makes empty lists that keep at most `most` pages together.
    pub(super) fn new(most: u32) -> Large {
        Large { most, ..Large::default() }
    }

    /// Takes a block of an order.
    #[inline(always)]
    pub(super) fn pop(&mut self, order: u8) -> Option<u32> {
        self.take(list_of(order)?)
    }

    /// Takes a block of a list.
    #[inline(always)]
    fn take(&mut self, at: usize) -> Option<u32> {
        let place = self.places[at].iter_mut().find(|place| **place != NOTHING)?;
        Some(mem::replace(place, NOTHING))
    }

    /// Keeps a block. Returns false if there is no room, or the order has no list.
    #[inline(always)]
    pub(super) fn push(&mut self, order: u8, number: u32) -> bool {
        let Some(at) = list_of(order) else { return false };
        let mut places = self.places[at].iter_mut().take(usize::from(self.high[at]));
        let Some(place) = places.find(|place| **place == NOTHING) else { return false };
        *place = number;
        true
    }

    /// Handles an empty list: it keeps one more block from now on, if need be at the cost of lists that do not have
    /// all the blocks that they may keep.
    pub(super) fn missed(&mut self, order: u8) {
        let Some(at) = list_of(order).filter(|&at| usize::from(self.high[at]) < MOST) else { return };
        let others = (0..LISTS).rev().filter(|&other| other != at);
        let unused = |large: &Large, other| usize::from(large.high[other]) - large.len(other);
        let spare: usize = others.clone().map(|other| unused(self, other) * pages(other)).sum();
        if self.room() + spare < pages(at) {
            return;
        }
        for other in others {
            while self.room() < pages(at) && unused(self, other) > 0 {
                // There is a place for every block.
                let _ = self.shrink(other);
            }
        }
        self.high[at] += 1;
    }

    /// The pages that no list may keep yet.
    fn room(&self) -> usize {
        let may_keep: usize =
            self.high.iter().enumerate().map(|(at, &high)| usize::from(high) * pages(at)).sum();
        self.most as usize - may_keep
    }

    /// Lets each list keep one block less. The excess blocks come out.
    pub(super) fn decay(&mut self, give: impl FnMut(u32)) {
        (0..LISTS).filter_map(|at| self.shrink(at)).for_each(give);
    }

    /// Lets a list use one place less. Returns the block for which there is no place any more.
    fn shrink(&mut self, at: usize) -> Option<u32> {
        self.high[at] = self.high[at].checked_sub(1)?;
        let (used, rest) = self.places[at].split_at_mut(usize::from(self.high[at]));
        let last = mem::replace(&mut rest[0], NOTHING);
        match used.iter_mut().find(|place| **place == NOTHING) {
            Some(place) => *place = last,
            None if last != NOTHING => return Some(last),
            None => {}
        }
        None
    }

    /// Takes all blocks out.
    pub(super) fn drain(&mut self, mut give: impl FnMut(u32)) {
        for at in 0..LISTS {
            while let Some(number) = self.take(at) {
                give(number);
            }
        }
    }

    /// The number of blocks in a list.
    fn len(&self, at: usize) -> usize {
        self.places[at].iter().filter(|place| **place != NOTHING).count()
    }

    /// The pages in all lists.
    pub(super) fn pages(&self) -> usize {
        (0..LISTS).map(|at| self.len(at) * pages(at)).sum()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_list_keeps_as_many_blocks_as_were_wanted_in_vain_and_two_at_most() {
        let mut large = Large::new(1000);
        assert!(!large.push(4, 1), "nobody wanted one");
        for wanted in [1, 2, 2] {
            large.missed(4);
            assert_eq!((1..=3).filter(|&number| large.push(4, number)).count(), wanted);
            assert_eq!((large.pages(), large.pop(9)), (16 * wanted, None));
            let mut out = Vec::new();
            large.drain(|number| out.push(number));
            assert_eq!(out.len(), wanted);
        }
        assert_eq!((large.pages(), large.pop(4)), (0, None));
    }

    #[test]
    fn all_lists_together_keep_no_more_pages_than_there_is_room_for() {
        let mut large = Large::new(16 + 512);
        large.missed(9);
        assert!(large.push(9, 7));
        for order in (0..=u8::MAX).chain(0..=u8::MAX) {
            large.missed(order);
        }
        assert!(large.push(4, 9) && !large.push(4, 10), "16 pages were left");
        assert!(!large.push(8, 8), "there is no room beside the block that is kept");
        assert!(!large.push(3, 11) && !large.push(10, 12), "orders without such a list");
        assert_eq!((large.pages(), large.pop(9)), (528, Some(7)));
        large.missed(8);
        assert!(large.push(8, 8) && !large.push(8, 13) && !large.push(9, 7), "the place of the larger block");
        assert_eq!(large.pages(), 272);
    }

    #[test]
    fn whatever_is_wanted_and_kept_the_lists_keep_no_more_than_their_room_and_lose_nothing() {
        for room in [0, 16, 100, 512, 1000, 4000] {
            let (mut large, mut kept_now, mut seed) =
                (Large::new(room as u32), std::collections::BTreeSet::new(), 7_u32);
            for number in 1..20_000 {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let order = (seed >> 28) as u8;
                match seed >> 24 & 7 {
                    0 => large.missed(order),
                    1 if seed >> 20 & 15 == 0 => large.decay(|number| assert!(kept_now.remove(&number))),
                    1..5 if large.push(order, number) => assert!(kept_now.insert(number)),
                    5.. => assert!(large.pop(order).is_none_or(|number| kept_now.remove(&number))),
                    _ => {}
                }
                assert!(large.pages() <= room);
                assert_eq!((0..LISTS).map(|at| large.len(at)).sum::<usize>(), kept_now.len());
            }
            large.drain(|number| assert!(kept_now.remove(&number)));
            assert!(kept_now.is_empty());
        }
    }

    #[test]
    fn a_list_that_decays_gives_its_blocks_one_by_one() {
        let mut large = Large::new(1000);
        large.missed(5);
        large.missed(5);
        assert!(large.push(5, 1) && large.push(5, 2));
        let mut out = Vec::new();
        for _ in 0..3 {
            large.decay(|number| out.push(number));
        }
        assert_eq!((out, large.pages(), large.push(5, 3)), (vec![2, 1], 0, false));
    }
}
