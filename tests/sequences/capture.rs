//! Any bytes as a captured file. The frames that a port receives from it return to their pool, and a file that it
//! writes is read as the same packets.

#![allow(missing_docs)]

use netmem::page::BackingPreference;
use netmem::pool::Batch;
use netmem::port::pcap::{PcapConfig, PcapPort};
use netmem::port::{Complete, Fill, PortState, Rx, Tx, Wake};
use netmem::wire::MacAddr;
use netmem::{Memory, MemoryConfig, Pool, PoolConfig, Port, Worker};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// A separate file. It is removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new(bytes: &[u8]) -> Scratch {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("netmem-capture-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let scratch = Scratch(std::env::temp_dir().join(name));
        fs::write(&scratch.0, bytes).expect("a file");
        scratch
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

pub fn run(bytes: &[u8]) {
    let _ = received(bytes);
}

/// Returns the packets that a port received from the file, and whether the file is whole. Returns None if the port
/// cannot be opened.
pub fn received(bytes: &[u8]) -> Option<(Vec<Vec<u8>>, bool)> {
    let (file, copy) = (Scratch::new(bytes), Scratch::new(&[]));
    let (packets, is_whole) = pass(&file.0, Some(&copy.0), None)?;
    // The written file is a capture of the same packets, whatever was read.
    assert_eq!(pass(&copy.0, None, None), Some((packets.clone(), true)));
    let address = [2, 0, 0, 0, 0, 9];
    let (to_us, _) = pass(&copy.0, None, Some(MacAddr::new(address))).expect("it was read before");
    assert_eq!(to_us.len(), packets.len());
    for (packet, to_us) in packets.iter().zip(&to_us) {
        let is_replaced = packet.len() >= 6 && packet[0] & 1 == 0;
        let expected = if is_replaced { &address[..] } else { &packet[..packet.len().min(6)] };
        assert!(to_us.starts_with(expected) && to_us[expected.len()..] == packet[expected.len()..]);
    }
    Some((packets, is_whole))
}

/// Receives a file to its end, or as far as it can be read, and writes it to another.
fn pass(from: &Path, to: Option<&Path>, destination: Option<MacAddr>) -> Option<(Vec<Vec<u8>>, bool)> {
    let config = MemoryConfig { bytes: 768 << 10, workers: 1, ..MemoryConfig::default() };
    let memory = Memory::new(&MemoryConfig { backing: BackingPreference::Small, ..config }).expect("memory");
    let mut w = memory.worker().expect("a worker");
    let pool =
        Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..PoolConfig::default() }).expect("a pool");
    let (input, output) = (Some(from.to_owned()), to.map(Path::to_owned));
    let config = PcapConfig { input, output, destination, ring: 32, ..PcapConfig::default() };
    let mut port = PcapPort::open("0", &config).ok()?;
    let packets = receive_all(&mut port, &pool, &mut w);
    let is_whole = match port.state() {
        PortState::Down(why) => {
            assert!(why.contains("at byte") || why.contains(&from.display().to_string()), "{why}");
            false
        }
        _ => true,
    };
    let counters = port.counters();
    assert_eq!(counters.rx.get(), packets.len() as u64);
    assert_eq!(counters.rx_bytes.get(), packets.iter().map(|packet| packet.len() as u64).sum());
    drop(port);
    assert!(pool.ledger().all_freed());
    Some((packets, is_whole))
}

fn receive_all(port: &mut PcapPort, pool: &Pool, w: &mut Worker) -> Vec<Vec<u8>> {
    let (mut batch, mut packets) = (Batch::new(), Vec::new());
    // One round at least: an output is written in rounds.
    loop {
        port.refill(w, pool);
        port.rx(w, &mut batch);
        packets.extend(batch.iter().map(|frame| frame.data().to_vec()));
        port.tx(w, &mut batch);
        port.complete(w, &mut batch);
        batch.free(w);
        port.kick();
        if port.rx_finished() {
            break;
        }
    }
    packets
}
