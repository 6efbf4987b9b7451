//! The set-up of a worker: everything that it forwards with is its own.

use super::lending;
use super::plan::{Plan, Source};
use crate::failure::Failure;
use netmem::forward::Forwarder;
use netmem::forward::recorder::Recording;
use netmem::page::Memory;
use netmem::pool::{DmaMap, Pool, PoolConfig};
use netmem::sync::Worker;
use netmem_router::icmp::{IcmpControl, IcmpCounters};
use std::iter;
use std::sync::Arc;

/// A memory's size is a multiple of this.
const MEMORY: usize = 2 << 20;

/// The parts that one worker forwards with. During a run, workers share only the memory.
pub struct WorkerSetup {
    pub owner: Owner,
    pub forwarder: Forwarder,
    pub icmp: Icmp,
    /// The reader of the flight recorder, if there is one.
    pub recording: Option<Recording>,
    /// A description of each port other than its name: the XDP mode.
    pub details: Vec<String>,
    /// The core to pin it to.
    pub core: Option<usize>,
}

impl WorkerSetup {
    /// Returns the pools of the frames that pass: its own, and those of ports that receive into a pool of theirs.
    pub fn pools(&self) -> impl Iterator<Item = &Pool> {
        iter::once(&self.owner.pool).chain(self.own_pools())
    }

    fn own_pools(&self) -> impl Iterator<Item = &Pool> {
        self.forwarder.ports().filter_map(|port| port.own_pool())
    }

    /// Returns the bytes of the memories that ports have for pools of their own.
    pub fn own_bytes(&self) -> usize {
        let bytes = |pool: &Pool| (pool.capacity() * pool.frame_size()).next_multiple_of(MEMORY);
        self.own_pools().map(bytes).sum()
    }
}

/// The counters and the control of a worker's ICMP errors.
#[derive(Clone, Default)]
pub struct Icmp {
    pub counters: Arc<IcmpCounters>,
    /// None without a router.
    pub control: Option<IcmpControl>,
}

/// A worker and the pool that it owns, for the frames that its ports receive.
pub struct Owner {
    pub worker: Worker,
    pub pool: Pool,
}

/// Makes the workers and their pools. The pools are named `rx` if there is one, else `rx0`, `rx1`, ….
///
/// # Errors
/// [`Failure::Input`] with the remedy.
pub fn owners(plan: &Plan, memory: &Memory) -> Result<Vec<Owner>, Failure> {
    let dma = match plan.source {
        Source::BuiltIn(_) => DmaMap::None,
        Source::Ports { .. } => DmaMap::Umem,
    };
    let owner = |number| {
        let mut worker = memory.worker().map_err(Failure::input)?;
        let name = if plan.workers == 1 { "rx".into() } else { format!("rx{number}") };
        let usual = PoolConfig::of_frames(plan.frame_size.bytes());
        let config = PoolConfig { name, frames: plan.frames, dma: dma.clone(), ..usual };
        let pool = Pool::new(memory, &mut worker, &config).map_err(lending::pool_refused)?;
        Ok(Owner { worker, pool })
    };
    (0..plan.workers).map(owner).collect()
}
