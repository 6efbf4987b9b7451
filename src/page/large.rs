//! HOT: a worker's own lists of larger free blocks, orders 4 to 9: one or two blocks each, by demand.
//!
//! A list keeps as many blocks as allocations did not find in it, up to two. All lists together keep at most a sixteenth of
//! the worker's share.

use crate::limits::LOCAL_ORDER_MAX;

/// The lowest order of these lists.
const FIRST: u8 = LOCAL_ORDER_MAX + 1;
/// The number of lists. The highest order is 9, blocks of 2 MiB.
pub(super) const LISTS: usize = 6;
/// Maximum number of blocks in a list.
const MOST: usize = 2;

/// The lists of one worker.
#[derive(Debug, Default)]
pub(super) struct Large {
    /// Block numbers, newest last.
    numbers: [[u32; MOST]; LISTS],
    len: [u8; LISTS],
    /// Maximum number of blocks that each list keeps now.
    high: [u8; LISTS],
    /// The pages in all lists together, and their maximum.
    kept: u32,
    most: u32,
}

/// The pages of a block of the `list`-th list.
#[inline(always)]
fn pages(list: usize) -> u32 {
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

    /// Takes the newest block of an order.
    #[inline(always)]
    pub(super) fn pop(&mut self, order: u8) -> Option<u32> {
        self.take(list_of(order)?)
    }

    /// Takes the newest block of a list.
    #[inline(always)]
    fn take(&mut self, at: usize) -> Option<u32> {
        let newest = self.len[at].wrapping_sub(1);
        let number = *self.numbers[at].get(usize::from(newest))?;
        self.len[at] = newest;
        self.kept -= pages(at);
        Some(number)
    }

    /// Keeps a block. Returns false if there is no room, or the order has no list.
    #[inline(always)]
    pub(super) fn push(&mut self, order: u8, number: u32) -> bool {
        let Some(at) = list_of(order) else { return false };
        let (len, kept) = (self.len[at], self.kept + pages(at));
        let Some(place) = self.numbers[at].get_mut(usize::from(len)) else { return false };
        if len >= self.high[at] || kept > self.most {
            return false;
        }
        *place = number;
        self.len[at] = len + 1;
        self.kept = kept;
        true
    }

    /// Handles an empty list: it keeps one more block from now on.
    pub(super) fn missed(&mut self, order: u8) {
        if let Some(at) = list_of(order) {
            self.high[at] = (self.high[at] + 1).min(MOST as u8);
        }
    }

    /// Lets each list keep one block less. The excess blocks come out.
    pub(super) fn decay(&mut self, mut give: impl FnMut(u32)) {
        for at in 0..LISTS {
            self.high[at] = self.high[at].saturating_sub(1);
            if self.len[at] > self.high[at] {
                self.take(at).into_iter().for_each(&mut give);
            }
        }
    }

    /// Takes all blocks out.
    pub(super) fn drain(&mut self, mut give: impl FnMut(u32)) {
        for at in 0..LISTS {
            while let Some(number) = self.take(at) {
                give(number);
            }
        }
    }

    /// The pages inside.
    pub(super) fn kept(&self) -> u32 {
        self.kept
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
            assert_eq!((large.kept(), large.pop(9)), (16 * wanted as u32, None));
            let mut out = Vec::new();
            large.drain(|number| out.push(number));
            assert_eq!(out.len(), wanted);
        }
        assert_eq!((large.kept(), large.pop(4)), (0, None));
    }

    #[test]
    fn all_lists_together_keep_no_more_pages_than_there_is_room_for() {
        let mut large = Large::new(16 + 512);
        (0..2 * u8::MAX as u16).for_each(|order| large.missed(order as u8));
        assert!(large.push(9, 7) && !large.push(8, 8), "16 pages are left");
        assert!(large.push(4, 9) && !large.push(4, 10));
        assert!(!large.push(3, 11) && !large.push(10, 12), "orders without such a list");
        assert_eq!((large.kept(), large.pop(9), large.push(8, 8), large.kept()), (528, Some(7), true, 272));
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
        assert_eq!((out, large.kept(), large.push(5, 3)), (vec![2, 1], 0, false));
    }
}
