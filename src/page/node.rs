//! A node's buddy allocator: free blocks of 2^order pages, orders 0..=10, under one lock.
//!
//! Policy in safe code over page indices and the descriptor table. A block of order `o` begins at a multiple
//! of 2^o, so its buddy is one XOR away.
//!
//! Conservation: the sum over orders of `lists[o].len() << o`, plus the pages of blocks that are out, is the
//! number of pages.

use super::table::{Desc, List, State};
use crate::limits::ORDER_MAX;

/// The free lists; the table itself is shared with those who hold pages.
#[derive(Debug)]
pub(crate) struct Buddy {
    /// Free blocks of each order.
    lists: [List; ORDER_MAX as usize + 1],
    /// Free pages over all orders.
    free: usize,
    /// Set when the last handle went: the pages still out keep the memory.
    pub(crate) closed: bool,
}

impl Buddy {
    /// All of `table` free, in the largest blocks that fit.
    pub(crate) fn new(table: &[Desc]) -> Self {
        let mut buddy = Buddy {
            lists: [const { List::new() }; ORDER_MAX as usize + 1],
            free: table.len(),
            closed: false,
        };
        let mut page = 0;
        while page < table.len() {
            let fits = (table.len() - page).ilog2() as u8;
            let aligned = if page == 0 { ORDER_MAX } else { page.trailing_zeros() as u8 };
            let order = fits.min(aligned).min(ORDER_MAX);
            buddy.link(table, page as u32, order);
            page += 1 << order;
        }
        buddy
    }

    /// Free pages over all orders.
    pub(crate) fn free_pages(&self) -> usize {
        self.free
    }

    /// Takes a block of 2^order pages, splitting a larger one if need be.
    pub(crate) fn take(&mut self, table: &[Desc], order: u8) -> Option<u32> {
        let first = |o| Some((o, self.lists[usize::from(o)].first()?));
        let (found, page) = (order..=ORDER_MAX).find_map(first)?;
        self.unlink(table, page, found);
        for half in (order..found).rev() {
            self.link(table, page + (1 << half), half);
        }
        table[page as usize].set(State::Out, order);
        self.free -= 1 << order;
        Some(page)
    }

    /// Puts a block back and joins it with its buddies as far as they are free.
    pub(crate) fn put(&mut self, table: &[Desc], page: u32) {
        let desc = &table[page as usize];
        debug_assert!(desc.is_out(), "page {page} put back that is not out");
        let (mut page, mut order) = (page, desc.order());
        self.free += 1 << order;
        while order < ORDER_MAX {
            let buddy = page ^ (1 << order);
            if !table.get(buddy as usize).is_some_and(|b| b.is_free(order)) {
                break;
            }
            self.unlink(table, buddy, order);
            table[page.max(buddy) as usize].set(State::Tail, 0);
            page = page.min(buddy);
            order += 1;
        }
        self.link(table, page, order);
    }

    fn link(&mut self, table: &[Desc], page: u32, order: u8) {
        table[page as usize].set(State::Free, order);
        self.lists[usize::from(order)].push_front(table, page);
    }

    fn unlink(&mut self, table: &[Desc], page: u32, order: u8) {
        self.lists[usize::from(order)].remove(table, page);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(pages: usize) -> Vec<Desc> {
        (0..pages).map(|_| Desc::default()).collect()
    }

    #[test]
    fn a_node_whose_size_is_no_power_of_two_gives_every_page_and_joins_again() {
        let table = table(1024 + 512 + 3);
        let mut buddy = Buddy::new(&table);
        let pages: Vec<u32> = std::iter::from_fn(|| buddy.take(&table, 0)).collect();
        assert_eq!(pages.len(), table.len());
        assert_eq!(buddy.free_pages(), 0);
        for page in pages {
            buddy.put(&table, page);
        }
        assert_eq!(buddy.free_pages(), table.len());
        assert!(buddy.take(&table, 10).is_some() && buddy.take(&table, 9).is_some());
        assert!(buddy.take(&table, 2).is_none());
    }

    #[test]
    fn blocks_are_aligned_to_their_size_and_do_not_overlap() {
        let table = table(2048);
        let mut buddy = Buddy::new(&table);
        let mut owner = vec![None; 2048];
        for (n, order) in [3, 0, 10, 1, 2, 0, 9, 3, 8, 0].into_iter().enumerate() {
            let Some(page) = buddy.take(&table, order) else { continue };
            assert_eq!(page % (1 << order), 0);
            for p in page..page + (1 << order) {
                assert_eq!(owner[p as usize].replace(n), None, "page {p} given twice");
            }
        }
    }
}
