//! Tests of a packet's bytes.

use super::bench;
use crate::packet::packet::PUT_DOWN;
use crate::packet::{CopyError, External, HeadCache, InFlightHeads, Packet, Packets, SplitError};
use crate::pool::{Batch, Fragments, NoRoom, Pool, PoolConfig};
use crate::sync::Worker;
use crate::wire::offload::{Offload, PartialChecksum};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

fn packet(w: &mut Worker, pool: &Pool, heads: &HeadCache, bytes: &[u8]) -> Packet {
    let frame = pool.alloc(w).unwrap();
    let mut packet = heads.attach(w, frame).unwrap();
    packet.put_slice(bytes).unwrap();
    packet
}

fn all(packet: &Packet) -> Vec<u8> {
    packet.segments().collect::<Vec<_>>().concat()
}

/// Seen: each part was appended by a walk over all parts before it.
#[test]
fn sharing_a_chain_of_twice_as_many_parts_visits_twice_as_many() {
    let (_memory, mut w, _pool, heads) = bench(8);
    let visited = [1, 100, 200].map(|n| {
        let part = |w: &mut Worker| heads.attach_external(w, External::new([n as u8], drop)).unwrap();
        let mut chain = part(&mut w);
        for _ in 1..n {
            let mut first = part(&mut w);
            first.append(chain);
            chain = first;
        }
        let before = PUT_DOWN.get();
        let second = heads.share(&mut w, &mut chain).unwrap();
        let visited = PUT_DOWN.get() - before;
        assert_eq!((all(&second), second.segments().count()), (all(&chain), n));
        heads.free(&mut w, second);
        heads.free(&mut w, chain);
        visited
    });
    assert_eq!(visited, [1, 100, 200].map(|n| visited[0] * n));
}

#[test]
fn what_is_put_into_all_packets_comes_behind_what_each_has_until_one_has_no_room() {
    let (_memory, mut w, pool, heads) = bench(64);
    let mut packets = Packets::new();
    for i in 0..40_u8 {
        // Packets without data up to one that has some, and up to one that shares its frame.
        let had: &[u8] = if [21, 22, 37].contains(&i) { &[i; 5] } else { &[] };
        packets.push(packet(&mut w, &pool, &heads, had)).unwrap();
    }
    let second = heads.share(&mut w, &mut packets[37]).unwrap();
    for (n, done) in [(7, 37), (0, 40), (2049, 0)] {
        assert_eq!(packets.put_each(n, |i, tail| tail.fill(100 + i as u8)), done, "{n}");
    }
    heads.free(&mut w, second);
    assert!(packets[37].data_mut().is_some(), "its frame is its own again");
    assert_eq!(packets.put_each(3, |i, tail| tail.fill(i as u8)), 40);
    for (i, packet) in packets.iter().enumerate() {
        let had = if [21, 22, 37].contains(&i) { 5 } else { 0 };
        let long = if i < 37 { 7 } else { 0 };
        let whole = [&vec![i as u8; had][..], &vec![100 + i as u8; long], &[i as u8; 3]].concat();
        assert_eq!(all(packet), whole, "{i}");
    }
    heads.free_bulk(&mut w, &mut packets);
    assert!(pool.ledger().all_freed());
}

#[allow(unsafe_code)]
fn kept_as_words(packet: Packet) -> Packet {
    let (head, frame) = packet.into_raw();
    // SAFETY: the words were just given, and are taken once.
    unsafe { Packet::from_raw(head, frame) }
}

#[test]
fn a_packet_of_one_part_a_chain_and_one_of_shared_bytes_are_the_same_after_they_were_words() {
    let (_memory, mut w, pool, heads) = bench(16);
    let mut one = packet(&mut w, &pool, &heads, b"one");
    one.set_flow_hash(7);
    let mut one = kept_as_words(one);
    assert_eq!((one.data(), one.flow_hash(), one.headroom() > 0), (&b"one"[..], 7, true));
    let mut chain = packet(&mut w, &pool, &heads, b"chain ");
    chain.append(packet(&mut w, &pool, &heads, b"of two"));
    let chain = kept_as_words(chain);
    assert_eq!((all(&chain), chain.segments().count()), (b"chain of two".to_vec(), 2));
    let second = kept_as_words(heads.share(&mut w, &mut one).unwrap());
    assert!(one.data_mut().is_none() && second.data() == b"one" && second.flow_hash() == 7);
    let mut packets = Packets::new();
    [one, chain, second].into_iter().for_each(|packet| packets.push(packet).unwrap());
    heads.free_bulk(&mut w, &mut packets);
    assert!(pool.ledger().all_freed());
}

