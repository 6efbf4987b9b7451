//! Tests of a port whose device sees only the frames of one pool.

use super::BouncePort;
use crate::pool::{Batch, Pool};
use crate::port::conformance::{self, Fixture};
use crate::port::fault::{FaultConfig, FaultPort};
use crate::port::mem::{MemConfig, MemDevice, MemPort};
use crate::port::tests::moody::{Mood, Moody};
use crate::port::{Complete, Fill, Port, PortState, Rx, Tx, Wake};
use crate::wire::offload::{Offload, PartialChecksum};

/// Number of frames of the port's own pool.
const OWN: usize = 64;

/// The port and its device, and the caller's side.
struct Bounced {
    port: BouncePort,
    device: MemDevice,
    own: Pool,
    here: Fixture,
}

fn bounced(ring: usize, frames: usize) -> Bounced {
    let here = Fixture::new(256);
    let (port, device, own) = port(ring, frames);
    Bounced { port, device, own, here }
}

fn port(ring: usize, frames: usize) -> (BouncePort, MemDevice, Pool) {
    let Fixture { w, pool, memory: _ } = Fixture::new(frames);
    let (within, device) = MemPort::pair("0", &MemConfig { ring, coalesce: 1 }).unwrap();
    (BouncePort::new(Box::new(within), w, pool.clone()), device, pool)
}

impl Bounced {
    /// Returns that many of the caller's frames, numbered from `first` on.
    fn frames(&mut self, first: u8, n: u8) -> Batch {
        let mut frames = Batch::new();
        for number in first..first + n {
            let mut frame = self.here.pool.alloc(&mut self.here.w).unwrap();
            frame.put_slice(&[number; 60]).unwrap();
            frames.push(frame).unwrap();
        }
        frames
    }

    /// Returns what comes out at the other end.
    fn collected(&mut self) -> Vec<u8> {
        let mut numbers = Vec::new();
        self.device.collect(256, |sent| numbers.push(sent[0]));
        numbers
    }
}

fn numbers(frames: &Batch) -> Vec<u8> {
    frames.iter().map(|frame| frame.data()[0]).collect()
}

#[test]
fn what_every_port_promises_holds() {
    conformance::check(|_fixture| {
        let (port, device, _) = port(64, 256);
        (Box::new(port), Box::new(device))
    });
}

#[test]
fn the_device_receives_into_its_own_pool_and_half_of_it_at_most() {
    let Bounced { mut port, mut device, own, mut here } = bounced(256, OWN);
    assert_eq!(port.refill(&mut here.w, &here.pool), OWN / 2);
    assert_eq!((own.ledger().posted, here.pool.ledger().posted), (OWN as u64 / 2, 0));
    assert_eq!(port.own_pool().map(Pool::name), Some(own.name()));
    assert_eq!(
        device.deliver(3, |room| {
            room[..60].fill(9);
            60
        }),
        3
    );
    let mut frames = Batch::new();
    assert_eq!(port.rx(&mut here.w, &mut frames), 3);
    assert_eq!((numbers(&frames), own.ledger().owned), (vec![9; 3], 3));
    // Another memory's worker frees them.
    frames.free(&mut here.w);
    assert_eq!(own.ledger().owned, 0);
}

#[test]
fn frames_of_others_are_not_posted_for_the_device_to_write() {
    let mut bounced = bounced(64, OWN);
    let mut frames = bounced.frames(0, 5);
    assert_eq!(bounced.port.fill(&mut bounced.here.w, &mut frames), 0);
    assert_eq!((frames.len(), bounced.port.counters().wrong_memory.get()), (5, 5));
}

#[test]
fn copies_are_sent_in_order_and_the_frames_themselves_come_back() {
    let mut bounced = bounced(64, OWN);
    let mut frames = bounced.frames(1, 10);
    let ids: Vec<_> = frames.iter().map(|frame| frame.id()).collect();
    assert_eq!(bounced.port.tx(&mut bounced.here.w, &mut frames), 10);
    assert_eq!((bounced.own.ledger().posted, bounced.here.pool.ledger().posted), (10, 10));
    assert_eq!(bounced.collected(), (1..=10).collect::<Vec<_>>());
    let mut back = bounced.frames(100, 1);
    assert_eq!(bounced.port.complete(&mut bounced.here.w, &mut back), 10);
    assert_eq!(back.iter().skip(1).map(|frame| frame.id()).collect::<Vec<_>>(), ids);
    assert!(bounced.own.ledger().all_freed());
    assert_eq!((bounced.here.pool.ledger().posted, bounced.port.counters().copied.get()), (0, 10));
}

