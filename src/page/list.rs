//! Lists of blocks, linked through their descriptors. Putting a block on a list allocates nothing.

use super::table::{NIL, Table};

/// A list of blocks, under the lock of its holder. A block is on one list at most.
#[derive(Debug)]
pub(crate) struct List {
    head: u32,
    tail: u32,
    len: usize,
}

impl List {
    pub(crate) const fn new() -> Self {
        List { head: NIL, tail: NIL, len: 0 }
    }

    /// The index of the first block.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// The block after a block that is on this list.
    #[cfg(test)]
    pub(crate) fn after(&self, table: &Table, page: u32) -> Option<u32> {
        let next = table.desc(page).next();
        (next != NIL).then_some(next)
    }

    /// Blocks on the list.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push_front(&mut self, table: &Table, page: u32) {
        debug_assert!(!table.desc(page).is_listed(), "page {page} is on a list");
        let head = std::mem::replace(&mut self.head, page);
        self.join(table, NIL, page);
        self.join(table, page, head);
        self.len += 1;
    }

    pub(crate) fn push_back(&mut self, table: &Table, page: u32) {
        debug_assert!(!table.desc(page).is_listed(), "page {page} is on a list");
        let tail = std::mem::replace(&mut self.tail, page);
        self.join(table, page, NIL);
        self.join(table, tail, page);
        self.len += 1;
    }

    /// Takes a block off this list. The block is on it.
    pub(crate) fn remove(&mut self, table: &Table, page: u32) {
        let desc = table.desc(page);
        debug_assert!(desc.is_listed(), "page {page} is on no list");
        self.join(table, desc.prev(), desc.next());
        desc.set_unlisted();
        self.len -= 1;
    }

    /// Links two blocks as neighbours. NIL is either end.
    fn join(&mut self, table: &Table, before: u32, after: u32) {
        match table.get(before) {
            Some(desc) => desc.set_next(after),
            None => self.head = after,
        }
        match table.get(after) {
            Some(desc) => desc.set_prev(before),
            None => self.tail = before,
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::page::DescriptorSize;

    fn listed(list: &List, table: &Table) -> Vec<u32> {
        std::iter::successors(list.first(), |&page| list.after(table, page)).collect()
    }

    #[test]
    fn blocks_join_at_both_ends_and_leave_from_anywhere_with_any_stride() {
        for size in [DescriptorSize::Compact, DescriptorSize::Bytes56, DescriptorSize::Bytes64] {
            let (table, mut list) = (Table::new(8, size), List::new());
            list.push_front(&table, 3);
            list.push_back(&table, 7);
            list.push_front(&table, 0);
            assert_eq!((listed(&list, &table), list.len()), (vec![0, 3, 7], 3));
            list.remove(&table, 3);
            assert!(!table.desc(3).is_listed() && table.desc(0).is_listed() && table.desc(7).is_listed());
            list.remove(&table, 7);
            assert_eq!((listed(&list, &table), list.len()), (vec![0], 1));
            list.remove(&table, 0);
            assert_eq!((list.first(), list.tail, list.len()), (None, NIL, 0));
        }
    }
}
