//! The state that all workers of a memory share, and frees that need no worker.
//!
//! Handles hold a memory by `Arc`; pages do not. If pages are still out when the last handle goes, the memory stays as
//! an orphan. The page that is freed last unmaps it.

use super::allowance::Allowance;
use super::config::{Lists, MemoryConfig, Watermarks};
use super::hardened::Hardened;
use super::local::Local;
use super::nodes::{Alarm, Nodes};
use super::page::Page;
use super::stats::{Moving, PageLane};
use super::table::{MARK, Table};
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::sync::shim::Mutex;
use crate::sync::{Close, Leave, PerWorker, Roster, Worker};
use crate::sys::region::{Region, SEGMENT_SHIFT, SEGMENTS};
use std::num::NonZeroU32;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

/// log2 of the pages in one segment of the number space.
const SEGMENT_PAGES_SHIFT: u32 = SEGMENT_SHIFT - (PAGE_SIZE / CHUNK_SIZE).trailing_zeros();

/// The memory of each segment. It holds a strong count from the memory's creation until the last page is freed.
static MEMORIES: [AtomicPtr<Shared>; SEGMENTS] = [const { AtomicPtr::new(ptr::null_mut()) }; SEGMENTS];

/// One memory: region, descriptors, nodes, and each worker's lists.
///
/// Conservation: `free(nodes) + cached(workers) + out == table.len()`, at every quiescent point.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(super) locals: PerWorker<Local, PageLane>,
    pub(super) statistics: AtomicBool,
    /// The number of the region's first page.
    pub(super) first: u32,
    pub(super) table: Table,
    pub(super) nodes: Nodes,
    /// The settings that were requested last. Its lock admits one change at a time. No free or allocation takes it.
    pub(super) tuning: Mutex<(Lists, Watermarks)>,
    pub(super) roster: Arc<Roster>,
    pub(super) region: Arc<Region>,
    pub(super) hardened: Hardened,
    pub(super) allowance: Arc<Allowance>,
    handles: AtomicUsize,
    #[cfg(test)]
    pub(super) refusal: super::tests::Refusal,
}

fn entry(number: NonZeroU32) -> *mut Shared {
    // Relaxed: the page reached this thread over an edge that happened after the memory was made.
    MEMORIES[((number.get() & !MARK) >> SEGMENT_PAGES_SHIFT) as usize].load(Relaxed)
}

/// The memory that page `number` belongs to.
///
/// # Safety
/// The page is out, and stays out for `'a`. This keeps the memory.
pub(super) unsafe fn memory_of<'a>(number: NonZeroU32) -> &'a Shared {
    // SAFETY: the table's strong count is given up only when no page is out any more (`retire`).
    unsafe { &*entry(number) }
}

/// The memory that page `number` belongs to. The result keeps it longer than the page does.
///
/// # Safety
/// The page is out during this call.
pub(super) unsafe fn memory_beyond(number: NonZeroU32) -> Arc<Shared> {
    let memory = entry(number);
    // SAFETY: as in `memory_of`; the pointer came from `Arc::into_raw`, and the count added here is the result's.
    unsafe {
        Arc::increment_strong_count(memory);
        Arc::from_raw(memory)
    }
}

/// Claims a block that was just taken off a list, or whose claim was just given up.
#[inline(always)]
pub(super) fn claim(number: u32) -> Option<Page> {
    // SAFETY: the lists hold numbers of blocks that are out and have no claim. Each is on one list only. This block was
    // just taken off, or has not come to a list yet.
    NonZeroU32::new(number).map(|number| unsafe { Page::claim(number) })
}

impl Shared {
    /// Makes a memory of the first `pages` pages of `region`, and enters it into the table of memories.
    pub(super) fn new(region: Arc<Region>, pages: usize, config: &MemoryConfig) -> Arc<Shared> {
        let table = Table::new(pages, config.descriptor);
        let nodes = Nodes::new(&table, config);
        let roster = Roster::new(config.workers);
        let first = region.first_chunk() / (PAGE_SIZE / CHUNK_SIZE) as u32;
        let share = pages / (2 * roster.workers());
        let lists = config.lists.under(config.hardening);
        let mut slot = 0;
        let locals = PerWorker::<_, PageLane>::new(&roster, || {
            let home = slot % config.nodes;
            slot += 1;
            let (start, len) = nodes.range(home);
            Local::new(lists, share, home, (first + start, len))
        });
        locals.each().enumerate().for_each(|(slot, lane)| lane.home.set((slot % config.nodes) as u64));
        let shared = Arc::new(Shared {
            locals,
            statistics: AtomicBool::new(config.statistics),
            first,
            table,
            nodes,
            tuning: Mutex::new((lists, config.watermarks)),
            roster,
            region,
            hardened: Hardened::new(config.hardening),
            allowance: Allowance::of(pages * PAGE_SIZE),
            handles: AtomicUsize::new(0),
            #[cfg(test)]
            refusal: Default::default(),
        });
        shared.roster.on_leave(&shared);
        let counted = Arc::into_raw(Arc::clone(&shared)).cast_mut();
        shared.region.segments().for_each(|segment| MEMORIES[segment].store(counted, Relaxed));
        shared
    }

    /// The counters of this worker.
    pub(super) fn lane(&self, w: &Worker) -> &PageLane {
        self.locals.lane(w).unwrap_or(self.locals.shared_lane())
    }

    /// The page's index in the table; None if the page belongs to another memory.
    #[inline(always)]
    pub(super) fn index(&self, number: u32) -> Option<u32> {
        let index = (number & !MARK).wrapping_sub(self.first);
        ((index as usize) < self.table.len()).then_some(index)
    }

