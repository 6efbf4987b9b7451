//! Page descriptors: what is known of each page, beside the pages and never in them.
//!
//! Compact: 24 bytes a page, 0.6 % of the memory. Every field is an atomic so that the table is safe code;
//! who may write which field, and when, stands beside it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// No page: the end of a list.
const NIL: u32 = u32::MAX;

/// What a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Inside a larger block, free or not.
    Tail = 0,
    /// First page of a block on a free list of its node.
    Free = 1,
    /// First page of a block that is out: with a holder or in a worker's list.
    Out = 2,
}

/// One page's descriptor.
#[derive(Debug, Default)]
pub(crate) struct Desc {
    /// The block's neighbours on whatever list it is on: the node's while [`State::Free`] (under the node's
    /// lock), the owner's while out (as the owner says).
    next: AtomicU32,
    prev: AtomicU32,
    /// log2 of the block's pages; written under the node's lock.
    order: AtomicU8,
    /// A [`State`]; written under the node's lock.
    state: AtomicU8,
    /// Who holds the page: 0, or the number a later stage gave itself; written by the holder.
    pub(crate) owner: AtomicU16,
    /// Whether the block is on a list of its holder; for the holder, under its lock.
    pub(crate) listed: AtomicBool,
    /// One word for the holder.
    pub(crate) word: AtomicU64,
}

const _: () = assert!(size_of::<Desc>() == 24);

impl Desc {
    /// log2 of the pages in the block that begins here. Stable while the block is out.
    #[inline]
    pub(crate) fn order(&self) -> u8 {
        self.order.load(Relaxed)
    }

    /// Whether a free block of this order begins here; meaningful under the node's lock.
    pub(crate) fn is_free(&self, order: u8) -> bool {
        self.state.load(Relaxed) == State::Free as u8 && self.order() == order
    }

    /// Whether a block that is out begins here.
    pub(crate) fn is_out(&self) -> bool {
        self.state.load(Relaxed) == State::Out as u8
    }

    /// Sets what the block is; under the node's lock.
    pub(crate) fn set(&self, state: State, order: u8) {
        self.state.store(state as u8, Relaxed);
        self.order.store(order, Relaxed);
    }
}

/// A list of blocks through their descriptors' links, under its holder's lock.
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

    /// The first block's index.
    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// Blocks on the list.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn push_front(&mut self, table: &[Desc], page: u32) {
        let head = std::mem::replace(&mut self.head, page);
        self.join(table, NIL, page);
        self.join(table, page, head);
        self.len += 1;
    }

    pub(crate) fn push_back(&mut self, table: &[Desc], page: u32) {
        let tail = std::mem::replace(&mut self.tail, page);
        self.join(table, page, NIL);
        self.join(table, tail, page);
        self.len += 1;
    }

    /// The block after one that is on this list.
    pub(crate) fn after(&self, table: &[Desc], page: u32) -> Option<u32> {
        let next = table[page as usize].next.load(Relaxed);
        (next != NIL).then_some(next)
    }

    /// Takes a block off, which is on this list.
    pub(crate) fn remove(&mut self, table: &[Desc], page: u32) {
        let desc = &table[page as usize];
        self.join(table, desc.prev.load(Relaxed), desc.next.load(Relaxed));
        self.len -= 1;
    }

    /// Makes two blocks neighbours; NIL is either end.
    fn join(&mut self, table: &[Desc], before: u32, after: u32) {
        match table.get(before as usize) {
            Some(desc) => desc.next.store(after, Relaxed),
            None => self.head = after,
        }
        match table.get(after as usize) {
            Some(desc) => desc.prev.store(before, Relaxed),
            None => self.tail = before,
        }
    }
}
