//! COLD: the watched stock: pages that are to leave go when the last of their frames comes home.

use super::shared::Shared;
use super::stock::Stock;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::Page;
use crate::sync::shim::{AtomicU32, lock, yield_now};
use crate::sync::{Lifo, Worker};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

impl Shared {
    /// Frames that lie in one page (or block of pages) of the pool.
    pub(super) fn per_page(&self) -> usize {
        (PAGE_SIZE / self.frame_size).max(1)
    }

    /// How many frames of the page that `id` lies in are in the stock. In the page's descriptor; written under the
    /// stock's lock, right while the stock is watched.
    fn tally(&self, id: u32) -> Option<&AtomicU32> {
        let page = NonZeroU32::new(id / (PAGE_SIZE / CHUNK_SIZE) as u32)?;
        self.memory.desc(page).map(|desc| &desc.refs)
    }

    fn tallied(&self, page: &Page) -> usize {
        self.memory.desc(page.number()).map_or(0, |desc| desc.refs.load(Relaxed) as usize)
    }

    /// Puts a free frame into the stock.
    #[inline]
    pub(super) fn put(&self, stock: &mut Stock, id: u32) {
        stock.spare.push(id);
        if stock.watched {
            self.put_watched(stock, id);
        }
    }

    #[cold]
    fn put_watched(&self, stock: &mut Stock, id: u32) {
        let Some(tally) = self.tally(id) else { return };
        let home = tally.load(Relaxed) + 1;
        tally.store(home, Relaxed);
        if home as usize == self.per_page() && stock.has_unwanted() {
            let page = id / (PAGE_SIZE / CHUNK_SIZE) as u32;
            // From the end: what went out last often comes home first.
            let at = stock.pages.iter().rposition(|kept| kept.number().get() == page);
            if let Some(at) = at.filter(|&at| stock.is_unwanted(&stock.pages[at])) {
                self.expel(stock, at);
            }
        }
    }

    /// Takes out as many free frames as there are, at most `into.len()`; none once the pool is closed.
    pub(super) fn take(&self, stock: &mut Stock, into: &mut [u32]) -> usize {
        let n = if stock.closed { 0 } else { into.len().min(stock.spare.len()) };
        let rest = stock.spare.len() - n;
        into[..n].copy_from_slice(&stock.spare[rest..]);
        stock.spare.truncate(rest);
        if stock.watched {
            let tallies = into[..n].iter().filter_map(|&id| self.tally(id));
            tallies.for_each(|tally| tally.store(tally.load(Relaxed).wrapping_sub(1), Relaxed));
        }
        n
    }

    /// All that is on the way home goes to the stock; only for the one who is inside the pool's slot.
    pub(super) fn gather(&self, stock: &mut Stock) {
        while self.home.pop_ring(usize::MAX, |id| self.put(stock, id)) > 0 {}
        self.home.pop_stack(self.yard.links(), |id| self.put(stock, id));
    }

    /// A page becomes the pool's: mapped for its device, its frames counted and put into the stock.
    pub(super) fn admit(&self, stock: &mut Stock, page: Page) {
        self.dma.map(&self.memory, &page);
        stock.unfit += usize::from(stock.is_unfit(&page));
        let mut frames = 0;
        self.each_frame(&page, |id| {
            self.yard.set_home(id, self.number);
            stock.spare.push(id.get());
            frames += 1;
        });
        if let Some(desc) = self.memory.desc(page.number()) {
            desc.refs.store(frames, Relaxed);
        }
        self.inflight.hold(frames);
        stock.pages.push(page);
    }

    /// The page at this place of the list, all of whose frames are in the stock, is the pool's no more.
    fn expel(&self, stock: &mut Stock, at: usize) {
        let page = stock.pages.swap_remove(at);
        let first = page.first_chunk();
        let chunks = page.bytes().len() / CHUNK_SIZE;
        stock.spare.retain(|id| id.wrapping_sub(first) as usize >= chunks);
        let frames = self.disown(&page);
        stock.unfit -= usize::from(stock.is_unfit(&page));
        if stock.is_elsewhere(&page) {
            self.waived.add(u64::from(frames));
        }
        stock.leaving.push(page);
        self.unsettled.store(true, Relaxed);
    }

