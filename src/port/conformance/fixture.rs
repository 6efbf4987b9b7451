//! What a port is opened with.

use crate::page::{BackingPreference, Memory, MemoryConfig};
use crate::pool::{Pool, PoolConfig};
use crate::sync::Worker;

/// A memory with a worker and a pool, for opening a port.
#[derive(Debug)]
pub struct Fixture {
    /// The worker that makes all calls.
    pub w: Worker,
    /// Frames for the port, each with at least 1,518 bytes of room.
    pub pool: Pool,
    /// The memory that the frames lie in.
    pub memory: Memory,
}

impl Fixture {
    /// Makes a memory with a pool of that many frames, at most 512.
    ///
    /// # Panics
    /// Panics if the system does not have enough memory.
    pub fn new(frames: usize) -> Fixture {
        Fixture::over(Memory::new(&Fixture::config()).expect("2 MiB of memory"), frames)
    }

    /// Makes a pool of that many frames in a memory that was made with [`Fixture::config`].
    ///
    /// # Panics
    /// Panics if the memory does not have that many frames.
    pub fn over(memory: Memory, frames: usize) -> Fixture {
        let mut w = memory.worker().expect("a worker for the memory");
        let config = PoolConfig { frames, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut w, &config).expect("pages for the pool");
        Fixture { w, pool, memory }
    }

    /// Returns the settings for two mebibytes and one worker.
    pub fn config() -> MemoryConfig {
        MemoryConfig {
            bytes: 2 << 20,
            workers: 1,
            backing: BackingPreference::Small,
            ..MemoryConfig::default()
        }
    }
}
