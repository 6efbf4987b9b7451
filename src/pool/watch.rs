//! COLD: the watched depot: a page that is to leave goes when the last of its frames is freed.

use super::depot::Depot;
use super::shared::Shared;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::page::Page;
use crate::sync::shim::{AtomicU32, lock, yield_now};
use crate::sync::{Steps, Worker};
use crate::sys::lifo::Lifo;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

/// Frames of `frame_size` bytes that lie in one page, or in the block of pages that one frame takes.
pub(super) fn per_page(frame_size: usize) -> usize {
    (PAGE_SIZE / frame_size).max(1)
}

impl Shared {
    /// Frames that lie in one page (or block of pages) of the pool.
    pub(super) fn per_page(&self) -> usize {
        per_page(self.frame_size)
    }

    /// The number of frames in the depot of the page that contains `id`. It lies in the page's descriptor, is written
    /// under the depot's lock, and is right while the depot is watched.
    fn tally_of(&self, id: u32) -> Option<&AtomicU32> {
        let page = NonZeroU32::new(id / (PAGE_SIZE / CHUNK_SIZE) as u32)?;
        self.memory.desc(page).map(|desc| &desc.refs)
    }

    fn tally(&self, id: u32) -> u32 {
        self.tally_of(id).map_or(0, |tally| tally.load(Relaxed))
    }

    fn set_tally(&self, id: u32, free: u32) {
        if let Some(tally) = self.tally_of(id) {
            tally.store(free, Relaxed);
        }
    }

    fn tallied(&self, page: &Page) -> usize {
        self.memory.desc(page.number()).map_or(0, |desc| desc.refs.load(Relaxed) as usize)
    }

    /// Puts a free frame into the depot.
    #[inline]
    pub(super) fn put(&self, depot: &mut Depot, id: u32) {
        depot.foreign += u64::from(!self.is_own(id));
        if depot.watched {
            self.put_watched(depot, id);
        } else {
            depot.spare.push(id);
        }
    }

    #[cold]
    fn put_watched(&self, depot: &mut Depot, id: u32) {
        if depot.init_on_free {
            self.clear(id);
        }
        self.push_watched(depot, id);
        let free = self.tally(id) + 1;
        self.set_tally(id, free);
        if free as usize == self.per_page() && depot.has_unwanted() {
            let at = self.frame_table.place(id).load(Relaxed) as usize;
            if depot.pages.get(at).is_some_and(|page| depot.is_unwanted(page)) {
                self.expel(depot, at);
            }
        }
    }

    /// Puts a free frame into the list, and records its position in the frame's link, which is not in use while it is
    /// there.
    fn push_watched(&self, depot: &mut Depot, id: u32) {
        self.frame_table.link(id).store(depot.spare.len() as u32, Relaxed);
        depot.spare.push(id);
    }

    /// Puts the frames from `from` on, of pages that were just admitted, into a random order, if the memory has random
    /// orders.
    pub(super) fn shuffle(&self, depot: &mut Depot, from: usize) {
        let Some(random) = self.memory.order() else { return };
        random.shuffle(&mut depot.spare[from..]);
        for (at, &id) in depot.spare.iter().enumerate().skip(from) {
            self.frame_table.link(id).store(at as u32, Relaxed);
        }
    }

    /// Takes a frame out of the list at any position, if it is there.
    fn remove_watched(&self, depot: &mut Depot, id: u32) {
        let at = self.frame_table.link(id).load(Relaxed) as usize;
        if depot.spare.get(at) == Some(&id) {
            depot.spare.swap_remove(at);
            if let Some(&moved) = depot.spare.get(at) {
                self.frame_table.link(moved).store(at as u32, Relaxed);
            }
        }
    }

    /// Takes out as many free frames as there are, at most `into.len()`. Takes none once the pool is closed.
    pub(super) fn take(&self, depot: &mut Depot, into: &mut [u32]) -> usize {
        let n = if depot.closed { 0 } else { into.len().min(depot.spare.len()) };
        let rest = depot.spare.len() - n;
        into[..n].copy_from_slice(&depot.spare[rest..]);
        depot.spare.truncate(rest);
        if depot.watched {
            into[..n].iter().for_each(|&id| self.set_tally(id, self.tally(id).wrapping_sub(1)));
        }
        n
    }

    /// Moves all frames of the remote free queue to the depot. Only for the thread that is inside the pool's slot.
    pub(super) fn gather(&self, depot: &mut Depot) {
        while self.remote_free.pop_ring(usize::MAX, |ids| ids.iter().for_each(|&id| self.put(depot, id))) > 0
        {
        }
        self.remote_free.pop_stack(self.frame_table.links(), |id| self.put(depot, id));
    }

    /// Adds a page that the device can access to the pool: its frames are counted and put into the depot.
    pub(super) fn admit(&self, depot: &mut Depot, page: Page) {
        depot.unfit += usize::from(depot.is_unfit(&page));
        let frames = self.per_page() as u32;
        for id in self.frames_of(&page) {
            self.frame_table.set_home(id, self.number);
            self.push_watched(depot, id.get());
        }
        if let Some(desc) = self.memory.desc(page.number()) {
            desc.refs.store(frames, Relaxed);
        }
        self.inflight.hold(frames);
        self.frame_table.place(page.first_chunk()).store(depot.pages.len() as u32, Relaxed);
        depot.pages.push(page);
    }

