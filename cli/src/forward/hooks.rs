//! Packets on the full path: their heads, ready packets and rules, as planned.

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

/// The parts of the full path that can be read while the forwarders run.
pub struct Hooks {
    pub heads: HeadCache,
    /// The rules of each worker, which are the same, and the counts of its statistics hook. Empty on the fast path.
    filters: Vec<(FilterControl, Arc<Protocols>)>,
    /// Each worker's ready packets, if there are any.
    pub ready: Vec<ReadyPackets>,
}

/// Returns the bytes of memory for the heads of as many packets as there are frames, with the heads that lie in
/// caches.
pub fn room(frames: usize) -> usize {
    frames * 64 + (4 << 20)
}

impl Hooks {
    /// Makes the planned heads for all workers.
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
        Ok(Hooks { heads, filters: Vec::new(), ready: Vec::new() })
    }

    /// Puts one more forwarder, whose ports receive into `pool`, on the full path.
    ///
    /// # Errors
    /// [`Failure::Input`].
    pub fn set(&mut self, forwarder: &mut Forwarder, pool: &Pool, plan: &PacketPlan) -> Result<(), Failure> {
        let mut path = PacketPath::new(self.heads.clone());
        if let Some(max) = plan.ready {
            let ready = ReadyPackets::new(pool, &self.heads, max);
            path = path.with_ready_packets(ready.clone());
            self.ready.push(ready);
        }
        if let Some(rules) = &plan.rules {
            let (filter, control) = filter(rules.clone()).map_err(Failure::input)?;
            path = path.with_hooks(filter);
            self.filters.extend(path.protocols().map(|protocols| (control, protocols)));
        }
        forwarder.set_packet_path(path);
        Ok(())
    }

    /// Returns the controls of the rules, one for each worker on the full path.
    pub fn rules(&self) -> Vec<FilterControl> {
        self.filters.iter().map(|(control, _)| control.clone()).collect()
    }

    /// Returns the sum of all workers' ready packets, if there are any. `max` is that of one worker.
    pub fn ready_stats(&self) -> Option<ReadyPacketsStats> {
        let add = |mut all: ReadyPacketsStats, its: ReadyPacketsStats| {
            all.now += its.now;
            all.taken += its.taken;
            all.kept += its.kept;
            all.missed += its.missed;
            all.passed += its.passed;
            all.released += its.released;
            all
        };
        self.ready.iter().map(ReadyPackets::stats).reduce(add)
    }

    /// Returns the counts of the hooks so far, on the full path.
    pub fn report(&self) -> Option<FilterReport> {
        let reports = self.filters.iter().map(|(control, protocols)| FilterReport::new(control, protocols));
        reports.reduce(FilterReport::with)
    }
}