#[test]
fn what_finds_no_slot_stays_in_order_and_is_sent_later() {
    let mut bounced = bounced(8, OWN);
    let mut frames = bounced.frames(1, 20);
    assert_eq!(bounced.port.tx(&mut bounced.here.w, &mut frames), 8);
    assert_eq!(numbers(&frames), (9..=20).collect::<Vec<_>>());
    assert_eq!(bounced.own.ledger().posted, 8);
    // No frame is copied while there is no room.
    assert_eq!((bounced.port.tx(&mut bounced.here.w, &mut frames), bounced.port.can_retry_tx()), (0, true));
    let (mut sent, mut done) = (bounced.collected(), Batch::new());
    while !frames.is_empty() {
        bounced.port.complete(&mut bounced.here.w, &mut done);
        bounced.port.tx(&mut bounced.here.w, &mut frames);
        sent.extend(bounced.collected());
    }
    assert_eq!(sent, (1..=20).collect::<Vec<_>>());
}

#[test]
fn while_the_own_pool_is_dry_frames_wait() {
    let mut bounced = bounced(64, OWN);
    bounced.port.refill(&mut bounced.here.w, &bounced.here.pool);
    bounced.device.deliver(OWN / 2, |_room| 60);
    let mut received = Batch::new();
    assert_eq!(bounced.port.rx(&mut bounced.here.w, &mut received), OWN / 2);
    bounced.port.refill(&mut bounced.here.w, &bounced.here.pool);
    let mut frames = bounced.frames(1, 3);
    assert_eq!(bounced.port.tx(&mut bounced.here.w, &mut frames), 0);
    assert!(bounced.port.tx_posted() == 0 && bounced.port.can_retry_tx() && frames.len() == 3);
    received.free(&mut bounced.here.w);
    assert_eq!(bounced.port.tx(&mut bounced.here.w, &mut frames), 3);
    assert_eq!(bounced.collected(), [1, 2, 3]);
}

/// Seen: tokio and smoltcp slept for up to a second, though the frames to receive into were back.
#[test]
fn a_port_whose_own_frames_are_all_held_elsewhere_lacks_frames_also_within_other_ports() {
    let Fixture { w, pool, memory: _ } = Fixture::new(OWN);
    let (within, mut device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 1 }).unwrap();
    let port = BouncePort::new(Box::new(within), w, pool);
    let mut here = Fixture::new(256);
    let mut port = FaultPort::new(Box::new(port), here.pool.clone(), FaultConfig::default());
    port.refill(&mut here.w, &here.pool);
    assert!(!port.lacks_frames(OWN), "it posts half of them at most");
    let mut received = Batch::new();
    for _ in 0..2 {
        device.deliver(OWN / 2, |_room| 60);
        port.rx(&mut here.w, &mut received);
        port.refill(&mut here.w, &here.pool);
    }
    assert_eq!((received.len(), port.rx_posted()), (OWN, 0));
    assert!(port.lacks_frames(OWN / 2));
    received.free(&mut here.w);
    port.refill(&mut here.w, &here.pool);
    assert!(!port.lacks_frames(OWN / 2));
}

/// Seen: the port within set all its counters at each kick, and what was counted here was gone.
#[test]
fn what_is_counted_here_stays_if_the_port_within_counts_for_itself() {
    let mut here = Fixture::new(256);
    let Fixture { w, pool, memory: _ } = Fixture::new(OWN);
    let (within, _device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 1 }).unwrap();
    let within = FaultPort::new(Box::new(within), pool.clone(), FaultConfig::default());
    let mut port = BouncePort::new(Box::new(within), w, pool);
    let mut frames = Batch::new();
    here.pool.alloc_burst(&mut here.w, &mut frames, 3);
    let checksum = PartialChecksum { start: 34, offset: 16 };
    frames.iter_mut().for_each(|frame| frame.put_slice(&[1; 60]).unwrap());
    frames[1].set_offload(Offload { checksum: Some(checksum), gso: None }).unwrap();
    assert_eq!(port.tx(&mut here.w, &mut frames), 2);
    for _ in 0..2 {
        port.kick();
        let counters = port.counters();
        assert_eq!((counters.tx_invalid.get(), counters.copied.get(), counters.tx.get()), (1, 2, 2));
    }
    frames.free(&mut here.w);
}

