//! HOT: a worker's own lists of free pages, orders 0..=3. Orders 4..=9 have shorter lists ([`Large`]).
//!
//! Each order has a LIFO of page numbers, in the form in which [`Page`](super::Page) holds them. There is no atomic, no
//! lock and no access to a descriptor.

use super::config::{ListSize, Lists, ORDERS};
use super::large::Large;
use super::stats::PageLane;
use super::table::MARK;
use crate::sys::lifo::Lifo;

/// A worker that only frees moves up to 2^5 batches at once, as in Linux (`CONFIG_PCP_BATCH_SCALE_MAX`).
const SCALE_MAX: u32 = 5;

/// One worker's lists. All pages in them belong to its home node.
#[derive(Debug)]
pub(crate) struct Local {
    pub(super) lists: [Blocks; ORDERS],
    pub(super) large: Large,
    /// The number of the home node's first page, and the number of its pages.
    first: u32,
    len: u32,
    pub(super) home: usize,
}

impl Local {
    /// Makes empty lists for a worker whose share is `share` pages and whose home is the node with these pages.
    pub(super) fn new(lists: Lists, share: usize, home: usize, (first, len): (u32, u32)) -> Self {
        let large = Large::new(lists.large(share));
        let lists = std::array::from_fn(|order| Blocks::new(lists.size(order as u8, share)));
        Local { lists, large, first, len, home }
    }

    /// Moves to another node. The caller has drained the lists.
    pub(super) fn set_home(&mut self, home: usize, (first, len): (u32, u32)) {
        (self.home, self.first, self.len) = (home, first, len);
    }

    /// Whether `number` is the number of a single page of the home node. A number with the mark of larger blocks and of
    /// reserve pages is outside every node's range.
    #[inline(always)]
    pub(super) fn is_single_of_home(&self, number: u32) -> bool {
        number.wrapping_sub(self.first) < self.len
    }

    /// Whether the block with this number belongs to the home node.
    pub(super) fn is_of_home(&self, number: u32) -> bool {
        self.is_single_of_home(number & !MARK)
    }

    /// Takes the next block of an order, and counts it in `lane`.
    #[inline(always)]
    pub(super) fn pop(&mut self, order: u8, lane: &PageLane) -> Option<u32> {
        let Some(list) = self.lists.get_mut(usize::from(order)) else { return self.pop_large(order, lane) };
        let number = list.stack.pop()?;
        lane.lists[usize::from(order)].take(1);
        Some(number)
    }

    /// Keeps a block of the home node, and counts it in `lane`. Returns false if the list is full or the order has no
    /// list.
    #[inline(always)]
    pub(super) fn push(&mut self, order: u8, number: u32, lane: &PageLane) -> bool {
        let Some(list) = self.lists.get_mut(usize::from(order)) else {
            return self.push_large(order, number, lane);
        };
        if list.stack.push(number).is_err() {
            return false;
        }
        lane.lists[usize::from(order)].put(1);
        true
    }

    #[inline(always)]
    fn pop_large(&mut self, order: u8, lane: &PageLane) -> Option<u32> {
        let number = self.large.pop(order)?;
        lane.large.take(1 << order);
        lane.allocated.add(1);
        Some(number)
    }

    #[inline(always)]
    fn push_large(&mut self, order: u8, number: u32, lane: &PageLane) -> bool {
        if !self.large.push(order, number) {
            return false;
        }
        lane.large.put(1 << order);
        lane.freed.add(1);
        true
    }

    /// Keeps as many of these blocks of the home node as there is room for. Returns how many.
    pub(super) fn keep(&mut self, order: u8, numbers: &[u32], lane: &PageLane) -> usize {
        let Some(list) = self.lists.get_mut(usize::from(order)) else { return 0 };
        let n = list.stack.extend(numbers, |&number| number);
        lane.lists[usize::from(order)].settle(list.stack.len());
        n
    }

    /// Gives the lists other sizes. The coldest blocks for which there is no room come out, and all larger blocks.
    pub(super) fn resize(&mut self, lists: Lists, share: usize, lane: &PageLane, mut give: impl FnMut(u32)) {
        for (order, (list, counts)) in self.lists.iter_mut().zip(&lane.lists).enumerate() {
            list.resize(lists.size(order as u8, share), &mut give);
            counts.settle(list.stack.len());
        }
        self.large.drain(give);
        self.large = Large::new(lists.large(share));
        self.settle_large(lane);
    }

    /// Handles an empty list. Returns how many blocks to get from the node, at least `least` if the list has room.
    pub(super) fn missed(&mut self, order: u8, least: usize) -> usize {
        match self.lists.get_mut(usize::from(order)) {
            Some(list) => list.missed().max(least),
            None => {
                self.large.missed(order);
                1
            }
        }
    }

    /// Takes all blocks out.
    pub(crate) fn drain(&mut self, lane: &PageLane, mut give: impl FnMut(u32)) {
        for (list, counts) in self.lists.iter_mut().zip(&lane.lists) {
            list.stack.drain(&mut give);
            counts.settle(0);
        }
        self.large.drain(give);
        self.settle_large(lane);
    }

    /// Lets the lists of larger blocks decay by a block.
    pub(super) fn decay_large(&mut self, lane: &PageLane, give: impl FnMut(u32)) {
        self.large.decay(give);
        self.settle_large(lane);
    }

    fn settle_large(&self, lane: &PageLane) {
        lane.large.settle(self.large.pages());
    }
}

/// One order's list.
///
/// The stack's limit is the number of blocks that it keeps now, at least `least` and at most the stack's capacity. In a
/// fixed list all three are equal.
#[derive(Debug)]
pub(super) struct Blocks {
    pub(super) stack: Lifo<u32>,
    least: u32,
    /// Blocks that move from or to the node at once.
    batch: u32,
    /// Overflows since the last miss.
    overflows: u32,
}