    /// Removes the page at this position of the list from the pool. All its frames are in the depot.
    fn expel(&self, depot: &mut Depot, at: usize) {
        let page = depot.pages.swap_remove(at);
        if let Some(moved) = depot.pages.get(at) {
            self.frame_table.place(moved.first_chunk()).store(at as u32, Relaxed);
        }
        self.frames_of(&page).for_each(|id| self.remove_watched(depot, id.get()));
        let frames = self.disown(&page);
        depot.unfit -= usize::from(depot.is_unfit(&page));
        if depot.is_elsewhere(&page) {
            self.waived.add(u64::from(frames));
        }
        depot.leaving.push(page);
        self.unsettled.store(true, Relaxed);
    }

    /// Undoes [`Shared::admit`] for a page whose frames are free. The device can still access it. Returns the number of
    /// its frames.
    pub(super) fn disown(&self, page: &Page) -> u32 {
        let frames = self.per_page() as u32;
        self.frames_of(page).for_each(|id| self.frame_table.set_home(id, 0));
        // Reset to the state in which the page stage gave it.
        if let Some(desc) = self.memory.desc(page.number()) {
            desc.refs.store(0, Relaxed);
        }
        self.inflight.release(frames);
        frames
    }

    /// Changes what the depot is to keep, and applies the consequences. Does nothing once the pool is closed.
    #[cold]
    pub(super) fn change(&self, change: impl FnOnce(&mut Depot)) {
        {
            let mut depot = lock(&self.depot);
            if depot.closed {
                return;
            }
            change(&mut depot);
            depot.unfit = depot.pages.iter().filter(|page| depot.is_unfit(page)).count();
            self.turn(&mut depot);
        }
        self.fit_cache();
        self.settle(None);
    }

    /// Begins or ends the watch, and expels pages whose frames are free and that are to leave. Returns true if the
    /// watch began or ended.
    fn turn(&self, depot: &mut Depot) -> bool {
        let before = depot.watched;
        if depot.must_watch() && !before {
            let numbers = depot.pages.iter().map(Page::number);
            numbers.filter_map(|page| self.memory.desc(page)).for_each(|desc| desc.refs.store(0, Relaxed));
            for (at, &id) in depot.spare.iter().enumerate() {
                self.frame_table.link(id).store(at as u32, Relaxed);
                self.set_tally(id, self.tally(id) + 1);
            }
            depot.watched = true;
        }
        if depot.watched && depot.has_unwanted() {
            for at in (0..depot.pages.len()).rev() {
                let page = &depot.pages[at];
                if self.tallied(page) == self.per_page() && depot.is_unwanted(page) {
                    self.expel(depot, at);
                }
            }
        }
        depot.watched = depot.must_watch();
        self.renewable.store(depot.renewable(self.number), Relaxed);
        depot.watched != before
    }

    /// Gives the owner's cache the size that the depot says. Its frames go to the depot. Under watch the frames on the
    /// remote free queue go there too.
    fn fit_cache(&self) {
        let slot = self.local.slot();
        let fit = |local: &mut super::local::Local| {
            let mut depot = lock(&self.depot);
            if depot.closed {
                return;
            }
            let (capacity, refill) = depot.cache_now();
            let fits = (local.capacity(), local.refill) == (capacity, refill);
            local.stay(slot.gauges(), |stack| {
                if !fits {
                    stack.drain(|id| self.put(&mut depot, id));
                    *stack = Lifo::new(capacity);
                }
            });
            local.refill = refill.min(capacity);
            if depot.watched {
                self.gather(&mut depot);
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

    /// Does the work outside the lock and the slot after frames passed the watched depot. It ends the watch if no page
    /// is to leave any more, and unmaps and gives back the pages that left.
    #[cold]
    pub(super) fn settle(&self, mut w: Option<&mut Worker>) {
        self.unsettled.store(false, Relaxed);
        // The page stage may call back.
        let mut steps = Steps::new();
        loop {
            let (turned, page) = {
                let mut depot = lock(&self.depot);
                (!depot.closed && self.turn_if_due(&mut depot), depot.leaving.pop())
            };
            if turned {
                self.fit_cache();
            }
            match (page, &mut w) {
                (Some(page), Some(w)) => steps.run(|| {
                    self.dma.unmap(&self.memory, &page);
                    self.memory.free(w, page);
                }),
                (Some(page), None) => steps.run(|| {
                    self.dma.unmap(&self.memory, &page);
                    drop(page);
                }),
                (None, _) if turned => {}
                (None, _) => return steps.end(),
            }
        }
    }

    fn turn_if_due(&self, depot: &mut Depot) -> bool {
        depot.watched != depot.must_watch() && self.turn(depot)
    }
}