#[test]
fn what_a_copy_cannot_say_is_not_sent() {
    let mut bounced = bounced(64, OWN);
    let mut frames = bounced.frames(1, 3);
    let checksum = PartialChecksum { start: 34, offset: 16 };
    frames[1].set_offload(Offload { checksum: Some(checksum), gso: None }).unwrap();
    assert_eq!(bounced.port.tx(&mut bounced.here.w, &mut frames), 2);
    assert_eq!((numbers(&frames), bounced.collected()), (vec![2], vec![1, 3]));
    assert_eq!(bounced.port.counters().tx_invalid.get(), 1);
    assert_eq!(bounced.port.take_unsendable(&mut frames).len(), 1);
}

#[test]
fn data_that_fills_a_frame_is_copied_whole() {
    let mut bounced = bounced(64, OWN);
    let mut frame = bounced.here.pool.alloc(&mut bounced.here.w).unwrap();
    frame.push(frame.headroom()).unwrap();
    frame.trim(0).unwrap();
    let bytes: Vec<u8> = (0..frame.size()).map(|i| i as u8).collect();
    frame.put_slice(&bytes).unwrap();
    let mut frames = Batch::new();
    frames.push(frame).unwrap();
    assert_eq!(bounced.port.tx(&mut bounced.here.w, &mut frames), 1);
    bounced.device.collect(1, |sent| assert_eq!(sent, bytes));
}

#[test]
fn a_port_that_is_dropped_with_frames_in_flight_sends_all_of_them_home() {
    let mut bounced = bounced(64, OWN);
    bounced.port.refill(&mut bounced.here.w, &bounced.here.pool);
    let mut frames = bounced.frames(1, 10);
    assert_eq!(bounced.port.tx(&mut bounced.here.w, &mut frames), 10);
    let Bounced { port, device, own, here } = bounced;
    drop((port, device));
    assert!(own.ledger().all_freed() && here.pool.ledger().all_freed());
}

/// Found in a review: a memif peer left with frames in flight, and the next peer came before the frames were asked for.
/// That left the port silent.
#[test]
fn copies_that_a_device_has_lost_leave_their_originals_and_the_port_sends_on() {
    let Fixture { w, pool: own, memory: _ } = Fixture::new(OWN);
    let (wire, mut device) = MemPort::pair("0", &MemConfig { ring: 8, coalesce: 1 }).unwrap();
    let within = Moody::new(wire, Mood::Backwards);
    let mood = within.mood();
    let mut here = Fixture::new(256);
    let mut port = BouncePort::new(Box::new(within), w, own.clone());
    let mut frames = Batch::new();
    here.pool.alloc_burst(&mut here.w, &mut frames, 20);
    frames.put_each(60, |i, bytes| bytes.fill(i as u8));
    assert_eq!((port.tx(&mut here.w, &mut frames), frames.len()), (8, 12));
    *mood.lock().unwrap() = Mood::Gone;
    assert_eq!(port.tx(&mut here.w, &mut frames), 0);
    assert_eq!((here.pool.ledger().posted, port.tx_posted()), (0, 0), "the originals are free");
    // A new device is there, and all eight places are free again.
    *mood.lock().unwrap() = Mood::Backwards;
    device.collect(8, |_sent| ());
    let mut done = Batch::new();
    assert_eq!(port.complete(&mut here.w, &mut done), 0, "nobody waits for those");
    assert_eq!(port.tx(&mut here.w, &mut frames), 8);
    device.collect(8, |_sent| ());
    assert_eq!(port.complete(&mut here.w, &mut done), 8);
    done.free(&mut here.w);
    frames.free(&mut here.w);
    assert!(here.pool.ledger().all_freed() && own.ledger().all_freed());
}

#[test]
fn originals_come_back_when_the_device_of_the_inner_port_is_dropped() {
    let Bounced { mut port, device, own, mut here } = bounced(8, OWN);
    port.refill(&mut here.w, &here.pool);
    let mut frames = Batch::new();
    here.pool.alloc_burst(&mut here.w, &mut frames, 6);
    frames.put_each(60, |_, bytes| bytes.fill(1));
    assert_eq!(port.tx(&mut here.w, &mut frames), 6);
    drop(device);
    assert!(port.is_failed() && port.state() != PortState::Up && !port.can_retry_tx());
    here.pool.alloc_burst(&mut here.w, &mut frames, 2);
    assert_eq!((port.tx(&mut here.w, &mut frames), frames.len()), (0, 2));
    assert_eq!((port.complete(&mut here.w, &mut frames), port.counters().tx_lost.get()), (6, 6));
    frames.free(&mut here.w);
    drop(port);
    assert!(here.pool.ledger().all_freed() && own.ledger().all_freed());
}
