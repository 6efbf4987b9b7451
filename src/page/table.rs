//! Page descriptors: what is known of each page, beside the pages and never in them.
//!
//! Compact: 24 bytes a page, 0.6 % of the memory. Every field is an atomic so that the table is safe code;
//! who may write which field, and when, stands beside it.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

/// No page: the end of a list.
pub(crate) const NIL: u32 = u32::MAX;

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
    pub(crate) next: AtomicU32,
    pub(crate) prev: AtomicU32,
    /// log2 of the block's pages; written under the node's lock.
    order: AtomicU8,
    /// A [`State`]; written under the node's lock.
    state: AtomicU8,
    /// Who holds the block: 0, or the number a later stage gave itself; written by the holder.
    pub(crate) owner: AtomicU16,
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
