//! COLD: the counters of a cache, summed over its workers.

use super::shared::Shared;
use super::stats::SlabStats;
use crate::sync::shim::lock;

impl Shared {
    pub(super) fn stats(&self) -> SlabStats {
        // As a thief, so that the hot path does not have to record each object. If a worker stays inside for too long,
        // its counts are those that were recorded last.
        for slot in self.locals.slots() {
            slot.steal(|local| local.stay(slot.gauges(), |_| {}));
        }
        let (slabs, total_objects, partial) = {
            let node = lock(&self.slabs.node);
            (node.count as u64, node.objects, node.partial.len() as u64)
        };
        let counts = &self.slabs.counts;
        SlabStats {
            object_size: self.size as u64,
            slab_size: self.slabs.layout.stride as u64,
            objs_per_slab: u64::from(self.slabs.per_slab()),
            slabs,
            total_objects,
            partial,
            cached: self.locals.sum(|lane| &lane.main) + self.locals.sum(|lane| &lane.spare),
            cpu_slabs: self.locals.sum(|lane| &lane.cpu),
            barn: lock(&self.barn).objects() as u64,
            free_add_partial: counts.free_add_partial.get(),
            free_remove_partial: counts.free_remove_partial.get(),
            cmpxchg_double_fail: counts.cmpxchg_double_fail.get(),
            deactivate_full: counts.deactivate_full.get(),
            deactivate_empty: counts.deactivate_empty.get(),
            deactivate_to_tail: counts.deactivate_to_tail.get(),
            ..SlabStats::default()
        }
        .with_sums(|pick| self.locals.sum(pick))
    }
}
