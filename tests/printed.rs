//! How values look in the logs of a program.

#![allow(clippy::unwrap_used)]

use netmem::packet::{HeadCache, ReadyPackets};
use netmem::port::mem::{MemConfig, MemPort};
use netmem::slab::{Cache, CacheConfig, SizeClasses};
use netmem::steer::{Mesh, MeshConfig};
use netmem::{Memory, MemoryConfig, Pool, PoolConfig};

/// Seen: a line that printed a struct with a pool in it had 325 kB, and one with size classes 1.4 MB.
#[test]
fn a_value_that_a_program_prints_with_its_own_has_two_kilobytes_at_most() {
    let memory = Memory::new(&MemoryConfig { workers: 64, ..Default::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig::default()).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    let ready = ReadyPackets::new(&pool, &heads, 8);
    let objects = Cache::<u64>::new(&memory, &CacheConfig::default()).unwrap();
    let sizes = SizeClasses::new(&memory, &CacheConfig::default()).unwrap();
    let (port, device) = MemPort::pair("a", &MemConfig::default()).unwrap();
    let (mesh, mut ends) = Mesh::new(&MeshConfig::default()).unwrap();
    let (outbox, inbox) = ends.remove(0);
    let frame = pool.alloc(&mut w).unwrap();
    let all: [(&str, &dyn std::fmt::Debug); 13] = [
        ("Memory", &memory),
        ("Worker", &w),
        ("Pool", &pool),
        ("HeadCache", &heads),
        ("ReadyPackets", &ready),
        ("Cache", &objects),
        ("SizeClasses", &sizes),
        ("MemPort", &port),
        ("MemDevice", &device),
        ("Mesh", &mesh),
        ("Outbox", &outbox),
        ("Inbox", &inbox),
        ("Frame", &frame),
    ];
    for (name, value) in all {
        let line = format!("{value:?}");
        assert!(line.len() <= 2048, "{name}: {} bytes: {}", line.len(), &line[..300]);
        assert!(line.starts_with(name) || name == "Frame" || name == "Worker", "{line}");
    }
}