#[test]
fn bytes_with_two_holders_are_read_by_both_and_written_by_none_until_one_is_left() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut first = packet(&mut w, &pool, &heads, b"hello world");
    first.record_rx_queue(3);
    first.set_flow_hash(9);
    let mut second = heads.share(&mut w, &mut first).unwrap();
    assert_eq!((second.rx_queue(), second.flow_hash()), (Some(3), 9));
    second.pull(6).unwrap();
    first.trim(5).unwrap();
    assert_eq!((first.data(), second.data()), (&b"hello"[..], &b"world"[..]));
    assert!(first.data_mut().is_none() && second.data_mut().is_none());
    assert_eq!((second.headroom(), second.tailroom()), (0, 0));
    assert_eq!(second.push(1), Err(NoRoom { wanted: 1, room: 0 }));
    heads.free(&mut w, first);
    assert_eq!(pool.ledger().owned, 1, "the second holder keeps the frame");
    second.data_mut().unwrap()[0] = b'W';
    second.push(6).unwrap();
    assert_eq!(second.data(), b"hello World");
    heads.free(&mut w, second);
    assert!(pool.ledger().all_freed());
}

/// This was observed: the packet was written to, and the device's port took it for one that it cannot carry.
#[test]
fn a_packet_that_was_shared_and_is_written_to_departs_like_one_that_never_was() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut first = packet(&mut w, &pool, &heads, b"hello");
    let second = heads.share(&mut w, &mut first).unwrap();
    heads.free(&mut w, second);
    first.data_mut().unwrap()[0] = b'J';
    let (mut flight, mut frames) = (InFlightHeads::new(1), Batch::new());
    flight.detach(first, &mut frames).unwrap();
    assert_eq!((frames[0].data(), flight.len()), (&b"Jello"[..], 1));
    frames.free(&mut w);
    flight.free_newest(1, &heads, &mut w);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_packet_is_copied_to_be_written_while_others_read_it() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut first = packet(&mut w, &pool, &heads, b"hello");
    first.make_writable(&mut w, &pool).unwrap();
    assert_eq!(pool.ledger().owned, 1, "nothing is copied that is its alone");
    let second = heads.share(&mut w, &mut first).unwrap();
    first.make_writable(&mut w, &pool).unwrap();
    first.data_mut().unwrap()[0] = b'J';
    assert_eq!((first.data(), second.data()), (&b"Jello"[..], &b"hello"[..]));
    assert_eq!(pool.ledger().owned, 2);
    let mut packets = Packets::new();
    packets.push(first).unwrap();
    packets.push(second).unwrap();
    heads.free_bulk(&mut w, &mut packets);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_chain_is_one_packet() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut chain = packet(&mut w, &pool, &heads, b"one");
    chain.append(packet(&mut w, &pool, &heads, b"two"));
    chain.append(packet(&mut w, &pool, &heads, b"three"));
    assert_eq!((chain.len(), chain.is_linear(), chain.data()), (11, false, &b"one"[..]));
    chain.put_slice(b"!").unwrap();
    chain.pull(4).unwrap();
    assert_eq!(all(&chain), b"wothree!");
    chain.trim(3).unwrap();
    assert_eq!(all(&chain), b"wot");
    assert_eq!(chain.trim(4), Err(NoRoom { wanted: 4, room: 3 }));
    assert_eq!(chain.pull(4), Err(NoRoom { wanted: 4, room: 3 }));
    let chain = heads.detach(&mut w, chain).unwrap_err();
    assert_eq!(all(&chain), b"wot", "a chain is no frame");
    heads.free(&mut w, chain);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_long_chain_dropped_anywhere_is_no_deep_recursion() {
    let (_memory, mut w, pool, heads) = bench(4);
    let mut packet = packet(&mut w, &pool, &heads, b"x");
    let mut chain = heads.share(&mut w, &mut packet).unwrap();
    let parts = crate::rounds::rounds(15_000);
    for _ in 0..parts {
        let mut front = heads.share(&mut w, &mut packet).unwrap();
        front.append(chain);
        chain = front;
    }
    assert_eq!(chain.len(), parts + 1);
    std::thread::Builder::new().stack_size(64 << 10).spawn(move || drop(chain)).unwrap().join().unwrap();
    heads.free(&mut w, packet);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_packet_is_split_at_any_byte() {
    for at in 0..=11 {
        let (_memory, mut w, pool, heads) = bench(8);
        let mut front = packet(&mut w, &pool, &heads, b"one");
        front.append(packet(&mut w, &pool, &heads, b"two"));
        front.append(packet(&mut w, &pool, &heads, b"three"));
        front.set_flow_hash(7);
        let back = heads.split(&mut w, &mut front, at).unwrap();
        assert_eq!((all(&front), all(&back)), (b"onetwothree"[..at].into(), b"onetwothree"[at..].into()));
        assert_eq!(back.flow_hash(), 7);
        assert_eq!(
            heads.split(&mut w, &mut front, at + 1).unwrap_err(),
            SplitError::TooShort(NoRoom { wanted: at as u32 + 1, room: at as u32 })
        );
        heads.free(&mut w, front);
        heads.free(&mut w, back);
        assert!(pool.ledger().all_freed());
    }
}

#[test]
fn a_chain_becomes_one_part_in_the_first_ones_room_or_in_a_new_frame() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut chain = packet(&mut w, &pool, &heads, b"one");
    chain.append(packet(&mut w, &pool, &heads, b"two"));
    let at = chain.data().as_ptr();
    heads.linearize(&mut w, &mut chain, &pool).unwrap();
    assert_eq!((chain.data(), chain.is_linear(), chain.data().as_ptr()), (&b"onetwo"[..], true, at));
    let second = heads.share(&mut w, &mut chain).unwrap();
    chain.append(packet(&mut w, &pool, &heads, b"three"));
    heads.linearize(&mut w, &mut chain, &pool).unwrap();
    assert_eq!((chain.data(), second.data()), (&b"onetwothree"[..], &b"onetwo"[..]));
    heads.free(&mut w, chain);
    heads.free(&mut w, second);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_packet_of_any_kind_is_made_one_frame_of_its_own_which_a_device_takes() {
    let (_memory, mut w, pool, heads) = bench(16);
    let mut pieces = Fragments::new(&pool);
    let mut shared = packet(&mut w, &pool, &heads, b"hello");
    shared.set_flow_hash(7);
    let reader = heads.share(&mut w, &mut shared).unwrap();
    let mut alone = packet(&mut w, &pool, &heads, b"hello");
    let gone = heads.share(&mut w, &mut alone).unwrap();
    heads.free(&mut w, gone);
    let mut chain = packet(&mut w, &pool, &heads, b"hel");
    chain.append(packet(&mut w, &pool, &heads, b"lo"));
    let mut shared_chain = packet(&mut w, &pool, &heads, b"hel");
    let part = heads.share(&mut w, &mut shared_chain).unwrap();
    shared_chain.append(packet(&mut w, &pool, &heads, b"lo"));
    let piece = pieces.alloc(&mut w, 64).unwrap();
    let mut piece = heads.attach_fragment(&mut w, piece).unwrap();
    piece.put_slice(b"hello").unwrap();
    let external = heads.attach_external(&mut w, External::new(*b"hello", drop)).unwrap();
    let plain = packet(&mut w, &pool, &heads, b"hello");

    let (mut flight, mut frames) = (InFlightHeads::new(8), Batch::new());
    let all = [
        (shared, true),
        (alone, false),
        (chain, true),
        (shared_chain, true),
        (piece, true),
        (external, true),
    ];
    for (mut packet, is_copied) in all.into_iter().chain([(plain, false)]) {
        if is_copied {
            packet = flight.detach(packet, &mut frames).unwrap_err();
        }
        let hash = packet.flow_hash();
        assert_eq!(heads.make_sendable(&mut w, &mut packet, &pool), Ok(is_copied), "{packet:?}");
        assert_eq!((packet.data(), packet.flow_hash()), (&b"hello"[..], hash));
        flight.detach(packet, &mut frames).unwrap();
    }
    assert_eq!((frames.len(), reader.data(), part.data()), (7, &b"hello"[..], &b"hel"[..]));
    frames.free(&mut w);
    flight.free_newest(7, &heads, &mut w);
    heads.free(&mut w, reader);
    heads.free(&mut w, part);
    pieces.flush(&mut w);
    assert!(pool.ledger().all_freed());
}

#[test]
fn without_a_frame_for_the_copy_a_shared_packet_stays_as_it_is() {
    let (_memory, mut w, pool, heads) = bench(4);
    let mut first = packet(&mut w, &pool, &heads, b"hello");
    let mut second = heads.share(&mut w, &mut first).unwrap();
    let mut rest = Batch::new();
    while pool.alloc_burst(&mut w, &mut rest, 64) > 0 {}
    assert_eq!(heads.make_sendable(&mut w, &mut second, &pool), Err(CopyError::NoFrame));
    assert_eq!((first.data(), second.data()), (&b"hello"[..], &b"hello"[..]));
    heads.free(&mut w, first);
    assert_eq!(heads.make_sendable(&mut w, &mut second, &pool), Ok(false), "the other reader is gone");
    rest.free(&mut w);
    heads.free(&mut w, second);
    assert!(pool.ledger().all_freed());
}

#[test]
fn what_does_not_fit_into_one_frame_stays_a_chain() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut chain = packet(&mut w, &pool, &heads, &[1; 1500]);
    chain.append(packet(&mut w, &pool, &heads, &[2; 1500]));
    let error = heads.linearize(&mut w, &mut chain, &pool).unwrap_err();
    assert!(matches!(error, CopyError::TooLong { len: 3000, room } if room < 2048), "{error}");
    assert_eq!((chain.len(), chain.is_linear()), (3000, false));
    assert_eq!(heads.make_sendable(&mut w, &mut chain, &pool), Err(error));
    let mut rest = Batch::new();
    while pool.alloc_burst(&mut w, &mut rest, 64) > 0 {}
    let mut second = heads.share(&mut w, &mut chain).unwrap();
    assert_eq!(second.make_writable(&mut w, &pool), Err(CopyError::NoFrame));
    heads.free(&mut w, chain);
    heads.free(&mut w, second);
    rest.free(&mut w);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_copy_says_when_the_packet_was_recorded() {
    let (_memory, mut w, pool, heads) = bench(8);
    let recorded = Some(Duration::from_nanos(1_700_000_000_123_456_789));
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.put_slice(b"to be sent, and read").unwrap();
    frame.set_timestamp(recorded).unwrap();
    let mut packet = heads.attach(&mut w, frame).unwrap();
    let mut sent = heads.share(&mut w, &mut packet).unwrap();
    let mut written = heads.share(&mut w, &mut packet).unwrap();
    assert_eq!(heads.make_sendable(&mut w, &mut sent, &pool), Ok(true));
    written.make_writable(&mut w, &pool).unwrap();
    for one in [packet, sent, written] {
        assert_eq!(one.timestamp(), recorded);
        heads.free(&mut w, one);
    }
    assert!(pool.ledger().all_freed());
}

#[test]
fn external_memory_goes_back_when_the_last_packet_with_it_is_gone() {
    let (_memory, mut w, pool, heads) = bench(8);
    let back = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&back);
    let external = External::new(b"external".to_vec(), move |memory| {
        count.fetch_add(memory.len(), Relaxed);
    });
    let mut first = heads.attach_external(&mut w, external).unwrap();
    assert!(first.data_mut().is_none() && first.put(1).is_err() && first.push(1).is_err());
    let first = heads.detach(&mut w, first).map(drop).unwrap_err();
    let mut first = first;
    let mut second = heads.split(&mut w, &mut first, 2).unwrap();
    assert_eq!((first.data(), second.data()), (&b"ex"[..], &b"ternal"[..]));
    heads.free(&mut w, first);
    assert_eq!(back.load(Relaxed), 0);
    second.make_writable(&mut w, &pool).unwrap();
    assert_eq!(back.load(Relaxed), 8, "the copy was the last holder's");
    second.data_mut().unwrap()[0] = b'T';
    assert_eq!(second.data(), b"Ternal");
    heads.free(&mut w, second);
    assert!(pool.ledger().all_freed());
}

