//! HOT: one block at a time, from and to the worker's list of its order.
//!
//! What the list has not, or has no room for, goes through [`grow`].

use super::grow;
use super::page::Page;
use super::shared::{Shared, claim};
use crate::sync::Worker;

impl Shared {
    /// A block from the worker's list: one look-up, a pop, a store for the gauge, a branch and an add for the
    /// counters.
    #[inline(always)]
    pub(super) fn alloc(&self, w: &mut Worker, order: u8) -> Option<Page> {
        if let Some(mut held) = self.locals.enter(w) {
            let (lane, local) = held.split();
            if let Some(number) = local.pop(order, lane) {
                if self.counts() {
                    lane.allocated.add(1);
                }
                return claim(number);
            }
        }
        grow::alloc(self, w, order)
    }

    /// A page into the worker's list; everything that is not a single page of the worker's node goes the longer way.
    #[inline(always)]
    pub(super) fn free(&self, w: &mut Worker, page: Page) {
        // Before all else: a claim that may still be dropped has its place on the stack, and waits for the store there.
        let number = page.into_number().get();
        if !self.keep(w, number) {
            grow::free(self, w, number);
        }
    }

    /// Puts a page on the worker's list; false for all but a single page of the worker's node, and where there is no room.
    #[inline(always)]
    fn keep(&self, w: &mut Worker, number: u32) -> bool {
        let Some(mut held) = self.locals.enter(w) else { return false };
        let (lane, local) = held.split();
        let kept = local.is_single_of_home(number) && local.push(0, number, lane);
        if kept && self.counts() {
            lane.freed.add(1);
        }
        kept
    }
}
