//! Our end of a memif connection: a port, and the pool whose frames it carries.

use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::memif::{MemifConfig, MemifPort};
use netmem::port::{Complete, Fill, Port, PortCounters, Rx, Tx, Wake};
use netmem::sync::Worker;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

pub struct End {
    pub port: MemifPort,
    pool: Pool,
    w: Worker,
    _frames: Memory,
}

/// Makes a memory of this number of bytes, for one worker.
pub fn of_bytes(bytes: usize) -> MemoryConfig {
    MemoryConfig { bytes, workers: 1, backing: BackingPreference::Small, ..MemoryConfig::default() }
}

/// Returns an unused path for a socket.
pub fn fresh_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("netmem-sequence-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
    std::env::temp_dir().join(name)
}

impl End {
    /// A port at `path` over frames out of a pool of `frames`.
    pub fn open(path: &Path, frames: Memory, pool: &PoolConfig, config: &MemifConfig) -> End {
        let mut w = frames.worker().expect("the bench is set up");
        let pool = Pool::new(&frames, &mut w, pool).expect("the bench is set up");
        let port = MemifPort::open(path, &frames, config).expect("the bench is set up");
        End { port, pool, w, _frames: frames }
    }

    /// Makes poll rounds without packets, and then what follows a sleep.
    pub fn rounds(&mut self, n: usize) {
        for _ in 0..n {
            self.port.kick();
        }
        // It looks at its peer.
        self.port.disarm();
        self.port.refill(&mut self.w, &self.pool);
    }

    /// Receives once: no packet is longer than its frame, and no frame comes twice.
    pub fn receive(&mut self) {
        let mut batch = Batch::new();
        self.port.rx(&mut self.w, &mut batch);
        for (i, frame) in batch.iter().enumerate() {
            assert!(frame.len() <= frame.size(), "{frame:?}");
            assert!(!batch[..i].iter().any(|other| other.id() == frame.id()), "{frame:?} twice");
        }
        batch.free(&mut self.w);
        self.port.complete(&mut self.w, &mut batch);
        batch.free(&mut self.w);
        self.port.refill(&mut self.w, &self.pool);
    }

    /// Sends up to 16 packets of `value` bytes.
    pub fn send(&mut self, value: u8) {
        let mut batch = Batch::new();
        self.pool.alloc_burst(&mut self.w, &mut batch, 1 + usize::from(value % 16));
        batch.put_each(usize::from(value), |_, bytes| bytes.fill(value));
        self.port.tx(&mut self.w, &mut batch);
        batch.free(&mut self.w);
    }

    /// Closes the port, and asserts that every frame is in its pool. Returns the port's counters.
    pub fn close(mut self) -> Arc<PortCounters> {
        self.port.close();
        let ledger = self.pool.ledger();
        assert!(ledger.all_freed() && ledger.balanced(), "{ledger:?}");
        self.port.counters()
    }
}
