//! COLD: the counters of pages, summed over workers and nodes.

use super::shared::Shared;
use super::stats::{NodeStats, PageLane, PageStats};
use crate::stats::Count;
use crate::sync::shim::lock;
use std::sync::atomic::Ordering::Relaxed;

impl Shared {
    /// Whether statistics are on.
    #[inline(always)]
    pub(super) fn counts(&self) -> bool {
        cfg!(feature = "statistics") && self.statistics.load(Relaxed)
    }

    pub(super) fn stats(&self) -> PageStats {
        let sum = |pick: fn(&PageLane) -> &Count| self.locals.sum(pick);
        let lanes = || self.locals.each().chain([self.locals.shared_lane()]);
        let total = |of: fn(&PageLane) -> u64| lanes().map(of).fold(0, u64::wrapping_add);
        let nodes = self.nodes.each().iter();
        let pages = self.table.len() as u64;
        let free: u64 = nodes.map(|node| lock(&node.zone).free_pages() as u64).sum();
        PageStats {
            total: pages,
            free,
            cached: total(PageLane::cached).min(pages - free),
            allocated: total(PageLane::allocated),
            missed: sum(|lane| &lane.missed),
            failed: sum(|lane| &lane.failed),
            freed: total(PageLane::freed),
            overflowed: sum(|lane| &lane.overflowed),
            node_hit: total(PageLane::hits),
            node_miss: sum(|lane| &lane.node_miss),
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
