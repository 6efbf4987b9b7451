//! HOT: one block at a time, from and to the worker's list of its order.
//!
//! If the list is empty or full, the call goes through [`grow`].

use super::grow;
use super::page::Page;
use super::shared::{Shared, claim};
use crate::sync::Worker;

impl Shared {
    /// Takes a block from the worker's list: one look-up, a pop, and an add for the counter, which is
    /// also the gauge; with statistics one more.
    #[inline(always)]
    pub(super) fn alloc(&self, w: &mut Worker, order: u8) -> Option<Page> {
        if let Some(mut held) = self.locals.enter(w) {
            let (lane, local) = held.split();
            if let Some(number) = local.pop(order, lane) {
                if self.counts() {
                    lane.counted.add(1);
                }
                return claim(number);
            }
        }
        grow::alloc(self, w, order)
    }

    /// Puts a page into the worker's list. Everything except a single page of the worker's node takes the longer path.
    #[inline(always)]
    pub(super) fn free(&self, w: &mut Worker, page: Page) {
        // First of all: a claim that may still be dropped has a place on the stack, and the code would wait for that
        // store.
        let number = page.into_number().get();
        if !self.keep(w, number) {
            grow::free(self, w, number);
        }
    }

    /// Puts a page on the worker's list. Returns false if it is not a single page of the worker's node, or if there is
    /// no room.
    #[inline(always)]
    fn keep(&self, w: &mut Worker, number: u32) -> bool {
        let Some(mut held) = self.locals.enter(w) else { return false };
        let (lane, local) = held.split();
        local.is_single_of_home(number) && local.push(0, number, lane)
    }
}
