//! HOT: a worker's own lists of free pages, orders 0..=3.
//!
//! A LIFO of page numbers per order; no atomic, no lock. What is missing or too much goes through
//! [`grow`](super::grow).

use crate::limits::LOCAL_ORDER_MAX;
use crate::sync::Lifo;

/// Pages moved between a worker's list of order 0 and its node at once (Linux today, source 004's B3 with 32).
pub(crate) const BATCH: usize = 63;
/// Pages a worker's list of order 0 holds at most.
pub(crate) const HIGH: usize = 4 * BATCH;

/// One worker's lists.
#[derive(Debug)]
pub(crate) struct Local {
    lists: [Lifo<u32>; LOCAL_ORDER_MAX as usize + 1],
}

impl Local {
    /// Lists whose pages together stay below `share`, so that a worker cannot hoard what others need.
    pub(crate) fn new(share: usize) -> Self {
        let list = |order: usize| {
            let high = HIGH.min(share / (LOCAL_ORDER_MAX as usize + 1)) >> order;
            Lifo::new(high, (BATCH >> order).max(1))
        };
        Local { lists: std::array::from_fn(list) }
    }

    /// The list of one order; None for orders that have none.
    #[inline(always)]
    pub(crate) fn list(&mut self, order: u8) -> Option<&mut Lifo<u32>> {
        self.lists.get_mut(usize::from(order))
    }

    /// Takes everything out.
    pub(crate) fn drain(&mut self, mut give: impl FnMut(u32)) {
        for list in &mut self.lists {
            list.drain(&mut give);
        }
    }
}
