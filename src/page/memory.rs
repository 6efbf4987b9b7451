//! The memory: the handle from which everything else is made.

use super::page::Page;
use super::shared::Shared;
use super::table::Desc;
use super::{grow, shared};
use crate::limits::{LOCAL_ORDER_MAX, ORDER_MAX, PAGE_SIZE, WORKERS_MAX};
use crate::stats::Count;
use crate::sync::shim::lock;
use crate::sync::{Roster, Worker, WorkerError};
use crate::sys::region::{BackingWish, Region, RegionError};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// What a memory is made with.
#[derive(Debug, Clone)]
pub struct MemoryConfig {
    /// Bytes of pages; rounded up to 2 MiB.
    pub bytes: usize,
    /// Workers at most, 1..=64.
    pub workers: usize,
    /// The kind of page to ask the system for.
    pub backing: BackingWish,
    /// Whether the page counters count; can be switched while running.
    pub statistics: bool,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        MemoryConfig { bytes: 64 << 20, workers: 4, backing: BackingWish::Huge, statistics: true }
    }
}

/// Why a memory could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MemoryError {
    /// The number of workers is out of range.
    #[error("{workers} workers: give 1 to {WORKERS_MAX}")]
    Workers {
        /// Workers asked for.
        workers: usize,
    },
    /// The region could not be had.
    #[error(transparent)]
    Region(#[from] RegionError),
}

/// One worker's page counters.
#[derive(Debug, Default)]
pub(crate) struct PageLane {
    /// Blocks in the worker's list of each order; always kept.
    pub(super) cached: [Count; LOCAL_ORDER_MAX as usize + 1],
    /// The rest only while statistics are on.
    allocated: Count,
    missed: Count,
    failed: Count,
    freed: Count,
    overflowed: Count,
}

/// The page counters of a memory, summed over its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PageStats {
    /// Pages in all.
    pub total: u64,
    /// Pages on the node's free lists.
    pub free: u64,
    /// Pages in the workers' lists.
    pub cached: u64,
    /// Blocks given out.
    pub allocated: u64,
    /// … of which the worker's list had none and the node was asked.
    pub missed: u64,
    /// Allocations that found no block anywhere.
    pub failed: u64,
    /// Blocks taken back through a worker.
    pub freed: u64,
    /// … of which the worker's list was full and a batch went to the node.
    pub overflowed: u64,
}

/// Region, pages and workers: clone the handle freely, drop the last to give the memory back.
///
/// Pages that are still out when the last handle goes keep the memory mapped until they are home.
#[derive(Debug, Clone)]
pub struct Memory {
    shared: Arc<Handle>,
}

