//! COLD: the watched stock: pages that are to leave go when the last of their frames comes home.

use super::shared::Shared;
use super::stock::Stock;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::Page;
use crate::sync::shim::{AtomicU32, lock, yield_now};
use crate::sync::{Lifo, Steps, Worker};
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

/// Frames of `frame_size` bytes that lie in one page, or in the block of pages that one takes.
pub(super) fn per_page(frame_size: usize) -> usize {
    (PAGE_SIZE / frame_size).max(1)
}

impl Shared {
    /// Frames that lie in one page (or block of pages) of the pool.
    pub(super) fn per_page(&self) -> usize {
        per_page(self.frame_size)
    }

    /// How many frames of the page that `id` lies in are in the stock. In the page's descriptor; written under the
    /// stock's lock, right while the stock is watched.
    fn tally_of(&self, id: u32) -> Option<&AtomicU32> {
        let page = NonZeroU32::new(id / (PAGE_SIZE / CHUNK_SIZE) as u32)?;
        self.memory.desc(page).map(|desc| &desc.refs)
    }

    pub(super) fn tally(&self, id: u32) -> u32 {
        self.tally_of(id).map_or(0, |tally| tally.load(Relaxed))
    }

    pub(super) fn set_tally(&self, id: u32, home: u32) {
        if let Some(tally) = self.tally_of(id) {
            tally.store(home, Relaxed);
        }
    }

    fn tallied(&self, page: &Page) -> usize {
        self.memory.desc(page.number()).map_or(0, |desc| desc.refs.load(Relaxed) as usize)
    }

    /// Puts a free frame into the stock.
    #[inline]
    pub(super) fn put(&self, stock: &mut Stock, id: u32) {
        stock.strangers += u64::from(!self.is_own(id));
        if stock.watched {
            self.put_watched(stock, id);
        } else {
            stock.spare.push(id);
        }
    }

    #[cold]
    fn put_watched(&self, stock: &mut Stock, id: u32) {
        if stock.recycle.reuses_head() {
            return self.put_in_queue(stock, id);
        }
        self.push_watched(stock, id);
        let home = self.tally(id) + 1;
        self.set_tally(id, home);
        if home as usize == self.per_page() && stock.has_unwanted() {
            self.let_go(stock, id, Stock::is_unwanted);
        }
    }

    /// Lets the page of `id`, whose frames are home, leave if `leaves` says so.
    pub(super) fn let_go(&self, stock: &mut Stock, id: u32, leaves: impl Fn(&Stock, &Page) -> bool) {
        let at = self.yard.place(id).load(Relaxed) as usize;
        if stock.pages.get(at).is_some_and(|page| leaves(stock, page)) {
            self.expel(stock, at);
        }
    }

    /// Puts a free frame into the list, and notes where: its link is not in use while it is there.
    pub(super) fn push_watched(&self, stock: &mut Stock, id: u32) {
        self.yard.link(id).store(stock.spare.len() as u32, Relaxed);
        stock.spare.push(id);
    }

    /// Takes a frame out of the list wherever it is, if it is there.
    fn remove_watched(&self, stock: &mut Stock, id: u32) {
        let at = self.yard.link(id).load(Relaxed) as usize;
        if stock.spare.get(at) == Some(&id) {
            stock.spare.swap_remove(at);
            if let Some(&moved) = stock.spare.get(at) {
                self.yard.link(moved).store(at as u32, Relaxed);
            }
        }
    }

    /// Takes out as many free frames as there are, at most `into.len()`; none once the pool is closed.
    pub(super) fn take(&self, stock: &mut Stock, into: &mut [u32]) -> usize {
        if stock.recycle.reuses_head() {
            return self.take_from_queue(stock, into);
        }
        let n = if stock.closed { 0 } else { into.len().min(stock.spare.len()) };
        let rest = stock.spare.len() - n;
        into[..n].copy_from_slice(&stock.spare[rest..]);
        stock.spare.truncate(rest);
        if stock.watched {
            into[..n].iter().for_each(|&id| self.set_tally(id, self.tally(id).wrapping_sub(1)));
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
        let frames = self.per_page() as u32;
        for id in self.frames_of(&page) {
            self.yard.set_home(id, self.number);
            self.push_watched(stock, id.get());
        }
        if let Some(desc) = self.memory.desc(page.number()) {
            desc.refs.store(frames, Relaxed);
        }
        self.inflight.hold(frames);
        self.yard.place(page.first_chunk()).store(stock.pages.len() as u32, Relaxed);
        stock.pages.push(page);
    }

    /// The page at this place of the list, all of whose frames are in the stock, is the pool's no more.
    fn expel(&self, stock: &mut Stock, at: usize) {
        let page = stock.pages.swap_remove(at);
        if let Some(moved) = stock.pages.get(at) {
            self.yard.place(moved.first_chunk()).store(at as u32, Relaxed);
        }
        let before = stock.spare.len();
        self.frames_of(&page).for_each(|id| self.remove_watched(stock, id.get()));
        if stock.spare.len() == before {
            stock.queue.forget(page.first_chunk());
        }
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
        let frames = self.per_page() as u32;
        self.frames_of(page).for_each(|id| self.yard.set_home(id, 0));
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
            for (at, &id) in stock.spare.iter().enumerate() {
                self.yard.link(id).store(at as u32, Relaxed);
                self.set_tally(id, self.tally(id) + 1);
            }
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
        // The page stage calls back.
        let mut steps = Steps::new();
        loop {
            let (turned, page) = {
                let mut stock = lock(&self.stock);
                (!stock.closed && self.turn_if_due(&mut stock), stock.leaving.pop())
            };
            if turned {
                self.fit_cache();
            }
            match (page, &mut w) {
                (Some(page), Some(w)) => steps.run(|| self.memory.free(w, page)),
                (Some(page), None) => steps.run(|| drop(page)),
                (None, _) if turned => {}
                (None, _) => return steps.end(),
            }
        }
    }

    fn turn_if_due(&self, stock: &mut Stock) -> bool {
        stock.watched != stock.must_watch() && self.turn(stock)
    }
}
