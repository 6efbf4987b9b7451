//! Tests of frames as `Bytes`: each is freed with its last reader, and readers pin no more than the bound.

#![allow(clippy::unwrap_used)]

use bytes::{Buf, Bytes};
use netmem::packet::{External, HeadCache};
use netmem::pool::Fragments;
use netmem::port::mem::{MemConfig, MemPort};
use netmem::{Batch, Fill, Frame, Memory, MemoryConfig, Pool, PoolConfig, Rx, Worker};
use netmem_bytes::{Lender, append};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

fn pool(frames: usize) -> (Memory, Worker, Pool) {
    let memory =
        Memory::new(&MemoryConfig { bytes: 8 << 20, workers: 2, ..MemoryConfig::default() }).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    (memory, w, pool)
}

fn unbounded(pool: &Pool) -> Lender {
    Lender::new(pool, usize::MAX)
}

/// Returns a frame with these bytes.
fn frame(w: &mut Worker, pool: &Pool, bytes: &[u8]) -> Frame {
    let mut frame = pool.alloc(w).expect("a frame");
    frame.put_slice(bytes).unwrap();
    frame
}

/// Returns such a frame, lent.
fn lend(lender: &Lender, w: &mut Worker, pool: &Pool, bytes: &[u8]) -> Bytes {
    let frame = frame(w, pool, bytes);
    lender.lend(w, frame.share())
}

