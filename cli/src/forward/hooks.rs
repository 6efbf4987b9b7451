//! Packets on their way: their heads, ready pairs and rules, as planned.

use super::plan::PacketPlan;
use super::report::FilterReport;
use crate::args::ReadyHeads;
use crate::failure::Failure;
use netmem::forward::filter::{FilterControl, filter};
use netmem::forward::{Forwarder, PacketPath, Protocols};
use netmem::packet::{HeadCache, HeadCacheConfig, HeadCacheMode, ReadyPackets, ReadyPacketsStats};
use netmem::page::Memory;
use netmem::pool::Pool;
use std::sync::Arc;

/// What can be asked about packets while the forwarders have them.
pub struct Hooks {
    pub heads: HeadCache,
    /// Each worker's rules, the same ones, and what its statistics hook counts; none on the fast path.
    filters: Vec<(FilterControl, Arc<Protocols>)>,
    /// Each worker's ready pairs, if there are any.
    pub pairs: Vec<ReadyPackets>,
}

/// Bytes of memory for the heads of as many packets as there are frames, and for what lies in caches meanwhile.
pub fn room(frames: usize) -> usize {
    frames * 64 + (4 << 20)
}

impl Hooks {
    /// Heads as planned, for all workers.
    ///
    /// # Errors
    /// [`Failure::Input`].
    pub fn new(memory: &Memory, plan: &PacketPlan) -> Result<Hooks, Failure> {
        let config = match plan.heads {
            None => HeadCacheConfig::default(),
            Some(ReadyHeads::None) => {
                HeadCacheConfig { mode: HeadCacheMode::Bulk, ..HeadCacheConfig::default() }
            }
            Some(ReadyHeads::Array { size, refill, free }) => {
                HeadCacheConfig { size, refill, free, ..HeadCacheConfig::default() }
            }
        };
        let heads = HeadCache::with(memory, &config).map_err(Failure::input)?;
        Ok(Hooks { heads, filters: Vec::new(), pairs: Vec::new() })
    }

    /// Makes packets of the frames of one more forwarder, whose ports receive into `pool`.
    ///
    /// # Errors
    /// [`Failure::Input`].
    pub fn set(&mut self, forwarder: &mut Forwarder, pool: &Pool, plan: &PacketPlan) -> Result<(), Failure> {
        let mut path = PacketPath::new(self.heads.clone());
        if let Some(max) = plan.pairs {
            let pairs = ReadyPackets::new(pool, &self.heads, max);
            path = path.with_ready_packets(pairs.clone());
            self.pairs.push(pairs);
        }
        if let Some(rules) = &plan.rules {
            let (filter, control) = filter(rules.clone()).map_err(Failure::input)?;
            path = path.with_hooks(filter);
            self.filters.extend(path.protocols().map(|protocols| (control, protocols)));
        }
        forwarder.set_packet_path(path);
        Ok(())
    }

    /// What reads and changes the rules, on the full path: one for each worker.
    pub fn rules(&self) -> Vec<FilterControl> {
        self.filters.iter().map(|(control, _)| control.clone()).collect()
    }

    /// The ready pairs of all workers, where there are any; `max` is each worker's.
    pub fn pairs_stats(&self) -> Option<ReadyPacketsStats> {
        let add = |all: ReadyPacketsStats, its: ReadyPacketsStats| ReadyPacketsStats {
            now: all.now + its.now,
            max: all.max,
            taken: all.taken + its.taken,
            kept: all.kept + its.kept,
            missed: all.missed + its.missed,
            passed: all.passed + its.passed,
            released: all.released + its.released,
        };
        self.pairs.iter().map(ReadyPackets::stats).reduce(add)
    }

    /// What the hooks have counted by now, on the full path.
    pub fn report(&self) -> Option<FilterReport> {
        let reports = self.filters.iter().map(|(control, protocols)| FilterReport::new(control, protocols));
        reports.reduce(FilterReport::with)
    }
}
