//! A node's free pages under one lock: the buddy allocator, the depot before it, and the watermarks over both.

use super::buddy::Buddy;
use super::config::{TURN, Watermarks};
use super::depot::Depot;
use super::table::Table;
use std::ops::Range;

/// The free pages of one node.
///
/// The fields that a passing batch changes come first. With the lock they are one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Zone {
    depot: Depot,
    /// True from the moment when the free pages fall below the low watermark until they reach the high one.
    pressed: bool,
    /// How often that began or ended.
    changes: u64,
    /// Set when the last handle is gone. The pages that are still out keep the memory.
    closed: bool,
    watermarks: Watermarks,
    buddy: Buddy,
}

impl Zone {
    /// Makes a zone in which all of `pages` are free.
    pub(crate) fn new(table: &Table, pages: Range<u32>, watermarks: Watermarks) -> Self {
        let buddy = Buddy::new(table, pages);
        Zone { buddy, depot: Depot::new(), watermarks, pressed: false, changes: 0, closed: false }
    }

    /// The number of free pages.
    pub(crate) fn free_pages(&self) -> usize {
        self.buddy.free_pages() + self.depot.pages()
    }

    /// The number of the node's pages, free or not.
    pub(crate) fn pages(&self) -> usize {
        self.buddy.pages()
    }

    /// Takes blocks of one order, as many as there are and fit. Takes none from the reserve unless `with_reserve`.
    pub(crate) fn take(&mut self, table: &Table, order: u8, with_reserve: bool, into: &mut [u32]) -> usize {
        let kept_back = if with_reserve { 0 } else { self.watermarks.min };
        let most = self.free_pages().saturating_sub(kept_back) >> order;
        let n = into.len().min(most);
        let into = &mut into[..n];
        let mut got = 0;
        while order == 0 && got < into.len() && self.depot.pages() > 0 {
            let batch = self.depot.take(into.len() - got);
            into[got..got + batch.len()].copy_from_slice(batch);
            got += batch.len();
        }
        while got < into.len() {
            match self.buddy.take(table, order) {
                Some(page) => into[got] = page,
                None if self.depot.pages() == 0 => break,
                None => {
                    self.empty_depot(table);
                    continue;
                }
            }
            got += 1;
        }
        got
    }

    /// Puts a block back. It may merge with its neighbours.
    pub(crate) fn put(&mut self, table: &Table, page: u32) {
        self.buddy.put(table, page);
    }

    /// Puts a batch of single pages back as a batch, because it is likely to be wanted soon.
    pub(crate) fn put_batch(&mut self, table: &Table, pages: &[u32]) {
        if self.closed || !self.depot.put(pages) {
            pages.iter().for_each(|&page| self.buddy.put(table, page));
        }
    }

    fn empty_depot(&mut self, table: &Table) {
        while self.depot.pages() > 0 {
            self.depot.take(TURN).iter().for_each(|&page| self.buddy.put(table, page));
        }
    }

    /// Changes the watermarks to this node's share of new ones.
    pub(crate) fn set_watermarks(&mut self, watermarks: Watermarks) {
        self.watermarks = watermarks;
    }

    /// Whether pressure began (true) or ended (false) since the last call, and the number of that change.
    pub(crate) fn crossed(&mut self) -> Option<(bool, u64)> {
        let mark = if self.pressed { self.watermarks.high } else { self.watermarks.low };
        let now = self.free_pages() < mark;
        if std::mem::replace(&mut self.pressed, now) == now {
            return None;
        }
        self.changes += 1;
        Some((now, self.changes))
    }

    /// Closes the zone: the last handle is gone. The pages that are still out keep the memory.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Whether the zone is closed and all pages are free. It stays true, because a closed node gives nothing out.
    pub(crate) fn is_done(&self) -> bool {
        self.closed && self.free_pages() == self.pages()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::page::DescriptorSize;

    #[test]
    fn the_reserve_is_for_the_urgent_and_pressure_lies_between_low_and_high() {
        let table = Table::new(16, DescriptorSize::Compact);
        let mut zone = Zone::new(&table, 0..16, Watermarks { min: 4, low: 8, high: 12 });
        let (mut out, mut one, mut crossings) = (Vec::new(), [0], Vec::new());
        while zone.take(&table, 0, false, &mut one) == 1 {
            out.push(one[0]);
            crossings.extend(zone.crossed().map(|change| (out.len(), change)));
        }
        assert_eq!((out.len(), zone.free_pages()), (12, 4));
        assert_eq!(zone.take(&table, 2, false, &mut one), 0, "a block that is there, but is the reserve");
        assert_eq!(zone.take(&table, 0, true, &mut one), 1);
        out.push(one[0]);
        assert_eq!(zone.take(&table, 0, false, &mut one), 0);
        while let Some(page) = out.pop() {
            zone.put(&table, page);
            crossings.extend(zone.crossed().map(|change| (out.len(), change)));
        }
        assert_eq!(crossings, [(9, (true, 1)), (4, (false, 2))]);
    }

    #[test]
    fn what_lies_in_the_depot_is_free_and_joins_when_a_larger_block_is_wanted() {
        let table = Table::new(64, DescriptorSize::Compact);
        let mut zone = Zone::new(&table, 0..64, Watermarks::default());
        let (mut pages, mut again, mut block) = ([0; 64], [0; 64], [0]);
        assert_eq!(zone.take(&table, 0, false, &mut pages), 64);
        zone.put_batch(&table, &pages[..20]);
        zone.put_batch(&table, &pages[20..]);
        assert_eq!(zone.free_pages(), 64);
        assert_eq!(
            zone.take(&table, 0, false, &mut again[..50]),
            50,
            "one batch, and six that the other had"
        );
        assert_eq!((again[..44].to_vec(), zone.free_pages()), (pages[20..].to_vec(), 14));
        zone.put_batch(&table, &again[..50]);
        assert_eq!((zone.take(&table, 6, false, &mut block), block), (1, [0]), "all of it in one block");
        assert_eq!(zone.free_pages(), 0);
    }
}
