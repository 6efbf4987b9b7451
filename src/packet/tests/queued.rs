//! Packets in a ring between two workers, as the ledger has them.

use super::bench;
use crate::packet::{Packets, QueuedPacket};
use crate::pool::{Pool, PoolConfig};
use crate::ring::ring;
use std::panic::{AssertUnwindSafe, catch_unwind};

#[test]
fn of_a_packet_in_a_ring_the_frames_that_are_its_alone_are_queued() {
    let (memory, mut w, pool, heads) = bench(8);
    let other = memory.worker().unwrap();
    let second = Pool::new(&memory, &mut w, &PoolConfig { frames: 8, ..PoolConfig::default() }).unwrap();
    let alloc = |w: &mut _| heads.alloc(w, &pool).unwrap();
    let (mut chain, single, mut read) = (alloc(&mut w), alloc(&mut w), alloc(&mut w));
    chain.append(alloc(&mut w));
    // The third part is read by others too, and stays as it is.
    let reader = heads.share(&mut w, &mut read).unwrap();
    chain.append(read);
    let (mut sender, mut receiver) = ring(8);
    let (mut here, mut there) = (Packets::new(), Packets::new());
    let of_second = heads.alloc(&mut w, &second).unwrap();
    [single, of_second, chain, alloc(&mut w)].into_iter().for_each(|packet| here.push(packet).unwrap());
    assert_eq!(here.send_queued(&w, &mut sender, |packet| packet), 4);
    assert_eq!((pool.ledger().queued, pool.ledger().owned, second.ledger().queued), (4, 1, 1));
    assert_eq!(there.receive_queued(&other, &mut receiver, 2, |packet| packet), 2);
    assert_eq!((pool.ledger().queued, pool.ledger().owned, second.ledger().queued), (3, 2, 0));
    assert_eq!(there.receive_queued(&other, &mut receiver, 64, |packet| packet), 2);
    assert_eq!((there[2].segments().count(), pool.ledger().queued, pool.ledger().owned), (3, 0, 5));
    assert!(pool.ledger().balanced() && second.ledger().balanced());
    heads.free_bulk(&mut w, &mut there);
    heads.free(&mut w, reader);
    assert!(pool.ledger().all_freed() && second.ledger().all_freed());
}

#[test]
fn what_a_ring_has_no_room_for_stays_and_what_is_in_one_that_is_dropped_goes_home() {
    let (_memory, mut w, pool, heads) = bench(16);
    let (mut sender, receiver) = ring(4);
    let mut packets = Packets::new();
    for _ in 0..6 {
        let mut packet = heads.alloc(&mut w, &pool).unwrap();
        packet.append(heads.alloc(&mut w, &pool).unwrap());
        packets.push(packet).unwrap();
    }
    assert_eq!(packets.send_queued(&w, &mut sender, |packet| packet), 4);
    assert_eq!((packets.len(), pool.ledger().queued, pool.ledger().owned), (2, 8, 4));
    drop((sender, receiver));
    assert_eq!((pool.ledger().queued, pool.ledger().owned, pool.ledger().balanced()), (0, 4, true));
    heads.free_bulk(&mut w, &mut packets);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_caller_that_panics_on_either_side_leaves_a_ledger_that_is_balanced() {
    let (_memory, mut w, pool, heads) = bench(16);
    let (mut sender, mut receiver) = ring::<QueuedPacket>(16);
    let (mut packets, mut left) = (Packets::new(), 2);
    let mut third_panics = |packet| {
        left -= 1;
        assert!(left >= 0, "planted");
        packet
    };
    (0..6).for_each(|_| packets.push(heads.alloc(&mut w, &pool).unwrap()).unwrap());
    let sending = AssertUnwindSafe(|| packets.send_queued(&w, &mut sender, &mut third_panics));
    assert!(catch_unwind(sending).is_err() && packets.is_empty());
    assert_eq!((pool.ledger().queued, pool.ledger().owned, pool.ledger().balanced()), (2, 0, true));
    (0..3).for_each(|_| packets.push(heads.alloc(&mut w, &pool).unwrap()).unwrap());
    assert_eq!(packets.send_queued(&w, &mut sender, |packet| packet), 3);
    let mut left = 2;
    let receiving = AssertUnwindSafe(|| {
        packets.receive_queued(&w, &mut receiver, 64, |packet| {
            left -= 1;
            assert!(left >= 0, "planted");
            packet
        })
    });
    assert!(catch_unwind(receiving).is_err());
    assert_eq!((packets.len(), pool.ledger().queued, pool.ledger().owned), (2, 2, 2));
    assert!(pool.ledger().balanced());
    heads.free_bulk(&mut w, &mut packets);
    drop((sender, receiver));
    assert!(pool.ledger().all_freed());
}
