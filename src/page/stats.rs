//! The counters of pages: for each worker, and summed.

use super::config::ORDERS;
use crate::stats::Count;
use crate::sync::shim::{AtomicU32, fence};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// One worker's gauges and counters.
///
/// What the hot path counts comes first, and lies in one cache line.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct PageLane {
    /// Blocks given out while statistics were on.
    pub(super) counted: Count,
    /// The number of blocks in the worker's list of each order.
    pub(super) lists: [ListCounts; ORDERS],
    /// Blocks given out that were in no list of these.
    pub(super) allocated: Count,
    /// Blocks taken back that went to no list of these.
    pub(super) freed: Count,
    /// The number of pages in the worker's lists of larger orders.
    pub(super) large: ListCounts,
    /// This counter and the following ones count only while statistics are on.
    pub(super) missed: Count,
    pub(super) failed: Count,
    pub(super) overflowed: Count,
    pub(super) node_miss: Count,
    pub(super) from_reserve: Count,
    /// The worker's home node. Always kept.
    pub(super) home: Count,
    /// Hits that were counted for earlier home nodes.
    pub(super) hit_before: Count,
    /// The number of threads that move blocks between the worker's lists and a node: the worker itself and thieves.
    moving: AtomicU32,
    /// The number of moves from the worker's lists that have ended at a node; wraps.
    returned: AtomicU32,
}

/// The number of blocks in a worker's list of one order, or of pages in its lists of larger orders: `settled + put - taken`. Who is inside the worker's slot writes
/// it. The hot path only counts, and what it counts is also what was given out and taken back.
#[derive(Debug, Default)]
#[repr(C)]
pub(super) struct ListCounts {
    /// Blocks that the hot path has taken out of the list.
    taken: AtomicU64,
    /// Blocks that it has put into the list.
    put: AtomicU64,
    settled: AtomicU64,
}

impl ListCounts {
    /// Counts `n` blocks that were taken out.
    #[inline(always)]
    pub(super) fn take(&self, n: usize) {
        // Release: pairs with the Acquire of `taken` in `len`: who sees these blocks gone sees what was put before.
        self.taken.store(self.taken().wrapping_add(n as u64), Release);
    }

    /// Counts `n` blocks that were put.
    #[inline(always)]
    pub(super) fn put(&self, n: usize) {
        self.put.store(self.freed().wrapping_add(n as u64), Relaxed);
    }

    /// Sets the number of blocks, whichever way they came or went.
    #[inline]
    pub(super) fn settle(&self, len: usize) {
        let settled = (len as u64).wrapping_add(self.taken()).wrapping_sub(self.freed());
        // Release: pairs with the Acquire of `settled` in `len`: who sees this number sees what it was made of.
        self.settled.store(settled, Release);
    }

    /// The number of blocks.
    ///
    /// What was taken is read first, then what was settled, and what was put last. So a list that has blocks all the time
    /// is never seen as an empty one: blocks that were put before are seen, and perhaps some that were put later.
    pub(super) fn len(&self) -> u64 {
        // Acquire, both: pair with the Release in `take` and in `settle`.
        let taken = self.taken.load(Acquire);
        let settled = self.settled.load(Acquire);
        settled.wrapping_add(self.freed()).wrapping_sub(taken)
    }

    fn taken(&self) -> u64 {
        self.taken.load(Relaxed)
    }

    fn freed(&self) -> u64 {
        self.put.load(Relaxed)
    }
}

impl PageLane {
    /// The number of blocks given out.
    pub(super) fn allocated(&self) -> u64 {
        self.lists.iter().fold(self.allocated.get(), |sum, list| sum.wrapping_add(list.taken()))
    }

    /// The number of blocks taken back.
    pub(super) fn freed(&self) -> u64 {
        self.lists.iter().fold(self.freed.get(), |sum, list| sum.wrapping_add(list.freed()))
    }

    /// The number of pages in the worker's lists.
    pub(super) fn cached(&self) -> u64 {
        let lists = self.lists.iter().enumerate();
        lists.map(|(order, list)| list.len() << order).fold(self.large.len(), u64::wrapping_add)
    }

    /// Whether blocks are being moved from or to the worker's lists, and whether there are blocks in the lists.
    ///
    /// A move to the lists that ended before the first look has filled the gauges. A move from the lists that has
    /// emptied the gauges is seen by the second look, or has ended since and counts as [returned](PageLane::returned).
    pub(super) fn state(&self) -> (bool, bool) {
        let moving = self.is_moving();
        let full = self.large.len() > 0 || self.lists.iter().any(|list| list.len() > 0);
        // Acquire fence: pairs with the Release fence in `Moving::begin`.
        fence(Acquire);
        // Acquire: as in `is_moving`. A read-modify-write reads the last value, independent of what was seen of the
        // gauges.
        (moving || self.moving.fetch_add(0, Acquire) > 0, full)
    }

