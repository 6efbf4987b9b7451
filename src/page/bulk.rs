//! HOT: single pages in arrays. A bulk enters the worker's list once, copies once, and updates the counters once.
//!
//! An `Option<Page>` is a number or 0, as in the list. So a bulk that fits is a copy of a slice.

use super::grow;
use super::local::Local;
use super::page::Page;
use super::shared::{Shared, claim};
use super::stats::PageLane;
use crate::sync::Worker;
use std::mem;

/// The number of empty slots of an array.
#[inline(always)]
pub(super) fn empty_places(pages: &[Option<Page>]) -> usize {
    // The sum has 32 bits, as wide as a slot: the compiler handles twice as many at once.
    pages.iter().map(|page| u32::from(page.is_none())).sum::<u32>() as usize
}

/// Puts pages that were just taken off a list into the first empty slots. There are enough of these.
#[inline(always)]
pub(super) fn fill(pages: &mut [Option<Page>], numbers: &[u32]) {
    let mut numbers = numbers.iter();
    for place in pages.iter_mut().filter(|place| place.is_none()) {
        let Some(&number) = numbers.next() else { break };
        *place = claim(number);
    }
}

/// Does the same as [`fill`] if all slots are empty: a copy.
#[inline(always)]
fn fill_all(pages: &mut [Option<Page>], numbers: &[u32]) {
    for (place, &number) in pages.iter_mut().zip(numbers) {
        // The old value is None and need not be dropped.
        mem::forget(mem::replace(place, claim(number)));
    }
}

impl Shared {
    /// Fills the empty slots of `pages`, as many as there are pages for. Returns how many.
    #[inline]
    pub(super) fn alloc_bulk(&self, w: &mut Worker, pages: &mut [Option<Page>]) -> usize {
        let empty = empty_places(pages);
        let mut filled = 0;
        if let Some(mut held) = self.locals.enter(w) {
            let (lane, local) = held.split();
            let numbers = local.lists[0].stack.pop_slice(empty);
            filled = numbers.len();
            if filled == pages.len() {
                fill_all(pages, numbers);
            } else {
                fill(pages, numbers);
            }
            lane.lists[0].take(filled);
            if self.counts() {
                lane.counted.add(filled as u64);
            }
        }
        if filled < empty {
            filled += grow::alloc_bulk(self, w, pages);
        }
        filled
    }

    /// Takes back every page in `pages`.
    #[inline]
    pub(super) fn free_bulk(&self, w: &mut Worker, pages: &mut [Option<Page>]) {
        if let Some(mut held) = self.locals.enter(w) {
            let (lane, local) = held.split();
            if local.take_in(pages, lane) {
                return;
            }
        }
        pages.iter_mut().filter_map(Option::take).for_each(|page| self.free(w, page));
    }
}

impl Local {
    /// Keeps all of `pages` if each is a single page of the home node and there is room. Otherwise keeps none.
    #[inline(always)]
    fn take_in(&mut self, pages: &mut [Option<Page>], lane: &PageLane) -> bool {
        // There is no branch on the way, so that the compiler checks several pages at once. An empty slot is not a page
        // of any node.
        let number = |page: &Option<Page>| page.as_ref().map_or(0, Page::claim_number);
        let fit = pages.iter().fold(true, |fit, page| fit & self.is_single_of_home(number(page)));
        if !fit {
            return false;
        }
        let list = &mut self.lists[0].stack;
        let Some(slots) = list.push_slots(pages.len()) else { return false };
        for (slot, page) in slots.iter_mut().zip(&mut *pages) {
            *slot = number(page);
            // The claim is in the list now.
            mem::forget(page.take());
        }
        lane.lists[0].put(pages.len());
        true
    }
}
