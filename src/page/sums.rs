//! COLD: the counters of pages, summed over workers and nodes.

use super::config::ORDERS;
use super::shared::Shared;
use super::stats::{NodeStats, PageLane, PageStats};
use crate::stats::Count;
use crate::sync::shim::lock;
use std::sync::atomic::Ordering::Relaxed;

impl Shared {
    /// Whether counters count.
    #[inline(always)]
    pub(super) fn counts(&self) -> bool {
        cfg!(feature = "statistics") && self.statistics.load(Relaxed)
    }

    pub(super) fn stats(&self) -> PageStats {
        let sum = |pick: fn(&PageLane) -> &Count| self.locals.sum(pick);
        let cached = |order: usize| self.locals.sum(|lane| &lane.cached[order]) << order;
        let nodes = self.nodes.each().iter();
        let (allocated, node_miss) = (sum(|lane| &lane.allocated), sum(|lane| &lane.node_miss));
        PageStats {
            total: self.table.len() as u64,
            free: nodes.map(|node| lock(&node.zone).free_pages() as u64).sum(),
            cached: (0..ORDERS).map(cached).sum::<u64>() + sum(|lane| &lane.cached_large),
            allocated,
            missed: sum(|lane| &lane.missed),
            failed: sum(|lane| &lane.failed),
            freed: sum(|lane| &lane.freed),
            overflowed: sum(|lane| &lane.overflowed),
            node_hit: allocated.wrapping_sub(node_miss),
            node_miss,
            from_reserve: sum(|lane| &lane.from_reserve),
        }
    }

    pub(super) fn node_stats(&self, node: usize) -> Option<NodeStats> {
        let this = self.nodes.each().get(node)?;
        let lanes = self.locals.each().chain([self.locals.shared_lane()]);
        let at_home = lanes.filter(|lane| lane.home.get() == node as u64);
        let hit: u64 = at_home.map(|lane| lane.hits().wrapping_sub(lane.hit_before.get())).sum();
        let zone = lock(&this.zone);
        Some(NodeStats {
            total: zone.pages() as u64,
            free: zone.free_pages() as u64,
            hit: hit.wrapping_add(this.hit_before.get()),
            miss: this.miss.get(),
            foreign: this.foreign.get(),
        })
    }
}
