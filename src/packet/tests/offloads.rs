//! Tests of the open work of packets of several parts, and of its copies.

use super::bench;
use crate::packet::{External, HeadCache, Packet};
use crate::pool::{NoRoom, Pool, PoolConfig};
use crate::sync::Worker;
use crate::wire::checksum::Sum;
use crate::wire::offload::{Offload, PartialChecksum};
use std::time::Duration;

fn open(start: u16) -> Offload {
    Offload { checksum: Some(PartialChecksum { start, offset: 6 }), gso: None }
}

/// A packet of so many bytes, with an open checksum of all from `start` on, if there is one.
fn packet(w: &mut Worker, pool: &Pool, heads: &HeadCache, len: u8, start: Option<u16>) -> Packet {
    let frame = pool.alloc(w).unwrap();
    let mut packet = heads.attach(w, frame).unwrap();
    packet.put_slice(&(0..len).collect::<Vec<_>>()).unwrap();
    start.into_iter().for_each(|start| packet.set_offload(open(start)).unwrap());
    packet
}

/// Completes the checksum of a packet that is one frame, and checks that its bytes from `start` on add up.
fn assert_completes(packet: &mut Packet, start: usize) {
    let checksum = packet.offload().and_then(|offload| offload.checksum).expect("an open checksum");
    assert_eq!(usize::from(checksum.start), start);
    let bytes = packet.data_mut().unwrap();
    // Of a pseudo-header that adds up to nothing.
    bytes[start + 6..start + 8].fill(0);
    checksum.finish(bytes).unwrap();
    assert_eq!(Sum::new().bytes(&bytes[start..]).checksum(), 0);
}

/// Found: the packet was copied without its open checksum, which then was never completed.
#[test]
fn a_header_that_is_put_before_a_packet_as_a_part_leaves_the_checksum_open() {
    let (memory, mut w, pool, heads) = bench(16);
    let bare = PoolConfig { frames: 8, headroom: 0, data: 2048, ..PoolConfig::default() };
    let bare = Pool::new(&memory, &mut w, &bare).unwrap();
    for is_shared in [false, true] {
        for no_headroom in [false, true] {
            let of = if no_headroom { &bare } else { &pool };
            let mut whole = packet(&mut w, of, &heads, 20, None);
            whole.append(packet(&mut w, &pool, &heads, 60, Some(34)));
            whole.append(packet(&mut w, &pool, &heads, 30, None));
            assert_eq!(whole.offload(), Some(open(54)));
            let other = is_shared.then(|| heads.share(&mut w, &mut whole).unwrap());
            heads.make_sendable(&mut w, &mut whole, &pool).unwrap();
            assert_eq!(whole.len(), 110);
            assert_completes(&mut whole, 54);
            heads.free(&mut w, whole);
            if let Some(mut other) = other {
                heads.linearize(&mut w, &mut other, &pool).unwrap();
                assert_eq!(other.offload(), Some(open(54)));
                assert_completes(&mut other, 54);
                heads.free(&mut w, other);
            }
        }
    }
    let external = heads.attach_external(&mut w, External::new(vec![9; 20], drop)).unwrap();
    let mut whole = external;
    whole.append(packet(&mut w, &pool, &heads, 60, Some(34)));
    heads.make_sendable(&mut w, &mut whole, &pool).unwrap();
    assert_completes(&mut whole, 54);
    heads.free(&mut w, whole);
    assert!(pool.ledger().all_freed() && bare.ledger().all_freed());
}

/// Found: that of the second was lost.
#[test]
fn parts_that_both_have_an_open_checksum_are_not_made_one_until_one_is_removed() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut whole = packet(&mut w, &pool, &heads, 40, Some(20));
    whole.append(packet(&mut w, &pool, &heads, 60, Some(34)));
    let error = heads.make_sendable(&mut w, &mut whole, &pool).unwrap_err();
    assert_eq!(
        error.to_string(),
        "two parts of the packet have open offload work, and one frame has room for one"
    );
    assert_eq!(heads.linearize(&mut w, &mut whole, &pool), Err(error));
    assert_eq!((whole.len(), whole.is_linear(), whole.offload()), (100, false, Some(open(20))));
    let second = heads.share(&mut w, &mut whole).unwrap();
    assert_eq!(whole.set_offload(open(74)), Err(NoRoom { wanted: 18, room: 0 }));
    heads.free(&mut w, second);
    whole.set_offload(open(74)).unwrap();
    assert_eq!(heads.make_sendable(&mut w, &mut whole, &pool), Ok(true));
    assert_completes(&mut whole, 74);
    heads.free(&mut w, whole);
    assert!(pool.ledger().all_freed());
}

#[test]
fn removing_the_open_work_of_a_chain_removes_that_of_each_part() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut whole = packet(&mut w, &pool, &heads, 20, None);
    whole.append(packet(&mut w, &pool, &heads, 60, Some(34)));
    whole.set_offload(Offload::default()).unwrap();
    assert_eq!(whole.offload(), None);
    let mut rest = heads.split(&mut w, &mut whole, 20).unwrap();
    assert_eq!(rest.offload(), None);
    rest.set_offload(open(34)).unwrap();
    heads.free(&mut w, whole);
    heads.free(&mut w, rest);
    assert!(pool.ledger().all_freed());
}

/// Found: the error said that there was room for 0 bytes.
#[test]
fn a_copy_into_a_pool_without_headroom_for_the_open_work_is_refused_for_that_reason() {
    let (memory, mut w, pool, heads) = bench(8);
    let bare = PoolConfig { frames: 8, headroom: 0, data: 2048, ..PoolConfig::default() };
    let bare = Pool::new(&memory, &mut w, &bare).unwrap();
    for timestamp in [None, Some(Duration::from_secs(1))] {
        let mut frame = pool.alloc(&mut w).unwrap();
        frame.put_zeroed(60).unwrap();
        frame.set_timestamp(timestamp).unwrap();
        if timestamp.is_none() {
            frame.set_offload(open(34)).unwrap();
        }
        let mut first = heads.attach(&mut w, frame).unwrap();
        let mut second = heads.share(&mut w, &mut first).unwrap();
        let error = heads.make_sendable(&mut w, &mut second, &bare).unwrap_err();
        let text = "18 bytes of headroom wanted for the packet's offload or timestamp, where the pool's frames have 0";
        assert_eq!(error.to_string(), text);
        heads.free(&mut w, first);
        heads.free(&mut w, second);
    }
    assert!(pool.ledger().all_freed() && bare.ledger().all_freed());
}