#[test]
fn bytes_are_the_frames_own_and_its_parts_lie_where_the_device_wrote_them() {
    let (_memory, mut w, pool) = pool(16);
    let frame = frame(&mut w, &pool, b"header and body");
    let at = frame.data().as_ptr();
    let lender = unbounded(&pool);
    let whole = lender.lend(&mut w, frame.share());
    assert_eq!((&whole[..], whole.as_ptr()), (&b"header and body"[..], at));
    let body = lender.part(&whole, 11..);
    assert_eq!((&body[..], body.as_ptr()), (&b"body"[..], at.wrapping_add(11)));
    drop(whole);
    assert_eq!((pool.ledger().out(), lender.pinned(), lender.copied()), (1, pool.frame_size(), 0));
    drop(body);
    assert_eq!((pool.ledger().out(), lender.pinned()), (0, 0));
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

#[test]
fn a_frame_that_is_dropped_on_a_thread_without_a_worker_returns_to_its_pool() {
    let (_memory, mut w, pool) = pool(64);
    let lender = unbounded(&pool);
    let lent: Vec<Bytes> = (0..64).map(|i| lend(&lender, &mut w, &pool, &[i; 60])).collect();
    assert!(pool.alloc(&mut w).is_none(), "all are lent");
    let readers = lent
        .chunks(16)
        .map(<[Bytes]>::to_vec)
        .map(|lent| thread::spawn(move || lent.iter().map(|bytes| usize::from(bytes[59])).sum::<usize>()));
    let readers: Vec<_> = readers.collect();
    drop(lent);
    assert_eq!(readers.into_iter().map(|reader| reader.join().unwrap()).sum::<usize>(), (0..64).sum());
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    let mut again = Batch::new();
    assert_eq!(pool.alloc_burst(&mut w, &mut again, 64), 64, "each can be had again");
    again.free(&mut w);
}

#[test]
fn a_frame_is_read_and_freed_after_its_port_and_its_pool_are_closed() {
    let (memory, mut w, pool) = pool(64);
    let (mut port, mut device) =
        MemPort::pair("0", &MemConfig { coalesce: 1, ..MemConfig::default() }).unwrap();
    port.refill(&mut w, &pool);
    let written = |room: &mut [u8]| {
        room[..4].copy_from_slice(b"kept");
        60
    };
    assert_eq!(device.deliver(8, written), 8);
    let mut frames = Batch::new();
    assert_eq!(port.rx(&mut w, &mut frames), 8);
    let lender = unbounded(&pool);
    let mut lent: Vec<Bytes> = frames.drain().map(|frame| lender.lend(&mut w, frame.share())).collect();
    drop((port, device));
    assert_eq!(pool.ledger().out(), 8, "the port's are freed: {:?}", pool.ledger());
    drop(lent.split_off(4));
    assert_eq!((pool.ledger().out(), pool.ledger().balanced()), (4, true));
    pool.close();
    assert!(pool.close_and_wait(Duration::ZERO).is_err(), "four are out");
    drop((w, memory));
    let reader = thread::spawn(move || {
        assert!(lent.iter().all(|bytes| &bytes[..4] == b"kept"));
        lent.pop()
    });
    let last = reader.join().unwrap().unwrap();
    assert_eq!((pool.ledger().out(), &last[..4]), (1, &b"kept"[..]));
    drop(last);
    assert_eq!((pool.close_and_wait(Duration::ZERO).is_ok(), pool.ledger().all_freed()), (true, true));
}

#[test]
fn the_last_reader_may_outlive_every_handle() {
    let (memory, mut w, pool) = pool(16);
    let lent = lend(&unbounded(&pool), &mut w, &pool, b"alone");
    drop((pool, w, memory));
    assert_eq!(&lent[..], b"alone");
    thread::spawn(move || drop(lent)).join().unwrap();
}

#[test]
fn a_panic_of_a_reader_frees_its_frames() {
    let (_memory, mut w, pool) = pool(32);
    let lender = unbounded(&pool);
    let mut lent = || lend(&lender, &mut w, &pool, b"short");
    let (here, there) = ([lent(), lent()], lent());
    let reader = thread::spawn(move || there[5]);
    assert!(reader.join().is_err(), "there is no sixth byte");
    assert!(catch_unwind(AssertUnwindSafe(move || here[0].slice(..6))).is_err());
    let kept = lent();
    assert!(catch_unwind(AssertUnwindSafe(|| lender.part(&kept, 2..9))).is_err());
    drop(kept);
    assert_eq!(lender.pinned(), 0);
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

#[test]
fn a_thousand_tiny_parts_that_are_kept_pin_no_more_than_the_bound() {
    let (_memory, mut w, pool) = pool(1024);
    let bound = 100 * pool.frame_size();
    let lender = Lender::new(&pool, bound);
    let mut kept = Vec::new();
    for number in 0..1000_u32 {
        let mut frame = frame(&mut w, &pool, &[0; 1400]);
        frame.data_mut()[700..704].copy_from_slice(&number.to_be_bytes());
        let whole = lender.lend(&mut w, frame.share());
        kept.push(lender.part(&whole, 700..704));
        assert!(lender.pinned() <= bound);
        assert!(pool.ledger().out() * pool.frame_size() as u64 <= bound as u64, "{:?}", pool.ledger());
    }
    assert!(pool.ledger().out() >= 99, "what the bound allows was not copied: {:?}", pool.ledger());
    for (number, part) in kept.iter().enumerate() {
        assert_eq!(part[..], (number as u32).to_be_bytes());
    }
    assert!(kept.iter().all(|part| part.len() == 4) && lender.copied() >= 900);
    // The bytes are given back in another order, and the lender lends again.
    while !kept.is_empty() {
        kept.swap_remove(kept.len() / 3);
    }
    assert_eq!(lender.pinned(), 0);
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

#[test]
fn readers_that_cut_their_own_slices_pin_no_more_than_the_bound_either() {
    let (_memory, mut w, pool) = pool(256);
    let lender = Lender::new(&pool, 20 * pool.frame_size());
    // A library that parses headers need not know the lender.
    let kept: Vec<Bytes> =
        (0..1000).map(|_| lend(&lender, &mut w, &pool, &[7; 1000]).slice(500..504)).collect();
    assert_eq!((pool.ledger().out(), lender.copied()), (20, 980));
    assert!(kept.iter().all(|part| part[..] == [7; 4]));
    drop(kept);
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

#[test]
fn a_part_is_copied_only_where_the_bound_is_reached_and_only_if_it_is_small() {
    let (_memory, mut w, pool) = pool(16);
    let lender = Lender::new(&pool, 2 * pool.frame_size());
    let first = lend(&lender, &mut w, &pool, &[1; 1400]);
    let at = |bytes: &Bytes| bytes.as_ptr();
    assert_eq!(at(&lender.part(&first, 10..14)), at(&first).wrapping_add(10), "the bound is not reached");
    let second = lend(&lender, &mut w, &pool, &[2; 1400]);
    for (len, is_copied) in [(0, false), (1, true), (64, true), (255, true), (256, false), (1390, false)] {
        let copied = lender.copied();
        let part = lender.part(&second, 10..10 + len);
        assert_eq!(part[..], vec![2; len][..]);
        // An empty range has no address to compare.
        if len > 0 {
            assert_eq!(at(&part) != at(&second).wrapping_add(10), is_copied, "{len} bytes");
            assert_eq!(lender.copied() - copied, u64::from(is_copied), "{len} bytes");
        }
    }
    drop(first);
    assert_eq!(at(&lender.part(&second, 10..14)), at(&second).wrapping_add(10), "there is room again");
}

#[test]
fn where_the_bound_is_reached_a_task_without_a_worker_gets_its_claim_back() {
    let (_memory, mut w, pool) = pool(16);
    let lender = Lender::new(&pool, pool.frame_size());
    let first = lender.try_lend(frame(&mut w, &pool, b"first").share()).unwrap();
    let refused = lender.try_lend(frame(&mut w, &pool, b"second").share()).unwrap_err();
    assert_eq!((refused.data(), refused.is_unique()), (&b"second"[..], true));
    refused.free(&mut w);
    drop(first);
    let none = Lender::new(&pool, 0);
    let copy = lend(&none, &mut w, &pool, b"copied");
    assert_eq!((&copy[..], none.pinned(), none.copied(), pool.ledger().out()), (&b"copied"[..], 0, 1, 0));
}

#[test]
fn pieces_of_a_frame_and_claims_on_one_are_lent_each_by_itself() {
    let (_memory, mut w, pool) = pool(16);
    let lender = unbounded(&pool);
    let mut cut = Fragments::new(&pool);
    let mut lent = Vec::new();
    for number in 0..10 {
        let mut piece = cut.alloc(&mut w, 100).unwrap();
        piece.put(100).unwrap().fill(number);
        lent.push(lender.lend(&mut w, piece.share()));
    }
    cut.flush(&mut w);
    assert_eq!(pool.ledger().out(), 1);
    assert!(lent.iter().enumerate().all(|(number, bytes)| bytes[..] == [number as u8; 100]));
    drop(lent);
    let whole = frame(&mut w, &pool, b"head|body").share();
    let mut body = whole.clone();
    body.pull(5).unwrap();
    let body = lender.lend(&mut w, body);
    assert_eq!((&body[..], whole.data()), (&b"body"[..], &b"head|body"[..]));
    whole.free(&mut w);
    assert_eq!((&body[..], pool.ledger().out()), (&b"body"[..], 1));
    drop(body);
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

#[test]
fn threads_that_drop_as_others_are_lent_never_pin_more_than_the_bound_and_end_with_nothing() {
    const LENT: u32 = 20_000;
    let (_memory, mut w, pool) = pool(128);
    let bound = 40 * pool.frame_size();
    let lender = Lender::new(&pool, bound);
    // Each reader holds some for a while, in a queue of its own.
    let (senders, readers): (Vec<_>, Vec<_>) = (0..3)
        .map(|reader| {
            let (send, receive) = sync_channel::<(u32, Bytes)>(16);
            let lender = lender.clone();
            let read = move || {
                let (mut held, mut read) = (Vec::new(), 0_u32);
                for (number, bytes) in receive {
                    assert_eq!(bytes[8..12], number.to_be_bytes());
                    held.push(lender.part(&bytes, 8..12));
                    if held.len() > 5 + reader * 10 {
                        held.clear();
                    }
                    read += 1;
                }
                read
            };
            (send, thread::spawn(read))
        })
        .unzip();
    for number in 0..LENT {
        let mut frame = frame(&mut w, &pool, &[0; 900]);
        frame.data_mut()[8..12].copy_from_slice(&number.to_be_bytes());
        let bytes = lender.lend(&mut w, frame.share());
        assert!(lender.pinned() <= bound, "{} of {bound}", lender.pinned());
        senders[number as usize % 3].send((number, bytes)).unwrap();
    }
    drop(senders);
    assert_eq!(readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u32>(), LENT);
    assert_eq!(lender.pinned(), 0);
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}

#[test]
fn a_frame_takes_bytes_of_any_buffer_behind_room_for_headers() {
    let (_memory, mut w, pool) = pool(16);
    let mut body = Bytes::from_static(b"in two ").chain(Bytes::from_static(b"parts"));
    let mut frame = frame(&mut w, &pool, b"");
    assert_eq!(append(&mut frame, &mut body), 12);
    assert!(frame.headroom() >= 64);
    frame.push(7).unwrap();
    frame.data_mut()[..7].copy_from_slice(b"header ");
    assert_eq!(frame.data(), b"header in two parts");

    let mut long = Bytes::from(vec![9; 5000]);
    let (room, before) = (frame.tailroom(), frame.len());
    assert_eq!((append(&mut frame, &mut long), frame.len(), long.len()), (room, before + room, 5000 - room));
    assert_eq!(append(&mut frame, &mut long), 0);
    frame.free(&mut w);
}

/// A buffer that says that it has 100 bytes, and panics when they are read.
struct Broken;

impl Buf for Broken {
    fn remaining(&self) -> usize {
        100
    }

    fn chunk(&self) -> &[u8] {
        panic!("no chunk")
    }

    fn advance(&mut self, _: usize) {}
}

/// Seen: the frame had 100 bytes of an earlier packet as data.
#[test]
fn a_buffer_that_panics_leaves_no_bytes_of_an_earlier_packet_in_the_frame() {
    let (_memory, mut w, pool) = pool(1);
    frame(&mut w, &pool, &[7; 1000]).free(&mut w);
    let mut frame = frame(&mut w, &pool, b"ours");
    assert!(catch_unwind(AssertUnwindSafe(|| append(&mut frame, &mut Broken))).is_err());
    assert_eq!(frame.data(), b"ours");
    frame.free(&mut w);
}

#[test]
fn a_packet_carries_bytes_without_a_copy_and_gives_them_back() {
    let (memory, mut w, pool) = pool(16);
    let heads = HeadCache::new(&memory).unwrap();
    let lent = lend(&unbounded(&pool), &mut w, &pool, b"lent twice");
    let packet = heads.attach_external(&mut w, External::new(lent.clone(), drop)).map_err(drop).unwrap();
    assert_eq!(packet.data().as_ptr(), lent.as_ptr());
    drop(lent);
    assert_eq!((packet.data(), pool.ledger().out()), (&b"lent twice"[..], 1));
    heads.free(&mut w, packet);
    assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
}
