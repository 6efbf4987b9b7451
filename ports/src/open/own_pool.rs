//! A pool for one port alone, whose peers must see no other port's packets.

use super::{OpenError, PortOpener, PortPlace};
use crate::lend::memory_of_a_peer;
use netmem::page::MemoryConfig;
use netmem::pool::PoolConfig;
use netmem::port::memif::Lend;
use netmem::{Memory, Pool, Worker};
use std::error::Error;
use std::path::Path;

/// A memory that the peers of one port map, and the pool of all its frames.
pub(super) struct OwnPool {
    pub(super) memory: Memory,
    pub(super) worker: Worker,
    pub(super) pool: Pool,
}

impl PortOpener {
    /// Makes a pool with the number and size of `pool`'s frames, hardened as its memory is. It is called `lent` and the
    /// port's number, and for example `lent2-1` for the second worker.
    pub(super) fn own_pool(
        &self,
        lend: Lend,
        path: &Path,
        place: PortPlace,
        pool: &Pool,
    ) -> Result<OwnPool, OpenError> {
        let port = || format!("memif:{}", path.display());
        let failed = |step| move |error| OpenError::OwnPool { step, port: port(), error };
        let frames = pool.frames();
        let config = MemoryConfig {
            bytes: frames * pool.frame_size(),
            workers: 1,
            hardening: self.memory.hardening(),
            ..MemoryConfig::default()
        };
        let memory = memory_of_a_peer(&config, lend).map_err(boxed).map_err(failed("the memory"))?;
        let mut worker = memory.worker().map_err(boxed).map_err(failed("a worker"))?;
        let name = match self.config.workers {
            0 | 1 => format!("lent{}", place.port),
            _ => format!("lent{}-{}", place.port, place.worker),
        };
        let config = PoolConfig { name, frames, ..PoolConfig::of_frames(pool.frame_size()) };
        let pool = Pool::new(&memory, &mut worker, &config).map_err(boxed).map_err(failed("a pool"))?;
        Ok(OwnPool { memory, worker, pool })
    }
}

fn boxed(error: impl Error + Send + Sync + 'static) -> Box<dyn Error + Send + Sync> {
    Box::new(error)
}
