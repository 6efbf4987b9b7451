//! Frames that a host sends and gets as they are, past its own kernel's IP.

use crate::testbed::{Namespace, PATIENCE};
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort};
use netmem::sync::Worker;
use std::thread;
use std::time::{Duration, Instant};

/// How long a frame is waited for without a pause.
const AT_ONCE: Duration = Duration::from_millis(2);

/// A host's interface `eth0`.
pub struct Wire {
    port: Box<dyn Port>,
    pool: Pool,
    w: Worker,
    /// Keeps the memory of the other fields.
    _memory: Memory,
}

impl Wire {
    /// Opens it.
    pub fn of(host: &Namespace) -> Wire {
        let memory =
            Memory::new(&MemoryConfig { bytes: 8 << 20, ..MemoryConfig::default() }).expect("memory");
        let mut w = memory.worker().expect("a worker");
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 1024, ..PoolConfig::default() });
        let pool = pool.expect("a pool");
        let port =
            host.inside(|| AfPacketPort::open("eth0", &AfPacketConfig::default())).expect("a packet socket");
        Wire { port: Box::new(port), pool, w, _memory: memory }
    }

    /// Sends a frame.
    pub fn send(&mut self, bytes: &[u8]) {
        let mut batch = Batch::new();
        let mut frame = self.pool.alloc(&mut self.w).expect("a frame");
        frame.put_slice(bytes).expect("room");
        assert!(batch.push(frame).is_ok());
        let begun = Instant::now();
        while !batch.is_empty() {
            assert!(begun.elapsed() < PATIENCE, "the interface takes no frame");
            self.port.tx(&mut self.w, &mut batch);
            self.port.kick();
        }
        let mut sent = Batch::new();
        self.port.complete(&mut self.w, &mut sent);
        sent.free(&mut self.w);
    }

    /// The frames that come until one is the last.
    ///
    /// # Panics
    /// When patience is at its end.
    pub fn receive_until(&mut self, mut is_last: impl FnMut(&[u8]) -> bool) -> Vec<Vec<u8>> {
        let (mut come, begun) = (Vec::new(), Instant::now());
        loop {
            let mut batch = Batch::new();
            self.port.refill_to(&mut self.w, &self.pool, 512);
            self.port.kick();
            self.port.rx(&mut self.w, &mut batch);
            for frame in batch.drain() {
                come.push(frame.data().to_vec());
                frame.free(&mut self.w);
            }
            if come.iter().any(|frame| is_last(frame)) {
                return come;
            }
            assert!(begun.elapsed() < PATIENCE, "waited in vain; came: {come:x?}");
            match begun.elapsed() < AT_ONCE {
                true => thread::yield_now(),
                false => thread::sleep(Duration::from_millis(1)),
            }
        }
    }
}
