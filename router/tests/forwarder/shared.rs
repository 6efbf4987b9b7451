//! Packets that a decision builds from bytes that it shares with others: they go on as copies.

use super::*;
use netmem::forward::local_queue::local_queue;
use netmem::forward::{PacketPath, Verdict};
use netmem::packet::{HeadCache, Packet};
use netmem::steer::Source;
use std::mem;

/// Substitutes prepared packets for the received ones. Every third gets a shared trailer instead, and every third
/// is unchanged.
struct Substitute {
    ready: Vec<Packet>,
    /// The received packets that were substituted.
    kept: Vec<Packet>,
    verdict: Verdict,
    seen: usize,
}

impl Decide for Substitute {
    fn decide(&mut self, _from: Source, _frame: &mut [u8]) -> Verdict {
        self.verdict
    }

    fn decide_packet(&mut self, _from: Source, packet: &mut Packet) -> Verdict {
        self.seen += 1;
        match (self.seen % 3, self.ready.pop()) {
            (0, Some(shared)) => self.kept.push(mem::replace(packet, shared)),
            (1, Some(shared)) => packet.append(shared),
            (_, shared) => self.ready.extend(shared),
        }
        self.verdict
    }
}

/// A rig whose decision has `n` packets, which share the frame of the returned packet.
fn substituting(frames: usize, n: usize, verdict: Verdict) -> (Rig, HeadCache, Packet) {
    substituting_each(100, frames, n, verdict)
}

/// As [`substituting`], with this many bytes in each packet.
fn substituting_each(bytes: usize, frames: usize, n: usize, verdict: Verdict) -> (Rig, HeadCache, Packet) {
    let mut rig = rig(frames, cross_connect());
    let heads = HeadCache::new(&rig.memory).unwrap();
    let mut original = heads.alloc(&mut rig.w, &rig.pool).unwrap();
    original.put_slice(&vec![7; bytes]).unwrap();
    let ready = (0..n).map(|_| heads.share(&mut rig.w, &mut original).unwrap()).collect();
    let decision = Box::new(Substitute { ready, kept: Vec::new(), verdict, seen: 0 });
    let ((a, da), (b, db)) = (
        MemPort::pair("0", &MemConfig::default()).unwrap(),
        MemPort::pair("1", &MemConfig::default()).unwrap(),
    );
    rig.forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], rig.pool.clone(), decision).unwrap();
    rig.devices = [da, db];
    rig.forwarder.set_packet_path(PacketPath::new(heads.clone()));
    rig.forwarder.poll(&mut rig.w);
    (rig, heads, original)
}

/// Returns true if the `i`-th sent packet is the one that the decision made of the `i`-th received.
fn is_due(i: usize, bytes: &[u8]) -> bool {
    match (i + 1) % 3 {
        0 => bytes == [7; 100],
        1 => bytes == [&[1; 60][..], &[7; 100]].concat(),
        _ => bytes == [1; 60],
    }
}

fn deliver(rig: &mut Rig, n: usize) {
    let sent = rig.devices[0].deliver(n, |room| {
        room[..60].fill(1);
        60
    });
    assert_eq!(sent, n);
}

#[test]
fn shared_packets_are_sent_as_copies_and_stay_readable() {
    let (mut rig, heads, original) = substituting(2048, 20, Verdict::Redirect(1));
    deliver(&mut rig, 30);
    let mut left = 0;
    rig.settle(|bytes| {
        assert!(is_due(left, bytes), "packet {left}: {bytes:?}");
        left += 1;
    });
    let meters = rig.forwarder.meters();
    assert_eq!((left, meters.copied.get(), meters.drops.total()), (30, 20, 0));
    assert_eq!(original.data(), [7; 100]);
    heads.free(&mut rig.w, original);
    drop(heads);
    rig.end();
}

#[test]
fn shared_packets_are_passed_as_copies_in_order_with_the_others() {
    let (mut rig, heads, original) = substituting(2048, 20, Verdict::Pass);
    let (local_queue, mut reader) = local_queue(64);
    rig.forwarder.set_local_queue(local_queue);
    deliver(&mut rig, 30);
    rig.settle(|_| panic!("one was sent"));
    let (mut passed, mut batch) = (0, Batch::new());
    while reader.read(&mut rig.w, &mut batch) > 0 {
        for frame in batch.iter() {
            assert!(is_due(passed, frame.data()), "packet {passed}: {:?}", frame.data());
            passed += 1;
        }
        batch.free(&mut rig.w);
    }
    let meters = rig.forwarder.meters();
    assert_eq!((passed, meters.copied.get(), meters.passed.get(), meters.drops.total()), (30, 20, 30, 0));
    heads.free(&mut rig.w, original);
    drop((heads, reader));
    rig.end();
}

#[test]
fn without_a_frame_for_the_copy_a_shared_packet_is_dropped_for_that_reason() {
    let (mut rig, heads, original) = substituting(2048, 20, Verdict::Redirect(1));
    let mut rest = Vec::new();
    while let Some(frame) = rig.pool.alloc(&mut rig.w) {
        rest.push(frame);
    }
    deliver(&mut rig, 30);
    rig.forwarder.poll(&mut rig.w);
    drop(rest);
    rig.settle(|_| ());
    let meters = rig.forwarder.meters();
    // A trailer behind a frame of its own is copied into that frame.
    assert_eq!((meters.copied.get(), meters.drops.get(Reason::NoMem)), (10, 10));
    assert_eq!((meters.drops.total(), meters.transmitted.get()), (10, 20));
    heads.free(&mut rig.w, original);
    drop(heads);
    rig.end();
}

#[test]
fn a_packet_of_several_parts_that_fits_into_no_frame_is_dropped_as_tx_too_long() {
    let (mut rig, heads, original) = substituting_each(1400, 2048, 20, Verdict::Redirect(1));
    let sent = rig.devices[0].deliver(30, |room| {
        room[..1000].fill(1);
        1000
    });
    assert_eq!(sent, 30);
    let mut lengths = Vec::new();
    rig.settle(|bytes| lengths.push(bytes.len()));
    // Every third packet has 1,400 bytes more behind its own. Each of the others is in one frame.
    let due: Vec<usize> =
        (0..30).filter(|i| i % 3 > 0).map(|i| if i % 3 == 1 { 1000 } else { 1400 }).collect();
    assert_eq!(lengths, due);
    let meters = rig.forwarder.meters();
    assert_eq!((meters.drops.get(Reason::TxTooLong), meters.drops.total()), (10, 10));
    assert_eq!((meters.copied.get(), meters.transmitted.get()), (10, 20));
    heads.free(&mut rig.w, original);
    drop(heads);
    rig.end();
}