    /// The number of the block at `index`, in the form in which a claim or a list holds it.
    pub(super) fn number(&self, index: u32) -> u32 {
        let desc = self.table.desc(index);
        let marked = desc.order() > 0 || desc.is_reserve();
        (self.first + index) | if marked { MARK } else { 0 }
    }

    /// Marks a block as taken from the reserve. Returns its number from now on.
    pub(super) fn mark_reserve(&self, number: u32) -> u32 {
        if let Some(desc) = self.index(number).map(|index| self.table.desc(index)) {
            desc.mark_reserve();
        }
        number | MARK
    }

    pub(super) fn owner(&self, number: NonZeroU32) -> u16 {
        self.index(number.get()).map_or(0, |index| self.table.desc(index).owner.load(Relaxed))
    }

    /// How many of `want` blocks may be requested from the nodes: all, unless a test makes one fail.
    #[inline(always)]
    pub(super) fn granted(&self, want: usize) -> usize {
        #[cfg(test)]
        return self.refusal.granted(want);
        #[cfg(not(test))]
        want
    }

    /// The number of a node's first page, and the number of its pages.
    pub(super) fn range(&self, node: usize) -> (u32, u32) {
        let (start, len) = self.nodes.range(node);
        (self.first + start, len)
    }

    /// Takes blocks of one order from a node and returns how many. Their numbers are in `into`.
    pub(super) fn take(
        &self,
        node: usize,
        order: u8,
        with_reserve: bool,
        into: &mut [u32],
        alarms: &mut Vec<Alarm>,
    ) -> usize {
        let got = self.nodes.take(&self.table, node, order, with_reserve, into, alarms);
        // As `number`, but without reading the descriptors: they may be in another core's cache.
        let base = if order > 0 { self.first | MARK } else { self.first };
        into[..got].iter_mut().for_each(|block| *block += base);
        self.hardened.shuffle(&mut into[..got]);
        got
    }

    /// Puts a batch of single pages of one node back into the node. The pages have no holder. The caller keeps the
    /// memory.
    pub(super) fn put_batch(&self, node: usize, numbers: &mut [u32], alarms: &mut Vec<Alarm>) {
        numbers.iter_mut().for_each(|number| *number -= self.first);
        if self.nodes.put_batch(&self.table, node, numbers, alarms) {
            // SAFETY: as in `put`.
            unsafe { self.retire() }
        }
    }

    /// Puts blocks that are out and have no holder into their nodes. The caller keeps the memory.
    pub(super) fn put(&self, numbers: &[u32], alarms: &mut Vec<Alarm>) {
        let indices = numbers.iter().filter_map(|&number| self.index(number));
        if self.nodes.put(&self.table, indices, alarms) {
            // SAFETY: closed, and the call above put the last page; only one caller is told so.
            unsafe { self.retire() }
        }
    }

    /// Frees a block without a worker: one lock.
    ///
    /// # Safety
    /// The block is out and its claim ends with this call.
    #[cold]
    pub(super) unsafe fn put_from_anywhere(number: NonZeroU32) {
        // SAFETY: the page is out until `put` below.
        let shared = unsafe { memory_beyond(number) };
        if shared.hardened.chosen.clear {
            // SAFETY: as above, and its claim ends here, so that no other code reads or writes it.
            unsafe { shared.clear(number) }
        }
        let mut alarms = Vec::new();
        shared.put(&[number.get()], &mut alarms);
        Alarm::ring_all(alarms, None);
    }

    /// Writes 0 into all bytes of a block.
    ///
    /// # Safety
    /// The block is out, and the caller has its only claim.
    #[cold]
    unsafe fn clear(&self, number: NonZeroU32) {
        let Some(index) = self.index(number.get()) else { return };
        let bytes = PAGE_SIZE << self.table.desc(index).order();
        // SAFETY: the block lies in the region, which lives as long as this; the caller's promise.
        unsafe { self.region.base().add(index as usize * PAGE_SIZE).write_bytes(0, bytes) }
    }

    /// Takes the memory out of the table of memories and gives up that table's count.
    ///
    /// # Safety
    /// Called once, when the memory is closed and no page is out. The caller keeps the memory.
    unsafe fn retire(&self) {
        let mut counted = ptr::null_mut();
        for segment in self.region.segments() {
            counted = MEMORIES[segment].swap(ptr::null_mut(), Relaxed);
        }
        // SAFETY: the pointer and its count were made by `Arc::into_raw` in `new`, and this is the one call that
        // gives the count up.
        drop(unsafe { Arc::from_raw(counted) });
    }
}

impl Close for Shared {
    fn handles(&self) -> &AtomicUsize {
        &self.handles
    }

    /// Handles the drop of the last handle: empties the workers' lists, and gives the memory up unless pages are out.
    #[cold]
    fn close(self: &Arc<Self>) {
        let mut back = Vec::new();
        for slot in self.locals.slots() {
            slot.shut(|local| local.drain(slot.gauges(), |number| back.push(number)));
        }
        self.put(&back, &mut Vec::new());
        if self.nodes.close() {
            // SAFETY: closed just now with nothing out; only one caller is told so, and `self` keeps the memory.
            unsafe { self.retire() }
        }
    }
}

impl Leave for Shared {
    fn leave(&self, worker: &mut Worker) {
        let mut back = Vec::new();
        let moving = Moving::begin(self.lane(worker));
        self.locals.leave(worker, |local, lane| local.drain(lane, |number| back.push(number)));
        let mut alarms = Vec::new();
        self.put(&back, &mut alarms);
        moving.end_at_node(back.len());
        Alarm::ring_all(alarms, None);
    }
}