    fn is_moving(&self) -> bool {
        // Acquire: pairs with the Release in `Moving::drop`: a thread that sees the end of a move sees its gauges too.
        self.moving.load(Acquire) > 0
    }

    /// The number of moves from the worker's lists that have ended at a node; wraps.
    pub(super) fn returned(&self) -> u32 {
        // Acquire: pairs with the Release in `Moving::end_at_node`: the blocks of counted moves are found at the node.
        self.returned.load(Acquire)
    }

    /// The number of blocks that the worker got from its home node while statistics were on.
    pub(super) fn hits(&self) -> u64 {
        self.counted.get().wrapping_sub(self.node_miss.get())
    }
}

/// A move: during it, blocks are in neither a worker's lists nor a node, but on a thread's stack. Other threads that
/// look for them wait for its end.
pub(super) struct Moving<'a>(&'a PageLane);

impl<'a> Moving<'a> {
    pub(super) fn begin(lane: &'a PageLane) -> Self {
        lane.moving.fetch_add(1, Relaxed);
        // Release fence: pairs with the Acquire fence in `PageLane::state`: a thread that sees emptied gauges sees the
        // move.
        fence(Release);
        Moving(lane)
    }

    /// Ends a move of `n` blocks from the worker's lists to a node, which has them now.
    pub(super) fn end_at_node(self, n: usize) {
        if n > 0 {
            // Release: pairs with the Acquire in `PageLane::returned`.
            self.0.returned.fetch_add(1, Release);
        }
    }
}

impl Drop for Moving<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `is_moving`.
        self.0.moving.fetch_sub(1, Release);
    }
}

/// The page counters of a memory, summed over its workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PageStats {
    /// Pages in all.
    pub total: u64,
    /// Pages on the nodes' free lists.
    pub free: u64,
    /// Pages in the workers' lists. While workers take and put pages, some may count twice.
    pub cached: u64,
    /// Blocks given out.
    pub allocated: u64,
    /// Visits to a node for allocations because the worker's list had too few blocks. This counter and the following
    /// ones, except `freed`, count only while statistics are on.
    pub missed: u64,
    /// Visits that found no block anywhere.
    pub failed: u64,
    /// Blocks taken back through a worker.
    pub freed: u64,
    /// Visits to a node because the worker's list was full.
    pub overflowed: u64,
    /// Blocks that came from the worker's own node.
    pub node_hit: u64,
    /// Blocks that came from another node.
    pub node_miss: u64,
    /// Blocks that were given out of the reserve.
    pub from_reserve: u64,
}

/// The counters of one node, under the names of Linux's `numastat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NodeStats {
    /// Pages in all.
    pub total: u64,
    /// Pages on the node's free lists.
    pub free: u64,
    /// Blocks of this node given to workers whose home it is.
    pub hit: u64,
    /// Blocks of this node given to workers whose home is another node.
    pub miss: u64,
    /// Blocks that workers of this node got from another node.
    pub foreign: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::tests::{model, thread};
    use std::sync::Arc;

    /// Miri tries what the orderings allow. As loom's, these counts would make a model of pages a hundred times as long.
    #[test]
    #[cfg(not(loom))]
    fn a_list_with_blocks_is_never_seen_empty_while_its_owner_takes_and_puts_some() {
        const TURNS: usize = if cfg!(miri) { 300 } else { 100_000 };
        let list = ListCounts::default();
        list.settle(10);
        std::thread::scope(|scope| {
            let owner = scope.spawn(|| {
                for turn in 0..TURNS {
                    list.put(504);
                    list.take(3);
                    // As the slow path does that gives blocks back.
                    list.settle(11);
                    list.take(4);
                    if turn % 2 == 0 {
                        list.put(3)
                    } else {
                        list.settle(10)
                    }
                    list.settle(10);
                }
            });
            while !owner.is_finished() {
                let seen = list.len();
                assert!((7..1 << 32).contains(&seen), "{seen} blocks");
            }
        });
        assert_eq!(list.len(), 10);
    }

    #[test]
    fn who_sees_the_end_of_a_move_sees_what_was_moved() {
        model(|| {
            let (lane, moved) = (Arc::new(PageLane::default()), Arc::new(AtomicU32::new(0)));
            std::mem::forget(Moving::begin(&lane));
            let mover = {
                let (lane, moved) = (Arc::clone(&lane), Arc::clone(&moved));
                thread::spawn(move || {
                    moved.store(7, Relaxed);
                    drop(Moving(&lane));
                })
            };
            if !lane.is_moving() {
                assert_eq!(moved.load(Relaxed), 7);
            }
            mover.join().unwrap();
            assert!(!lane.is_moving() && moved.load(Relaxed) == 7);
        });
    }
}
