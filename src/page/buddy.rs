//! The buddy allocator: free blocks of 2^order pages, orders 0..=10.
//!
//! The policy is safe code over page indices and the descriptor table. A block of order `o` begins at a multiple of
//! 2^o, so one XOR gives the index of its buddy.
//!
//! Conservation: the sum over orders of `lists[o].len() << o`, plus the pages of blocks that are out, is the number of
//! pages of the allocator.

use super::list::List;
use super::table::{State, Table};
use crate::limits::ORDER_MAX;
use std::ops::Range;

/// The free lists. The table itself is shared with the holders of pages.
#[derive(Debug)]
pub(crate) struct Buddy {
    /// The pages of this allocator.
    pages: Range<u32>,
    /// Free blocks of each order.
    lists: [List; ORDER_MAX as usize + 1],
    /// Free pages over all orders.
    free: usize,
}

impl Buddy {
    /// Makes an allocator in which all of `pages` are free, in the largest blocks that fit.
    pub(crate) fn new(table: &Table, pages: Range<u32>) -> Self {
        let mut buddy = Buddy {
            pages: pages.clone(),
            lists: [const { List::new() }; ORDER_MAX as usize + 1],
            free: pages.len(),
        };
        let mut page = pages.start;
        while page < pages.end {
            let fits = (pages.end - page).ilog2();
            let order = fits.min(page.trailing_zeros()).min(u32::from(ORDER_MAX)) as u8;
            buddy.link(table, page, order);
            page += 1 << order;
        }
        buddy
    }

    /// Free pages over all orders.
    pub(crate) fn free_pages(&self) -> usize {
        self.free
    }

    /// The number of pages, free or not.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Takes a block of 2^order pages. Splits a larger block if it has to.
    pub(crate) fn take(&mut self, table: &Table, order: u8) -> Option<u32> {
        let first = |o| Some((o, self.lists[usize::from(o)].first()?));
        let (found, page) = (order..=ORDER_MAX).find_map(first)?;
        self.unlink(table, page, found);
        for half in (order..found).rev() {
            self.link(table, page + (1 << half), half);
        }
        table.desc(page).set(State::Out, order);
        self.free -= 1 << order;
        Some(page)
    }

    /// Puts a block back, and merges it with its buddies as long as they are free.
    pub(crate) fn put(&mut self, table: &Table, page: u32) {
        let desc = table.desc(page);
        debug_assert!(desc.is_out(), "page {page} put back that is not out");
        let (mut page, mut order) = (page, desc.order());
        self.free += 1 << order;
        while order < ORDER_MAX {
            let buddy = page ^ (1 << order);
            if !self.pages.contains(&buddy) || !table.desc(buddy).is_free(order) {
                break;
            }
            self.unlink(table, buddy, order);
            table.desc(page.max(buddy)).set(State::Tail, 0);
            page = page.min(buddy);
            order += 1;
        }
        self.link(table, page, order);
    }

    fn link(&mut self, table: &Table, page: u32, order: u8) {
        table.desc(page).set(State::Free, order);
        self.lists[usize::from(order)].push_front(table, page);
    }

    fn unlink(&mut self, table: &Table, page: u32, order: u8) {
        self.lists[usize::from(order)].remove(table, page);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::page::DescriptorSize;

    fn buddy(pages: Range<u32>) -> (Table, Buddy) {
        let table = Table::new(pages.end as usize, DescriptorSize::Compact);
        let buddy = Buddy::new(&table, pages);
        (table, buddy)
    }

    #[test]
    fn a_node_whose_size_is_no_power_of_two_gives_every_page_and_joins_again() {
        let (table, mut buddy) = buddy(0..1024 + 512 + 3);
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
        let (table, mut buddy) = buddy(0..2048);
        let mut owner = vec![None; 2048];
        for (n, order) in [3, 0, 10, 1, 2, 0, 9, 3, 8, 0].into_iter().enumerate() {
            let Some(page) = buddy.take(&table, order) else { continue };
            assert_eq!(page % (1 << order), 0);
            for p in page..page + (1 << order) {
                assert_eq!(owner[p as usize].replace(n), None, "page {p} given twice");
            }
        }
    }

    #[test]
    fn blocks_never_join_across_the_border_of_two_nodes() {
        let table = Table::new(64, DescriptorSize::Compact);
        let mut nodes = [0..32, 32..64].map(|pages| Buddy::new(&table, pages));
        for node in &mut nodes {
            let pages: Vec<u32> = std::iter::from_fn(|| node.take(&table, 0)).collect();
            assert_eq!(pages.len(), 32);
            pages.into_iter().for_each(|page| node.put(&table, page));
            assert!(node.take(&table, 6).is_none() && node.take(&table, 5).is_some());
        }
    }
}
