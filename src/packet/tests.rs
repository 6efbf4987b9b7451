//! Heads on frames, and off again.
#![cfg(not(loom))]

mod bytes;
mod copy_break;
mod failure;
mod offloads;
mod old_bytes;
mod queued;
mod scenario;

use super::{HeadCache, InFlightHeads, Packet};
use crate::page::{Memory, MemoryConfig};
use crate::pool::{Batch, Frame, Pool, PoolConfig};
use crate::sync::Worker;
use crate::sys::region::BackingPreference;

pub(super) fn bench(frames: usize) -> (Memory, Worker, Pool, HeadCache) {
    let config = MemoryConfig {
        bytes: 2 << 20,
        workers: 2,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    let heads = HeadCache::new(&memory).unwrap();
    (memory, w, pool, heads)
}

#[test]
fn a_frame_becomes_a_packet_and_a_frame_again_without_a_copy() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.put(5).unwrap();
    frame.data_mut().copy_from_slice(b"hello");
    let (id, at) = (frame.id(), frame.data().as_ptr());
    let mut packet = heads.attach(&mut w, frame).unwrap();
    assert_eq!((packet.rx_queue(), packet.flow_hash()), (None, 0));
    packet.record_rx_queue(3);
    packet.set_flow_hash(0xabcd);
    packet.pull(1).unwrap();
    assert_eq!((packet.data(), packet.rx_queue(), packet.flow_hash()), (&b"ello"[..], Some(3), 0xabcd));
    packet.push(1).unwrap();
    let frame = heads.detach(&mut w, packet).unwrap();
    assert_eq!((frame.id(), frame.data().as_ptr(), frame.data()), (id, at, &b"hello"[..]));
    frame.free(&mut w);
    assert!(pool.ledger().all_freed());
}

#[test]
fn what_a_head_knew_is_not_seen_by_the_next_packet() {
    let (_memory, mut w, pool, heads) = bench(8);
    for _ in 0..100 {
        let frame = pool.alloc(&mut w).unwrap();
        let mut packet = heads.attach(&mut w, frame).unwrap();
        assert_eq!((packet.rx_queue(), packet.flow_hash()), (None, 0));
        packet.record_rx_queue(1);
        packet.set_flow_hash(1);
        heads.free(&mut w, packet);
    }
}

#[test]
fn packets_dropped_anywhere_give_head_and_frame_back() {
    let (memory, mut w, pool, heads) = bench(512);
    let mut packets: Vec<Packet> = Vec::new();
    while let Some(frame) = pool.alloc(&mut w) {
        packets.push(heads.attach(&mut w, frame).unwrap());
    }
    assert_eq!(packets.len(), 512);
    let elsewhere = packets.split_off(256);
    std::thread::spawn(move || drop(elsewhere)).join().unwrap();
    packets.into_iter().for_each(|packet| heads.free(&mut w, packet));
    assert!(pool.ledger().all_freed());
    drop((heads, pool, w));
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn a_packet_freed_through_other_heads_loses_nothing() {
    let (_memory, mut w, pool, heads) = bench(8);
    let others = HeadCache::new(&_memory).unwrap();
    let frame = pool.alloc(&mut w).unwrap();
    let packet = heads.attach(&mut w, frame).unwrap();
    others.free(&mut w, packet);
    assert!(pool.ledger().all_freed());
    assert_eq!(others.stats().ready, 0);
}

#[test]
fn without_memory_for_a_head_the_frame_comes_back() {
    let (memory, mut w, pool, heads) = bench(8);
    let frame = pool.alloc(&mut w).unwrap();
    let id = frame.id();
    let all: Vec<_> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
    let frame: Frame = heads.attach(&mut w, frame).unwrap_err();
    assert_eq!(frame.id(), id);
    drop(all);
    assert!(heads.attach(&mut w, frame).is_ok());
}

#[test]
fn a_packet_for_whose_frame_a_batch_has_no_room_stays_whole() {
    let (_memory, mut w, pool, heads) = bench(65);
    let (mut flight, mut frames) = (InFlightHeads::new(1), Batch::new());
    let frame = pool.alloc(&mut w).unwrap();
    let mut packet = heads.attach(&mut w, frame).unwrap();
    packet.put_slice(b"whole").unwrap();
    assert_eq!(pool.alloc_burst(&mut w, &mut frames, 64), 64);
    let packet = flight.detach(packet, &mut frames).unwrap_err();
    assert_eq!((packet.data(), flight.len(), frames.len()), (&b"whole"[..], 0, 64));
    frames.free(&mut w);
    heads.free(&mut w, packet);
    assert!(pool.ledger().all_freed());
}
