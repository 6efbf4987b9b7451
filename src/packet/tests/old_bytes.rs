//! Tests of what is visible of an earlier use of a packet's bytes.

use crate::packet::{External, HeadCache, Packets, ReadyPackets, ReadyStack, Reset};
use crate::page::{Memory, MemoryConfig};
use crate::pool::{NoRoom, Pool, PoolConfig};
use crate::sync::Worker;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

fn ground(init_on_alloc: bool) -> (Memory, Worker, Pool, HeadCache) {
    let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frames: 64, init_on_alloc, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    (memory, w, pool, heads)
}

#[test]
fn what_put_shows_of_the_last_packet_put_zeroed_does_not_also_behind_a_chain() {
    let (_memory, mut w, pool, heads) = ground(false);
    let fresh = |w: &mut Worker| {
        let frame = pool.alloc(w).unwrap();
        heads.attach(w, frame).unwrap()
    };
    let (mut first, mut second) = (fresh(&mut w), fresh(&mut w));
    for packet in [&mut first, &mut second] {
        packet.put(1500).unwrap().fill(b'S');
    }
    heads.free(&mut w, first);
    heads.free(&mut w, second);
    let (mut first, second) = (fresh(&mut w), fresh(&mut w));
    assert_eq!(first.put(4).unwrap(), b"SSSS", "as put's documentation says");
    first.trim(0).unwrap();
    assert_eq!(first.put_zeroed(60).unwrap(), [0; 60]);
    first.append(second);
    first.put_slice(b"x").unwrap();
    assert_eq!(first.put_zeroed(60).unwrap(), [0; 60], "in the last part");
    let room = first.tailroom();
    let refused = Err(NoRoom { wanted: room as u32 + 1, room: room as u32 });
    assert_eq!(first.put_zeroed(room + 1).map(drop), refused);
    assert_eq!(first.len(), 121);
    heads.free(&mut w, first);
}

/// Memory whose owner shows 100 bytes at the first look, and none later.
struct Shrinking(AtomicUsize);

impl AsRef<[u8]> for Shrinking {
    fn as_ref(&self) -> &[u8] {
        if self.0.fetch_add(1, Relaxed) < 2 { &[1; 100] } else { &[] }
    }
}

/// Found: the copy had the bytes of the frame's last packet where the owner no longer had any.
#[test]
fn a_copy_of_memory_that_became_shorter_shows_no_old_byte() {
    let (_memory, mut w, pool, heads) = ground(false);
    let mut old = pool.alloc(&mut w).unwrap();
    old.put(1500).unwrap().fill(b'S');
    old.free(&mut w);
    let external = External::new(Shrinking(AtomicUsize::new(0)), drop);
    let mut packet = heads.attach_external(&mut w, external).unwrap();
    packet.make_writable(&mut w, &pool).unwrap();
    assert!(packet.data().iter().all(|byte| *byte != b'S'), "{:?}", packet.data());
    heads.free(&mut w, packet);
}

#[test]
fn ready_packets_of_a_pool_that_clears_show_no_old_byte() {
    let (_memory, mut w, pool, heads) = ground(true);
    let pairs = ReadyPackets::new(&pool, &heads, 16);
    let mut bulk = Packets::new();
    for round in 0..4 {
        bulk.push(pairs.get(&mut w).unwrap()).unwrap();
        assert_eq!(pairs.get_burst(&mut w, &mut bulk, 8), 8);
        for packet in bulk.iter_mut() {
            assert!(packet.put(1500).unwrap().iter().all(|byte| *byte == 0), "round {round}");
            packet.data_mut().unwrap().fill(b'S');
        }
        pairs.free(&mut w, bulk.pop().unwrap());
        pairs.free_bulk(&mut w, &mut bulk);
    }
    for reset in [Reset::AtPut, Reset::AtGet] {
        let mut stack = ReadyStack::new(&pool, &heads, 16, reset);
        for round in 0..4 {
            let mut packet = stack.get(&mut w).unwrap();
            assert!(packet.put(1500).unwrap().iter().all(|byte| *byte == 0), "{reset:?}, round {round}");
            packet.data_mut().unwrap().fill(b'S');
            stack.free(&mut w, packet);
        }
    }
    assert!(pool.ledger().balanced() && pool.ledger().all_freed());
}
