//! Packets in a queue between two workers, as the ledger has them.

use super::bench;
use crate::packet::QueuedPacket;
use crate::ring::ring;

#[test]
fn of_a_packet_in_a_queue_the_frames_that_are_its_alone_are_queued() {
    let (memory, mut w, pool, heads) = bench(8);
    let other = memory.worker().unwrap();
    let alloc = |w: &mut _| heads.alloc(w, &pool).unwrap();
    let (mut chain, single, mut read) = (alloc(&mut w), alloc(&mut w), alloc(&mut w));
    chain.append(alloc(&mut w));
    // The third part is read by others too, and stays as it is.
    let reader = heads.share(&mut w, &mut read).unwrap();
    chain.append(read);
    let mut chain = QueuedPacket::new(chain, &w);
    let mut single = QueuedPacket::new(single, &w);
    assert_eq!((pool.ledger().queued, pool.ledger().owned), (3, 1));
    let single = single.take(&other).unwrap();
    assert_eq!((pool.ledger().queued, pool.ledger().owned), (2, 2));
    let packet = chain.take(&other).unwrap();
    assert!(chain.take(&other).is_none());
    drop(chain);
    assert_eq!((packet.segments().count(), pool.ledger().queued, pool.ledger().owned), (3, 0, 4));
    assert!(pool.ledger().balanced());
    [packet, single, reader].into_iter().for_each(|packet| heads.free(&mut w, packet));
    assert!(pool.ledger().all_home());
}

#[test]
fn packets_of_a_queue_that_is_dropped_go_home() {
    let (_memory, mut w, pool, heads) = bench(8);
    let (mut sender, receiver) = ring(4);
    for _ in 0..3 {
        let mut packet = heads.alloc(&mut w, &pool).unwrap();
        packet.append(heads.alloc(&mut w, &pool).unwrap());
        sender.send(QueuedPacket::new(packet, &w)).unwrap();
    }
    assert_eq!((pool.ledger().queued, pool.ledger().owned), (6, 0));
    drop((sender, receiver));
    assert!(pool.ledger().balanced() && pool.ledger().all_home());
}
