//! A pool's counters under the names of the kernel's page_pool.
//!
//! The hot path counts nothing for them. Its operations are derived from the cache when the owner is in the cold path,
//! or when the counters are read.

use super::pool::Pool;
use super::shared::PoolLane;
use crate::limits::PAGE_SIZE;
use crate::stats::Count;

/// The counters of a pool; the counters of allocations count calls of the slow path unless they say that they count
/// frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct PoolStats {
    /// Allocations.
    pub alloc: AllocStats,
    /// Freed frames.
    pub recycle: RecycleStats,
    /// Frames that left the pool with their pages (made smaller, reserve, another node, no recycling).
    pub released: u64,
    /// Allocations that found no free frame anywhere.
    pub failed: u64,
    /// Pages, or blocks of them, that the device could not have ([`DmaMapper::map`](super::DmaMapper::map)).
    pub map_failed: u64,
}

/// page_pool's `alloc` statistics (`rx_pp_alloc_*` of ethtool).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct AllocStats {
    /// Frames from the owner's cache.
    pub fast: u64,
    /// How often new single pages had to be taken.
    pub slow: u64,
    /// How often new blocks of pages had to be taken, for frames larger than a page.
    pub slow_high_order: u64,
    /// How often no free frame was on the remote free queue or in the depot.
    pub empty: u64,
    /// How often the cache was refilled from the remote free queue or the depot.
    pub refill: u64,
    /// Frames given up because they belong to another node.
    pub waive: u64,
}

/// page_pool's `recycle` statistics (`rx_pp_recycle_*` of ethtool).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct RecycleStats {
    /// Frames that the owner put into its cache.
    pub cached: u64,
    /// Frames that the owner's cache had no room for; they went to the depot.
    pub cache_full: u64,
    /// Frames that other workers freed through the ring.
    pub ring: u64,
    /// Frames that other workers freed through the stack, because the ring had no room.
    pub ring_full: u64,
}

impl Pool {
    /// The counters so far; exact at a quiescent point.
    ///
    /// # Cost
    /// Microseconds: it opens the owner's cache as a thief, with a membarrier(2).
    pub fn stats(&self) -> PoolStats {
        let shared = &*self.shared;
        let sum = |pick: fn(&PoolLane) -> &Count| shared.lanes.sum(pick);
        shared.refresh_gauges();
        let owner = shared.local.slot().gauges();
        let (slow, high) = if shared.frame_size > PAGE_SIZE { (0, 1) } else { (1, 0) };
        let taken = sum(|lane| &lane.taken).wrapping_add(owner.taken.get());
        let (sent, ring_full) = (sum(|lane| &lane.given), shared.remote_free.overflowed());
        PoolStats {
            alloc: AllocStats {
                fast: taken.wrapping_sub(sum(|lane| &lane.cold)),
                slow: slow * sum(|lane| &lane.slow),
                slow_high_order: high * sum(|lane| &lane.slow),
                empty: sum(|lane| &lane.empty),
                refill: sum(|lane| &lane.refills),
                waive: shared.waived.get(),
            },
            recycle: RecycleStats {
                cached: owner.given.get().saturating_sub(owner.spilled.get()),
                cache_full: owner.spilled.get(),
                ring: sent.saturating_sub(ring_full),
                ring_full,
            },
            released: shared.inflight.released(),
            failed: sum(|lane| &lane.failed),
            map_failed: shared.dma.failed(),
        }
    }
}
