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
        if let Some(mut held) = self.locals.enter(w) {
            let (lane, local) = held.split();
            if local.is_single_of_home(page.claim_number()) && local.push(0, page.claim_number(), lane) {
                page.into_number();
                if self.counts() {
                    lane.freed.add(1);
                }
                return;
            }
        }
        grow::free(self, w, page)
    }
}