impl Blocks {
    fn new(size: ListSize) -> Self {
        let mut stack = Lifo::new(size.most);
        stack.set_limit(size.least);
        // Numbers of blocks have 31 bits.
        let [least, batch] = [size.least, size.batch].map(|blocks| u32::try_from(blocks).unwrap_or(u32::MAX));
        Blocks { stack, least, batch, overflows: 0 }
    }

    /// Restarts with another size. The coldest blocks for which there is no room come out.
    fn resize(&mut self, size: ListSize, give: impl FnMut(u32)) {
        let mut before = std::mem::replace(self, Blocks::new(size));
        before.stack.coldest(before.stack.len().saturating_sub(self.stack.limit()), give);
        self.stack.extend(before.stack.pop_slice(before.stack.len()), |&number| number);
    }

    fn least(&self) -> usize {
        self.least as usize
    }

    fn batch(&self) -> usize {
        self.batch as usize
    }

    /// Handles an empty list. Returns how many blocks to get from the node.
    pub(super) fn missed(&mut self) -> usize {
        self.overflows = 0;
        self.grow();
        self.batch().min(self.stack.limit()).max(1)
    }

    /// Handles a full list. Returns how many blocks to give to the node, or 0 if the list has grown instead.
    pub(super) fn overflowed(&mut self) -> usize {
        let after_miss = self.overflows == 0;
        let scale = self.overflows.saturating_sub(1).min(SCALE_MAX);
        self.overflows = self.overflows.saturating_add(1);
        if self.least() == self.stack.capacity() {
            return self.batch();
        }
        if after_miss && self.grow() {
            return 0;
        }
        // A batch stays for the allocations that may come next, as in Linux.
        let batch = self.batch();
        (batch << scale).min(self.stack.limit().saturating_sub(batch).max(batch))
    }

    /// Lets the list hold one more batch, within its bounds. Returns whether it grew.
    fn grow(&mut self) -> bool {
        let before = self.stack.limit();
        self.stack.set_limit(before + self.batch());
        before < self.stack.limit()
    }

    /// Lets the list hold an eighth less, within its bounds. Returns how many blocks it holds in excess.
    pub(super) fn decay(&mut self) -> usize {
        let limit = self.stack.limit();
        self.stack.set_limit((limit - limit.div_ceil(8)).max(self.least()));
        self.stack.len().saturating_sub(self.stack.limit())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::limits::CACHE_LINE;
    use crate::sync::Slot;
    use std::mem;

    fn tuned(least: usize, most: usize, batch: usize) -> Blocks {
        Blocks::new(ListSize { least, most, batch })
    }

    #[test]
    fn a_tuned_list_takes_blocks_until_it_has_as_many_as_it_may_have_now() {
        let mut local = Local::new(Lists::Tuned { least: 63, most: 500 }, 4096, 0, (0, 4096));
        let lane = PageLane::default();
        let high = local.lists[0].stack.limit();
        assert!(high > 0 && high < local.lists[0].stack.capacity(), "there is room for more");
        assert_eq!((1..).take_while(|&number| local.push(0, number, &lane)).count(), high);
        assert_eq!(
            (local.lists[0].stack.room(), local.keep(0, &[7], &lane), lane.lists[0].len()),
            (0, 0, high as u64)
        );
        local.pop(0, &lane).unwrap();
        assert_eq!((local.keep(0, &[7, 8], &lane), lane.lists[0].len()), (1, high as u64));
    }

    #[test]
    fn what_a_hit_counts_lies_in_one_line() {
        let both_counts = mem::offset_of!(PageLane, lists) + 2 * size_of::<u64>();
        assert!(Slot::<Local, PageLane>::GAUGES_AT + both_counts <= CACHE_LINE);
    }

    #[test]
    fn a_fixed_list_moves_its_batch_whatever_comes() {
        let mut list = tuned(128, 128, 32);
        assert!((0..20).all(|_| list.overflowed() == 32));
        assert!((0..20).all(|_| list.missed() == 32));
        assert_eq!((list.stack.limit(), list.decay()), (128, 0));
    }

    #[test]
    fn a_tuned_list_grows_with_misses_to_its_bound_and_decays_to_the_other() {
        let mut list = tuned(63, 500, 63);
        let highs: Vec<usize> = (0..8)
            .map(|_| {
                list.missed();
                list.stack.limit()
            })
            .collect();
        assert_eq!(highs, [126, 189, 252, 315, 378, 441, 500, 500]);
        assert_eq!(list.stack.push(1), Ok(()));
        list.decay();
        assert_eq!(list.stack.limit(), 437, "an eighth less");
        assert!((0..40).all(|_| list.decay() == 0));
        assert_eq!(list.stack.limit(), 63);
        while list.stack.room() > 0 {
            list.stack.push(2).unwrap();
        }
        list.stack.set_limit(300);
        assert_eq!(list.decay(), 0);
    }

    #[test]
    fn a_tuned_list_that_is_only_freed_into_doubles_its_batch_thirty_two_times_at_most() {
        let mut list = tuned(63 * 40, 63 * 41, 63);
        let moves: Vec<usize> = (0..9).map(|_| list.overflowed()).collect();
        assert_eq!(moves, [0, 63, 126, 252, 504, 1008, 2016, 2016, 2016], "it grew first");
        list.missed();
        assert_eq!(list.overflowed(), 63, "a miss ends the doubling; the list is at its bound");
        let mut list = tuned(100, 189, 63);
        let moves: Vec<usize> = (0..9).map(|_| list.overflowed()).collect();
        assert_eq!(moves, [0, 63, 100, 100, 100, 100, 100, 100, 100], "a batch stays in the list");
    }
}