    /// Undoes [`Shared::admit`] for a page whose frames are home: unmaps it, once. Returns how many frames those are.
    pub(super) fn disown(&self, page: &Page) -> u32 {
        let mut frames = 0;
        self.each_frame(page, |id| {
            self.yard.set_home(id, 0);
            frames += 1;
        });
        self.dma.unmap(&self.memory, page);
        // The page stage finds it as it gave it.
        if let Some(desc) = self.memory.desc(page.number()) {
            desc.refs.store(0, Relaxed);
        }
        self.inflight.release(frames);
        frames
    }

    /// Changes what the stock is to keep, and does what follows from it. Nothing once the pool is closed.
    #[cold]
    pub(super) fn change(&self, change: impl FnOnce(&mut Stock)) {
        {
            let mut stock = lock(&self.stock);
            if stock.closed {
                return;
            }
            change(&mut stock);
            stock.unfit = stock.pages.iter().filter(|page| stock.is_unfit(page)).count();
            self.turn(&mut stock);
        }
        self.fit_cache();
        self.settle(None);
    }

    /// Begins or ends the watch, and lets go what is home and to leave; true if the watch began or ended.
    fn turn(&self, stock: &mut Stock) -> bool {
        let before = stock.watched;
        if stock.must_watch() && !before {
            let numbers = stock.pages.iter().map(Page::number);
            numbers.filter_map(|page| self.memory.desc(page)).for_each(|desc| desc.refs.store(0, Relaxed));
            let tallies = stock.spare.iter().filter_map(|&id| self.tally(id));
            tallies.for_each(|tally| tally.store(tally.load(Relaxed) + 1, Relaxed));
            stock.watched = true;
        }
        if stock.watched && stock.has_unwanted() {
            for at in (0..stock.pages.len()).rev() {
                let page = &stock.pages[at];
                if self.tallied(page) == self.per_page() && stock.is_unwanted(page) {
                    self.expel(stock, at);
                }
            }
        }
        stock.watched = stock.must_watch();
        stock.watched != before
    }

    /// Gives the owner's cache the size that the stock says; what it held and, under watch, what is on the way home go to
    /// the stock.
    fn fit_cache(&self) {
        let slot = self.local.slot();
        let fit = |local: &mut super::local::Local| {
            let mut stock = lock(&self.stock);
            if stock.closed {
                return;
            }
            let (capacity, refill) = stock.cache_now();
            local.stay(slot.gauges(), |stack| {
                if (stack.capacity(), stack.batch) != (capacity, refill) {
                    stack.drain(|id| self.put(&mut stock, id));
                    *stack = Lifo::new(capacity, refill);
                }
            });
            if stock.watched {
                self.gather(&mut stock);
            }
        };
        // The owner's hot calls are short, so this ends.
        while slot.steal(fit).is_none() {
            yield_now();
        }
    }

    /// Whether pages left and are to be given back: a hint, written under the lock.
    pub(super) fn is_unsettled(&self) -> bool {
        self.unsettled.load(Relaxed)
    }

    /// What has to be done outside the lock and the slot after frames passed the watched stock: ends the watch when
    /// nothing is to leave any more, and gives the pages back that left.
    #[cold]
    pub(super) fn settle(&self, mut w: Option<&mut Worker>) {
        self.unsettled.store(false, Relaxed);
        loop {
            let (turned, page) = {
                let mut stock = lock(&self.stock);
                (!stock.closed && self.turn_if_due(&mut stock), stock.leaving.pop())
            };
            if turned {
                self.fit_cache();
            }
            match (page, &mut w) {
                (Some(page), Some(w)) => self.memory.free(w, page),
                (Some(page), None) => drop(page),
                (None, _) if turned => {}
                (None, _) => return,
            }
        }
    }

    fn turn_if_due(&self, stock: &mut Stock) -> bool {
        stock.watched != stock.must_watch() && self.turn(stock)
    }
}
