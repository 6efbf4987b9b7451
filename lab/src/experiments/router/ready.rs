//! The packets of a router that are kept ready, in either form.

use netmem::forward::PacketPath;
use netmem::forward::filter::filter;
use netmem::packet::{HeadCache, ReadyList, ReadyPackets, ReadyStack};
use netmem::page::Memory;
use netmem::pool::Pool;

use super::{PacketSetup, Router};
use crate::bench::SetUpError;

/// Where ready packets are kept.
pub(in crate::experiments) enum Ready {
    /// Each worker has its own.
    ByWorker(ReadyPackets),
    /// One list for all.
    List(ReadyList),
}

impl Ready {
    pub(super) fn by_worker(&self) -> Option<&ReadyPackets> {
        match self {
            Self::ByWorker(pairs) => Some(pairs),
            Self::List(_) => None,
        }
    }

    /// Returns the number of packets that were taken as ready ones, and that had to be made.
    pub(super) fn counts(&self) -> [u64; 2] {
        let stats = match self {
            Self::ByWorker(pairs) => pairs.stats(),
            Self::List(list) => list.stats(),
        };
        [stats.taken, stats.missed]
    }
}

impl Router {
    /// Returns how often heads were allocated, and freed, by the cache's slow path; None without heads. Caches that are
    /// merged count together.
    pub(in crate::experiments) fn slow_paths(&self) -> Option<[u64; 2]> {
        let stats = self.heads.as_ref()?.stats().cache;
        Some([stats.alloc_slowpath, stats.free_slowpath])
    }
}

/// Makes the full path, with its heads and its ready packets.
pub(in crate::experiments) fn packet_path(
    memory: &Memory,
    pool: &Pool,
    setup: &PacketSetup,
) -> Result<(PacketPath, HeadCache, Option<Ready>), SetUpError> {
    let heads = HeadCache::with(memory, &setup.heads).map_err(SetUpError::at("heads"))?;
    let mut path = PacketPath::new(heads.clone());
    if let Some(rules) = setup.rules {
        // Ports that the flow does not use, so that every packet is compared with every rule.
        let rule = |port: usize| format!("drop,proto=tcp,dport={port}").parse();
        let rules = (1..=rules).map(rule).collect::<Result<_, _>>().map_err(SetUpError::at("rules"))?;
        let (filter, _) = filter(rules).map_err(SetUpError::at("rules"))?;
        path = path.with_hooks(filter);
    }
    let Some(max) = setup.pairs else { return Ok((path, heads, None)) };
    if let Some((locking, reset)) = setup.list {
        let list = ReadyList::new(ReadyStack::new(pool, &heads, max, reset), locking);
        return Ok((path.with_ready_list(list.clone()), heads, Some(Ready::List(list))));
    }
    let pairs = ReadyPackets::new(pool, &heads, max);
    Ok((path.with_ready_packets(pairs.clone()), heads, Some(Ready::ByWorker(pairs))))
}
