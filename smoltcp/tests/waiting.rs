//! Tests of the sleeps of a device whose port has no room, is down, or reports packets that do not come.

#![allow(clippy::unwrap_used)]

use netmem::port::{Complete, Fill, Port, PortCounters, PortState, Rx, Tx, Wake};
use netmem::{Batch, Frame, Memory, MemoryConfig, Pool, PoolConfig, Worker};
use netmem_smoltcp::PortDevice;
use smoltcp::phy::{Device, TxToken};
use smoltcp::time::Instant;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// What a port does, and what was done to it.
#[derive(Default)]
struct Script {
    is_down: AtomicBool,
    /// It reports packets when it is armed.
    is_ready: AtomicBool,
    armed: AtomicUsize,
}

/// A port that receives nothing, and sends nothing while it is down.
struct Scripted {
    script: Arc<Script>,
    posted: Vec<Frame>,
    sent: Vec<Frame>,
    /// Never readable.
    socket: UnixStream,
    _other_end: UnixStream,
}

impl Fill for Scripted {
    fn fill_room(&mut self) -> usize {
        64 - self.posted.len()
    }
    fn fill(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        let before = self.posted.len();
        self.posted.extend(frames.drain());
        self.posted.len() - before
    }
    fn rx_posted(&self) -> usize {
        self.posted.len()
    }
}

impl Rx for Scripted {
    fn rx(&mut self, _w: &mut Worker, _frames: &mut Batch) -> usize {
        0
    }
}

impl Tx for Scripted {
    fn tx(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        let before = self.sent.len();
        if !self.script.is_down.load(SeqCst) {
            let mut stay = self.take_unsendable(frames);
            self.sent.extend(frames.drain());
            frames.append(&mut stay);
        }
        self.sent.len() - before
    }
    fn tx_posted(&self) -> usize {
        self.sent.len()
    }
    /// Carries frames of up to a hundred bytes.
    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        frames.extract(|frame| frame.len() > 100)
    }
}

impl Complete for Scripted {
    fn complete(&mut self, _w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.sent.len().min(frames.room());
        self.sent.drain(..n).for_each(|frame| frames.push(frame).unwrap());
        n
    }
}

impl Wake for Scripted {
    fn kick(&mut self) {}
    fn arm(&mut self) -> bool {
        self.script.armed.fetch_add(1, SeqCst);
        self.script.is_ready.load(SeqCst)
    }
    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

impl Port for Scripted {
    fn name(&self) -> &str {
        "scripted"
    }
    fn kind(&self) -> &'static str {
        "scripted"
    }
    fn state(&self) -> PortState {
        let is_down = self.script.is_down.load(SeqCst);
        if is_down { PortState::Down("by the script".into()) } else { PortState::Up }
    }
    fn counters(&self) -> Arc<PortCounters> {
        Arc::new(PortCounters::default())
    }
}

fn scripted() -> (PortDevice, Arc<Script>, Pool) {
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 256, ..PoolConfig::default() }).unwrap();
    let (script, (socket, _other_end)) = (Arc::new(Script::default()), UnixStream::pair().unwrap());
    let (posted, sent) = (Vec::new(), Vec::new());
    let port = Scripted { script: script.clone(), posted, sent, socket, _other_end };
    (PortDevice::station(Box::new(port), w, &pool, 1500).unwrap(), script, pool)
}

/// Writes packets of that many bytes until there is no room. Returns their number.
fn fill(device: &mut PortDevice, len: usize) -> usize {
    let mut written = 0;
    while let Some(room) = device.transmit(Instant::ZERO) {
        room.consume(len, |_| ());
        written += 1;
    }
    written
}

/// Waits without a time of smoltcp's own, as while it has packets to send. Returns how often within a second.
fn waits_in_a_second(device: &mut PortDevice) -> usize {
    let second = thread::spawn(|| thread::sleep(Duration::from_secs(1)));
    let mut waits = 0;
    while !second.is_finished() {
        device.wait(Some(Duration::ZERO));
        waits += 1;
    }
    waits
}

/// Seen: smoltcp had packets to send, so it gave no time to wait, and the link was down. The thread turned without a pause.
#[test]
fn a_device_without_room_sleeps_also_if_smoltcp_would_send_at_once() {
    let (mut device, script, _pool) = scripted();
    script.is_down.store(true, SeqCst);
    assert!(fill(&mut device, 60) > 0);
    let waits = waits_in_a_second(&mut device);
    assert!(waits <= 20_000, "{waits} waits in a second");
    script.is_down.store(false, SeqCst);
    device.flush();
    assert!(device.transmit(Instant::ZERO).is_some(), "there is room again");
}

/// Seen: the same while the port reported packets for which there was no frame.
#[test]
fn a_device_whose_packets_do_not_come_sleeps_also_if_smoltcp_would_send_at_once() {
    let (mut device, script, _pool) = scripted();
    script.is_ready.store(true, SeqCst);
    let waits = waits_in_a_second(&mut device);
    assert!(waits <= 20_000 && waits <= script.armed.load(SeqCst), "{waits} waits in a second");
    script.is_ready.store(false, SeqCst);
    device.wait(Some(Duration::ZERO));
}

/// A port counts a frame that it can never carry each time that it is offered.
#[test]
fn frames_that_a_port_can_never_carry_are_freed_at_once_also_while_it_is_down() {
    let (mut device, script, pool) = scripted();
    script.is_down.store(true, SeqCst);
    device.flush();
    let before = pool.ledger().owned;
    device.transmit(Instant::ZERO).unwrap().consume(1000, |_| ());
    device.flush();
    assert_eq!(pool.ledger().owned, before);
}
