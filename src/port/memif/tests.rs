//! Tests of two connected ports, and of ports with a peer that the test plays itself: correct, faulty and hostile.

mod bells;
mod forked;
mod giants;
mod hand;
mod holes;
mod hostile;
mod panics;
mod refused;
mod share;
mod smaller;
mod starved;
mod talking;
mod traffic;
mod users;

use super::*;
use crate::page::{Memory, MemoryConfig};
use crate::pool::{Batch, Pool, PoolConfig};
use crate::port::{Complete, Fill, Rx, Tx, Wake};
use crate::steer::{DEFAULT_KEY, Toeplitz};
use crate::sync::Worker;
use crate::sys::region::BackingPreference;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// A test that waits longer than this hangs.
const LONG: Duration = Duration::from_secs(60);

/// Returns a path for a socket that no other test uses.
fn fresh_path() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Relaxed);
    std::env::temp_dir().join(format!("netmem-memif-{}-{number}", std::process::id()))
}

/// One side's memory, worker, pool and port.
struct Side {
    port: MemifPort,
    pool: Pool,
    w: Worker,
    _memory: Memory,
}

impl Side {
    fn open(path: &Path, shared: bool, config: &MemifConfig) -> Side {
        let wanted = MemoryConfig {
            bytes: 2048 * config.frame_size,
            workers: 1,
            backing: BackingPreference::Small,
            ..MemoryConfig::default()
        };
        // SAFETY: the peers of these tests are on this thread or read only what was given to them.
        #[allow(unsafe_code)]
        let memory = if shared { unsafe { Memory::shared(&wanted) } } else { Memory::new(&wanted) }.unwrap();
        let mut w = memory.worker().unwrap();
        let usual = PoolConfig::of_frames(config.frame_size);
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 512, ..usual }).unwrap();
        let config = &MemifConfig { lend: shared.then(Lend::in_tests), ..config.clone() };
        let mut port = MemifPort::open(path, &memory, config).unwrap();
        // A flow has the same queue in each run.
        port.toeplitz = Toeplitz::new(&DEFAULT_KEY);
        Side { port, pool, w, _memory: memory }
    }

    fn client(path: &Path, shared: bool) -> Side {
        Side::open(path, shared, &MemifConfig { ring: 64, ..MemifConfig::default() })
    }

    fn server(path: &Path) -> Side {
        Side::open(path, false, &server_config())
    }

    /// A server whose clients may lend.
    fn server_of_lenders(path: &Path) -> Side {
        Side::open(path, false, &of_lenders(server_config()))
    }

    /// Makes a round without packets.
    fn idle(&mut self) {
        self.port.service();
        self.port.refill(&mut self.w, &self.pool);
        self.port.kick();
    }

    fn is_up(&self) -> bool {
        self.port.state() == PortState::Up
    }

    fn reason(&self) -> String {
        match self.port.state() {
            PortState::Up => panic!("the port is up"),
            PortState::Down(reason) => reason,
        }
    }

    /// Returns why the port is down; empty if it is up.
    fn reason_or_up(&self) -> String {
        if self.is_up() { String::new() } else { self.reason() }
    }

    /// Sends as many of the packets as the port takes.
    fn send(&mut self, packets: &[Vec<u8>]) -> usize {
        let mut batch = Batch::new();
        for packet in packets {
            let mut frame = self.pool.alloc(&mut self.w).unwrap();
            frame.put(packet.len()).unwrap().copy_from_slice(packet);
            batch.push(frame).unwrap();
        }
        let sent = self.port.tx(&mut self.w, &mut batch);
        batch.free(&mut self.w);
        sent
    }

    fn receive(&mut self) -> Vec<Vec<u8>> {
        let mut batch = Batch::new();
        self.port.rx(&mut self.w, &mut batch);
        let packets = batch.iter().map(|frame| frame.data().to_vec()).collect();
        batch.free(&mut self.w);
        self.port.refill(&mut self.w, &self.pool);
        packets
    }

    fn complete(&mut self) -> usize {
        let mut batch = Batch::new();
        let n = self.port.complete(&mut self.w, &mut batch);
        batch.free(&mut self.w);
        n
    }

    /// Closes the port. Then every frame must be in its pool and counted.
    fn close(mut self) {
        self.port.close();
        let counters = self.port.counters();
        assert_eq!(counters.tx.get(), counters.completed.get(), "transmitted, and completed");
        drop(self.port);
        let ledger = self.pool.ledger();
        assert!(ledger.all_freed() && ledger.balanced(), "{ledger:?}");
    }
}

fn server_config() -> MemifConfig {
    MemifConfig { role: Role::Server, ring: 64, ..MemifConfig::default() }
}

/// The settings of a server whose clients may lend.
fn of_lenders(config: MemifConfig) -> MemifConfig {
    MemifConfig { sealing: Sealing::HolesAllowed, ..config }
}

/// Lets both sides make rounds until `done`.
fn until(a: &mut Side, b: &mut Side, mut done: impl FnMut(&Side, &Side) -> bool) {
    let end = Instant::now() + LONG;
    while !done(a, b) {
        assert!(Instant::now() < end, "{:?} and {:?}", a.port, b.port);
        a.idle();
        b.idle();
    }
}

/// Returns a server and a client that are connected.
fn connected(shared: bool) -> (Side, Side) {
    let path = fresh_path();
    let mut server = if shared { Side::server_of_lenders(&path) } else { Side::server(&path) };
    let mut client = Side::client(&path, shared);
    until(&mut server, &mut client, |server, client| server.is_up() && client.is_up());
    server.idle();
    client.idle();
    (server, client)
}