#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl Memory {
    /// Takes the memory from the system and makes it all free pages.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    #[cold]
    pub fn new(config: &MemoryConfig) -> Result<Memory, MemoryError> {
        if !(1..=WORKERS_MAX).contains(&config.workers) {
            return Err(MemoryError::Workers { workers: config.workers });
        }
        let region = Region::new(config.bytes, config.backing)?;
        Ok(Memory { shared: Arc::new(Handle(Shared::new(region, config.workers, config.statistics))) })
    }

    #[inline(always)]
    fn shared(&self) -> &Shared {
        &self.shared.0
    }

    /// Claims a worker's slot.
    ///
    /// # Errors
    /// [`WorkerError::AllTaken`] when all slots are in use.
    #[cold]
    pub fn worker(&self) -> Result<Worker, WorkerError> {
        self.shared().roster.claim()
    }

    /// The region the pages lie in.
    pub fn region(&self) -> &Arc<Region> {
        &self.shared().region
    }

    /// Allocates a block of 2^order pages, order 0..=10; None when no block can be made of all the pages
    /// that nobody holds (or the order is larger).
    ///
    /// # Cost
    /// Orders 0..=3 from the worker's list: no locked instruction, one line of the list. A miss takes the
    /// node's lock once per batch. Contents are what the last holder left.
    #[inline]
    pub fn alloc(&self, w: &mut Worker, order: u8) -> Option<Page> {
        let shared = self.shared();
        let lane = shared.lanes.of(w);
        let hit = shared.locals.enter(w).and_then(|mut local| {
            let list = local.list(order)?;
            let page = list.pop()?;
            if let Some(lane) = lane {
                lane.cached[usize::from(order)].set(list.len() as u64);
            }
            Some(page)
        });
        let page = match hit {
            Some(page) => page,
            None => self.alloc_missed(w, order)?,
        };
        if shared.statistics.load(Relaxed)
            && let Some(lane) = lane
        {
            lane.allocated.add(1);
        }
        shared::claim(shared, page)
    }

    #[cold]
    #[inline(never)]
    fn alloc_missed(&self, w: &mut Worker, order: u8) -> Option<u32> {
        let shared = self.shared();
        let page = (order <= ORDER_MAX).then(|| grow::alloc(shared, w, order)).flatten();
        if shared.statistics.load(Relaxed) {
            shared.lanes.add(w, 1, |lane| if page.is_some() { &lane.missed } else { &lane.failed });
        }
        page
    }

    /// Gives a block back to the worker's list; a page of another memory goes home to its own.
    ///
    /// # Cost
    /// One line of the page's descriptor and one of the list; no locked instruction unless the list is full.
    #[inline]
    pub fn free(&self, w: &mut Worker, page: Page) {
        let shared = self.shared();
        let Some(index) = shared.index(page.number()) else { return drop(page) };
        let order = shared.table[index as usize].order();
        let lane = shared.lanes.of(w);
        let kept = shared.locals.enter(w).is_some_and(|mut local| {
            let Some(list) = local.list(order) else { return false };
            let kept = list.push(index);
            if let Some(lane) = lane {
                lane.cached[usize::from(order)].set(list.len() as u64);
            }
            kept
        });
        page.into_number();
        if !kept {
            self.free_overflowed(w, order, index);
        }
        if shared.statistics.load(Relaxed)
            && let Some(lane) = lane
        {
            lane.freed.add(1);
        }
    }

    #[cold]
    #[inline(never)]
    fn free_overflowed(&self, w: &mut Worker, order: u8, index: u32) {
        let shared = self.shared();
        grow::free(shared, w, order, index);
        if shared.statistics.load(Relaxed) {
            shared.lanes.add(w, 1, |lane| &lane.overflowed);
        }
    }

    /// Fills the empty places of `pages` with single pages; returns how many it filled.
    ///
    /// Places that hold a page already are left alone (the array form of Linux's bulk allocator).
    #[inline]
    pub fn alloc_bulk(&self, w: &mut Worker, pages: &mut [Option<Page>]) -> usize {
        let mut filled = 0;
        for place in pages.iter_mut().filter(|place| place.is_none()) {
            let Some(page) = self.alloc(w, 0) else { break };
            *place = Some(page);
            filled += 1;
        }
        filled
    }

    /// Gives back every page in `pages` and leaves the places empty.
    #[inline]
    pub fn free_bulk(&self, w: &mut Worker, pages: &mut [Option<Page>]) {
        for page in pages.iter_mut().filter_map(Option::take) {
            self.free(w, page);
        }
    }

    /// Switches the page counters on or off; the counts so far stay.
    pub fn set_statistics(&self, on: bool) {
        self.shared().statistics.store(on, Relaxed);
    }

    /// The page counters. Exact at a quiescent point: then `free + cached` plus the pages out is `total`.
    pub fn stats(&self) -> PageStats {
        let shared = self.shared();
        let cached = |order: usize| shared.lanes.sum(|lane| &lane.cached[order]) << order;
        PageStats {
            total: shared.table.len() as u64,
            free: lock(&shared.node).free_pages() as u64,
            cached: (0..=usize::from(LOCAL_ORDER_MAX)).map(cached).sum(),
            allocated: shared.lanes.sum(|lane| &lane.allocated),
            missed: shared.lanes.sum(|lane| &lane.missed),
            failed: shared.lanes.sum(|lane| &lane.failed),
            freed: shared.lanes.sum(|lane| &lane.freed),
            overflowed: shared.lanes.sum(|lane| &lane.overflowed),
        }
    }

    /// Bytes of the region.
    pub fn bytes(&self) -> usize {
        self.shared().table.len() * PAGE_SIZE
    }

    /// The descriptors of all pages.
    pub(crate) fn table(&self) -> &[Desc] {
        &self.shared().table
    }

    /// The index in the table of the page with this process-wide number, if it is of this memory.
    #[inline(always)]
    pub(crate) fn index(&self, number: NonZeroU32) -> Option<u32> {
        self.shared().index(number)
    }

    /// The process-wide number of the page at `index` in the table.
    pub(crate) fn number(&self, index: u32) -> Option<NonZeroU32> {
        self.shared().number(index)
    }

    /// The descriptor of the page with this process-wide number, if it is of this memory.
    pub(crate) fn desc(&self, number: NonZeroU32) -> Option<&Desc> {
        let shared = self.shared();
        shared.index(number).map(|index| &shared.table[index as usize])
    }

    /// The roster of this memory's workers, for the stages above.
    pub(crate) fn roster(&self) -> &Roster {
        &self.shared().roster
    }
}
