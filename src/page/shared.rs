//! What all workers of a memory share, and the way home that needs no worker.
//!
//! Handles hold a memory by `Arc`, pages do not. When the last handle goes with pages still out, the memory
//! stays as an orphan, and the page that comes home last unmaps it.

use super::local::Local;
use super::memory::PageLane;
use super::node::Buddy;
use super::page::Page;
use super::table::Desc;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE, WORKERS_MAX};
use crate::stats::Lanes;
use crate::sync::shim::{Mutex, lock};
use crate::sync::{Leave, PerWorker, Roster, Worker};
use crate::sys::region::{Region, SEGMENT_SHIFT, SEGMENTS};
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering::Relaxed};

/// log2 of the pages in one segment of the number space.
const SEGMENT_PAGES_SHIFT: u32 = SEGMENT_SHIFT - (PAGE_SIZE / CHUNK_SIZE).trailing_zeros();

/// The memory of each segment. Holds a strong count from the memory's creation until its last page is home.
static MEMORIES: [AtomicPtr<Shared>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// One memory: region, descriptors, node, and each worker's lists.
///
/// Conservation: `free(node) + cached(workers) + out == table.len()`, at every quiescent point.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) region: Arc<Region>,
    pub(super) roster: Arc<Roster>,
    pub(super) table: Box<[Desc]>,
    pub(super) node: Mutex<Buddy>,
    pub(super) locals: PerWorker<Local>,
    pub(super) lanes: Lanes<PageLane>,
    pub(super) statistics: AtomicBool,
    /// Number of the region's first page.
    pub(super) first: u32,
}

/// The memory that page `number` belongs to.
///
/// # Safety
/// The page is out, and stays out for `'a`: that is what keeps the memory.
pub(super) unsafe fn memory_of<'a>(number: NonZeroU32) -> &'a Shared {
    // Relaxed: the page reached this thread over an edge that happened after the memory was made.
    let memory = MEMORIES[(number.get() >> SEGMENT_PAGES_SHIFT) as usize].load(Relaxed);
    // SAFETY: the table's strong count is given up only when no page is out any more (`retire`).
    unsafe { &*memory }
}

/// Claims a block that was just taken off a list.
#[inline(always)]
pub(super) fn claim(shared: &Shared, index: u32) -> Option<Page> {
    // SAFETY: the lists hold blocks that are out with no claim on them, each on one list only, and this one
    // was just taken off.
    shared.number(index).map(|number| unsafe { Page::claim(number) })
}

impl Shared {
    /// Makes a memory over `region` and enters it into the table of memories.
    pub(super) fn new(region: Arc<Region>, workers: usize, statistics: bool) -> Arc<Shared> {
        let pages = region.len() / PAGE_SIZE;
        let table: Box<[Desc]> = (0..pages).map(|_| Desc::default()).collect();
        let roster = Roster::new(workers.min(WORKERS_MAX));
        let share = pages / (2 * roster.workers());
        let shared = Arc::new(Shared {
            node: Mutex::new(Buddy::new(&table)),
            locals: PerWorker::new(&roster, || Local::new(share)),
            lanes: Lanes::new(&roster),
            statistics: AtomicBool::new(statistics),
            first: region.first_chunk() / (PAGE_SIZE / CHUNK_SIZE) as u32,
            table,
            roster,
            region,
        });
        shared.roster.on_leave(&shared);
        let counted = Arc::into_raw(Arc::clone(&shared)).cast_mut();
        shared.region.segments().for_each(|segment| MEMORIES[segment].store(counted, Relaxed));
        shared
    }

    /// The page's index in the table; None if it is of another memory.
    #[inline(always)]
    pub(super) fn index(&self, number: NonZeroU32) -> Option<u32> {
        let index = number.get().wrapping_sub(self.first);
        ((index as usize) < self.table.len()).then_some(index)
    }

    /// The process-wide number of the page at `index` in the table.
    #[inline(always)]
    pub(super) fn number(&self, index: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(self.first + index)
    }

    pub(super) fn order(&self, number: NonZeroU32) -> u8 {
        self.index(number).map_or(0, |index| self.table[index as usize].order())
    }

    pub(super) fn owner(&self, number: NonZeroU32) -> u16 {
        self.index(number).map_or(0, |index| self.table[index as usize].owner.load(Relaxed))
    }

    /// Puts a block home without a worker: one lock.
    ///
    /// # Safety
    /// The block is out and its claim ends with this call.
    #[cold]
    pub(super) unsafe fn put_from_anywhere(number: NonZeroU32) {
        // SAFETY: the page is out until `put` below, and this reference is not used after it.
        let shared = unsafe { memory_of(number) };
        let memory: *const Shared = shared;
        let Some(index) = shared.index(number) else { return };
        let last = {
            let mut node = lock(&shared.node);
            node.put(&shared.table, index);
            node.closed && node.free_pages() == shared.table.len()
        };
        if last {
            // SAFETY: closed and nothing out: this call, under the lock, saw the last page come home.
            unsafe { Shared::retire(memory) }
        }
    }

    /// The last handle is gone: empties the workers' lists, and gives the memory up unless pages are out.
    #[cold]
    pub(super) fn close(self: &Arc<Self>) {
        let last = {
            let mut node = lock(&self.node);
            for slot in self.locals.slots() {
                slot.shut(|local| local.drain(|page| node.put(&self.table, page)));
            }
            node.closed = true;
            node.free_pages() == self.table.len()
        };
        if last {
            // SAFETY: closed just now with nothing out, seen under the lock.
            unsafe { Shared::retire(Arc::as_ptr(self)) }
        }
    }

    /// Takes the memory out of the table and gives up the table's count.
    ///
    /// # Safety
    /// Called once, when the memory is closed and no page is out.
    unsafe fn retire(memory: *const Shared) {
        // SAFETY: the table's own count still holds the memory; it becomes this function's.
        let shared = unsafe { Arc::from_raw(memory) };
        for segment in shared.region.segments() {
            MEMORIES[segment].store(ptr::null_mut(), Relaxed);
        }
    }
}

impl Leave for Shared {
    fn leave(&self, worker: &mut Worker) {
        let lane = self.lanes.of(worker);
        let mut pages = Vec::new();
        if let Some(mut local) = self.locals.enter(worker) {
            local.drain(|page| pages.push(page));
        }
        if let Some(lane) = lane {
            lane.cached.iter().for_each(|cached| cached.set(0));
        }
        let mut node = lock(&self.node);
        pages.into_iter().for_each(|page| node.put(&self.table, page));
    }
}