#[test]
fn pieces_of_a_frame_are_packets() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut pieces = Fragments::new(&pool);
    let mut make = |w: &mut Worker, bytes: &[u8]| {
        let piece = pieces.alloc(w, 64).unwrap();
        let mut packet = heads.attach_fragment(w, piece).unwrap();
        packet.put_slice(bytes).unwrap();
        packet
    };
    let (mut one, two) = (make(&mut w, b"one"), make(&mut w, b"two"));
    one.data_mut().unwrap()[0] = b'O';
    assert_eq!((one.data(), two.data(), pool.ledger().owned), (&b"One"[..], &b"two"[..], 1));
    let second = heads.share(&mut w, &mut one).unwrap();
    assert_eq!(second.data(), b"One");
    for packet in [one, two, second] {
        heads.free(&mut w, packet);
    }
    pieces.flush(&mut w);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_shared_frame_becomes_a_packet_and_a_frame_again_when_nobody_else_has_it() {
    let (_memory, mut w, pool, heads) = bench(8);
    let mut frame = pool.alloc(&mut w).unwrap();
    frame.put(4).unwrap();
    let shared = frame.share();
    let other = shared.clone();
    let packet = heads.attach_shared(&mut w, shared).unwrap();
    let packet = heads.detach(&mut w, packet).unwrap_err();
    other.free(&mut w);
    let frame = heads.detach(&mut w, packet).unwrap();
    assert_eq!(frame.len(), 4);
    frame.free(&mut w);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_bulk_of_all_kinds_is_freed_whole() {
    let (memory, mut w, pool, heads) = bench(64);
    let other = Pool::new(&memory, &mut w, &PoolConfig { frames: 8, ..PoolConfig::default() }).unwrap();
    let mut packets = Packets::new();
    for i in 0..12 {
        let pool = if i % 3 == 0 { &other } else { &pool };
        let mut one = packet(&mut w, pool, &heads, &[i; 9]);
        match i % 4 {
            0 => one.append(packet(&mut w, pool, &heads, b"end")),
            1 => packets.push(heads.share(&mut w, &mut one).unwrap()).unwrap(),
            _ => {}
        }
        packets.push(one).unwrap();
        let external = External::new(vec![i], drop);
        packets.push(heads.attach_external(&mut w, external).unwrap()).unwrap();
        if i % 3 == 2 {
            heads.free_bulk(&mut w, &mut packets);
        }
    }
    assert!(packets.is_empty());
    assert!(pool.ledger().all_freed() && other.ledger().all_freed());
}

#[test]
fn the_offload_of_a_packet_is_that_of_its_first_part_and_is_set_while_no_one_else_reads_it() {
    let (_memory, mut w, pool, heads) = bench(8);
    let (mut one, end) = (packet(&mut w, &pool, &heads, &[7; 60]), packet(&mut w, &pool, &heads, &[8; 60]));
    let offload = Offload { checksum: Some(PartialChecksum { start: 34, offset: 6 }), gso: None };
    one.set_offload(offload).unwrap();
    assert_eq!((one.offload(), end.offload()), (Some(offload), None));
    one.append(end);
    one.push(4).unwrap();
    assert_eq!(one.offload(), Some(offload.moved_by(4)));
    let second = heads.share(&mut w, &mut one).unwrap();
    assert_eq!(one.set_offload(Offload::default()), Err(NoRoom { wanted: 18, room: 0 }));
    assert_eq!((one.offload(), second.offload()), (Some(offload.moved_by(4)), Some(offload.moved_by(4))));
    heads.free(&mut w, second);
    one.set_offload(Offload::default()).unwrap();
    assert_eq!((one.offload(), all(&one)[4..64] == [7; 60]), (None, true));
    one.set_offload(offload).unwrap();
    assert_eq!(one.offload(), Some(offload));
    heads.free(&mut w, one);

    let mut external = heads.attach_external(&mut w, External::new(vec![9; 60], drop)).unwrap();
    assert_eq!(external.set_offload(offload), Err(NoRoom { wanted: 18, room: 0 }));
    assert_eq!((external.set_offload(Offload::default()), external.offload()), (Ok(()), None));
    heads.free(&mut w, external);
    assert!(pool.ledger().all_freed());
}
