//! Tests of the port over a device in memory.

use super::{CopyingPort, Device, RxBuffers};
use crate::pool::{Batch, Frame};
use crate::port::conformance::Fixture;
use crate::port::tests::promises;
use crate::port::{Complete, Fill, Port, PortCounters, PortState, Rx, Tx, Wake};
use crate::stats::Writer;
use std::cell::Cell;
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Receives the frames that it sent. It reports `lie` more than is true.
#[derive(Default)]
struct Loopback {
    line: VecDeque<Vec<u8>>,
    lie: usize,
    /// Drops that others have counted for the device.
    dropped: Cell<u64>,
}

impl Device for Loopback {
    fn kind(&self) -> &'static str {
        "loopback"
    }

    fn receive(&mut self, rooms: &mut RxBuffers<'_>, _counters: &Writer<PortCounters>) -> usize {
        let mut n = 0;
        for (mut room, bytes) in rooms.iter_mut().zip(self.line.iter()) {
            room.put(bytes.len()).unwrap().copy_from_slice(bytes);
            n += 1;
        }
        self.line.drain(..n);
        n + self.lie
    }

    fn send(&mut self, frames: &[Frame], _counters: &Writer<PortCounters>) -> usize {
        self.line.extend(frames.iter().map(|frame| frame.data().to_vec()));
        frames.len() + self.lie
    }

    fn publish(&self, counters: &Writer<PortCounters>) {
        counters.rx_ring_full.add(self.dropped.take());
    }

    fn state(&self) -> PortState {
        PortState::Up
    }
}

fn looped(size: usize) -> CopyingPort<Loopback> {
    CopyingPort::new("loopback:0".into(), Loopback::default(), size)
}

/// Frames numbered from 0 on in every byte.
fn numbered(Fixture { w, pool, .. }: &mut Fixture, n: u8) -> Batch {
    let mut frames = Batch::new();
    assert_eq!(pool.alloc_burst(w, &mut frames, n.into()), usize::from(n));
    for (i, frame) in (0..).zip(frames.iter_mut()) {
        frame.put(60).unwrap().fill(i);
    }
    frames
}

#[test]
fn frames_come_in_the_order_in_which_they_were_sent() {
    let mut fixture = Fixture::new(128);
    let mut port = looped(64);
    let mut frames = numbered(&mut fixture, 40);
    assert_eq!((port.tx(&mut fixture.w, &mut frames), port.tx_posted()), (40, 40));
    assert_eq!(port.complete(&mut fixture.w, &mut frames), 40);
    frames.free(&mut fixture.w);
    port.refill(&mut fixture.w, &fixture.pool);
    let mut received = Batch::new();
    assert_eq!(port.rx(&mut fixture.w, &mut received), 40);
    assert!((0..).zip(received.iter()).all(|(i, frame)| frame.data() == [i; 60]));
}

#[test]
fn frames_that_are_posted_again_with_data_receive_nothing_but_the_next_packet() {
    let mut fixture = Fixture::new(8);
    let mut port = looped(4);
    port.refill(&mut fixture.w, &fixture.pool);
    for round in 0..200 {
        let mut frames = numbered(&mut fixture, 1);
        port.tx(&mut fixture.w, &mut frames);
        port.complete(&mut fixture.w, &mut frames);
        frames.free(&mut fixture.w);
        let mut received = Batch::new();
        assert_eq!(port.rx(&mut fixture.w, &mut received), 1, "round {round}");
        assert_eq!(received[0].data(), [0; 60], "round {round}");
        // As a program does that reads a header.
        received[0].pull(14).unwrap();
        port.fill(&mut fixture.w, &mut received);
    }
}

#[test]
fn who_does_not_ask_for_completions_cannot_transmit_any_more() {
    let mut fixture = Fixture::new(128);
    let mut port = looped(24);
    let mut frames = numbered(&mut fixture, 40);
    assert_eq!((port.tx(&mut fixture.w, &mut frames), frames.len()), (24, 16));
    assert_eq!((port.tx(&mut fixture.w, &mut frames), frames.len()), (0, 16));
    let mut sent = Batch::new();
    assert_eq!(port.complete(&mut fixture.w, &mut sent), 24);
    assert_eq!(port.tx(&mut fixture.w, &mut frames), 16);
}

/// Returns a port in which 5 frames are posted, and 3 packets wait to be received.
fn waiting(fixture: &mut Fixture) -> CopyingPort<Loopback> {
    let mut port = looped(64);
    assert_eq!(port.refill_to(&mut fixture.w, &fixture.pool, 5), 5);
    port.device.line.extend(vec![vec![1; 60]; 3]);
    port
}

/// Checks that a port is down for good with this reason, and that its frames come back.
fn is_down(mut port: CopyingPort<Loopback>, fixture: &mut Fixture, why: &str) {
    let mut frames = Batch::new();
    port.device.lie = 0;
    port.device.line.push_back(vec![1; 60]);
    assert_eq!(port.rx(&mut fixture.w, &mut frames), 0);
    assert!(port.is_failed() && port.rx_finished() && !port.can_retry_tx() && port.wakeup_fd().is_none());
    assert_eq!(port.state(), PortState::Down(why.into()));
    assert_eq!(port.counters().bad_descriptor.get(), 1);
    drop(port);
    let ledger = fixture.pool.ledger();
    assert!(ledger.all_freed() && ledger.posted == 0, "{ledger:?}");
}

/// Seen: the number was lowered in silence to that of the buffers, so that packets without a byte were made up and forwarded
/// for as long as the port was open. It stayed up.
#[test]
fn a_device_that_received_more_than_it_had_buffers_takes_its_port_down() {
    let mut fixture = Fixture::new(128);
    for (lie, said) in [(3, 6), (usize::MAX - 3, usize::MAX)] {
        let mut port = waiting(&mut fixture);
        port.device.lie = lie;
        let mut frames = Batch::new();
        assert_eq!((port.rx(&mut fixture.w, &mut frames), frames.len(), port.rx_posted()), (0, 0, 5));
        assert_eq!((port.counters().rx.get(), port.counters().rx_dropped.get()), (0, 3));
        is_down(
            port,
            &mut fixture,
            &format!(
                "its device loopback returned {said} from receive, which had 5 buffers: correct the device, and open the port again"
            ),
        );
    }
}

/// Seen: as above. The frames count as not taken.
#[test]
fn a_device_that_sent_more_than_it_was_given_takes_its_port_down() {
    let mut fixture = Fixture::new(128);
    let mut port = waiting(&mut fixture);
    let mut frames = numbered(&mut fixture, 10);
    assert_eq!(port.tx(&mut fixture.w, &mut frames), 10);
    frames = numbered(&mut fixture, 4);
    port.device.lie = 1;
    for _ in 0..2 {
        assert_eq!((port.tx(&mut fixture.w, &mut frames), frames.len(), port.tx_posted()), (0, 4, 10));
        port.device.lie = 0;
    }
    frames.free(&mut fixture.w);
    assert_eq!(port.complete(&mut fixture.w, &mut frames), 10, "what it sent before comes back");
    frames.free(&mut fixture.w);
    let why = "its device loopback returned 5 from send, which had 4 frames: correct the device, and open the port again";
    is_down(port, &mut fixture, why);
}

#[test]
fn a_device_may_receive_as_many_as_it_has_buffers_and_packets_without_a_byte() {
    let mut fixture = Fixture::new(128);
    let mut port = waiting(&mut fixture);
    port.device.line.extend([vec![], vec![1]]);
    let mut frames = Batch::new();
    assert_eq!((port.rx(&mut fixture.w, &mut frames), port.state()), (5, PortState::Up));
    assert!(frames.iter().map(Frame::len).eq([60, 60, 60, 0, 1]));
}

#[test]
fn what_others_count_is_in_the_counters_whenever_they_are_asked_for_and_at_the_end() {
    let port = looped(8);
    port.device.dropped.set(5);
    let counters = port.counters();
    assert_eq!(counters.rx_ring_full.get(), 5);
    port.device.dropped.set(2);
    drop(port);
    assert_eq!(counters.rx_ring_full.get(), 7);
}

#[test]
fn what_was_sent_and_not_asked_back_for_is_completed_when_the_port_goes() {
    let mut fixture = Fixture::new(128);
    let mut port = looped(64);
    let mut frames = numbered(&mut fixture, 40);
    let counters = port.counters();
    assert_eq!(port.tx(&mut fixture.w, &mut frames), 40);
    drop(port);
    assert_eq!((counters.tx.get(), counters.completed.get()), (40, 40));
    assert!(fixture.pool.ledger().all_freed(), "{:?}", fixture.pool.ledger());
}

#[test]
fn a_port_over_memory_keeps_its_promises() {
    promises::are_kept(|_| (Box::new(looped(48)), Box::new(())));
}

/// Seen: of 300 packets of 1,600 bytes, 288 were dropped, by the frame that each came to: frames begin their data at
/// different places, and most had no room behind it.
#[test]
fn a_packet_as_long_as_the_frame_less_its_headroom_is_received_into_any_frame() {
    let mut fixture = Fixture::new(128);
    let mut port = looped(64);
    for (round, len) in [1519, 1537, 1600, 1984].into_iter().cycle().take(64).enumerate() {
        let packet: Vec<u8> = (0..len).map(|at| (at + round) as u8).collect();
        port.device.line.push_back(packet.clone());
        port.refill(&mut fixture.w, &fixture.pool);
        let mut received = Batch::new();
        assert_eq!(port.rx(&mut fixture.w, &mut received), 1, "round {round}");
        assert!(received[0].data() == packet && received[0].headroom() >= 64, "round {round}");
        received.free(&mut fixture.w);
    }
}

/// Receives in place: it finds out only with a buffer in its hands that nothing has come.
#[derive(Default)]
struct InPlace {
    line: VecDeque<Vec<u8>>,
    /// Put before each packet.
    prefix: Option<[u8; 4]>,
    panics: bool,
}

impl Device for InPlace {
    fn kind(&self) -> &'static str {
        "in-place"
    }

    fn receive(&mut self, rooms: &mut RxBuffers<'_>, _counters: &Writer<PortCounters>) -> usize {
        let mut n = 0;
        while let Some(mut room) = rooms.get(n) {
            let prefix = self.prefix.as_ref().map_or(&[][..], |prefix| prefix);
            room.put(prefix.len()).unwrap().copy_from_slice(prefix);
            let whole = room.whole();
            assert!(!self.panics, "on purpose");
            let Some(bytes) = self.line.pop_front() else { break };
            whole[..bytes.len()].copy_from_slice(&bytes);
            rooms.get(n).unwrap().trim(prefix.len() + bytes.len()).unwrap();
            n += 1;
        }
        n
    }

    fn send(&mut self, _frames: &[Frame], _counters: &Writer<PortCounters>) -> usize {
        0
    }

    fn state(&self) -> PortState {
        PortState::Up
    }
}

/// Seen: after a reception that found nothing, packets of 100 and 200 bytes came with 0 and 200 bytes; with a prefix
/// they were longer and began with old bytes.
#[test]
fn a_buffer_that_a_device_did_not_report_is_empty_for_the_next_reception() {
    for (prefix, panics) in [(None, false), (None, true), (Some([9; 4]), false), (Some([9; 4]), true)] {
        let mut fixture = Fixture::new(128);
        let mut port = CopyingPort::new("in-place:0".into(), InPlace { prefix, ..Default::default() }, 8);
        port.refill(&mut fixture.w, &fixture.pool);
        let mut received = Batch::new();
        port.device.panics = panics;
        for _ in 0..3 {
            let idle = catch_unwind(AssertUnwindSafe(|| port.rx(&mut fixture.w, &mut received)));
            assert_eq!(idle.ok(), (!panics).then_some(0));
        }
        port.device.panics = false;
        let packets = [vec![1; 100], vec![2; 200]];
        port.device.line.extend(packets.clone());
        assert_eq!(port.rx(&mut fixture.w, &mut received), 2);
        for (frame, packet) in received.iter().zip(packets) {
            let prefix = prefix.as_ref().map_or(&[][..], |prefix| prefix);
            assert!(frame.data() == [prefix, &packet].concat() && frame.headroom() >= 64, "{frame:?}");
        }
        received.free(&mut fixture.w);
    }
}

/// Seen: packets of 1,537 to 1,984 bytes that a device received in place were cut in silence, by the frame that each came
/// to: the whole room was only that behind the frame's start.
#[test]
fn a_packet_as_long_as_the_frame_less_its_headroom_is_received_in_place_into_any_frame() {
    for prefix in [None, Some([9; 4])] {
        let mut fixture = Fixture::new(128);
        let mut port = CopyingPort::new("in-place:0".into(), InPlace { prefix, ..Default::default() }, 64);
        let before = prefix.as_ref().map_or(&[][..], |prefix| prefix);
        for round in 0..64 {
            let packet: Vec<u8> = (0..1984 - before.len()).map(|at| (at + round) as u8).collect();
            port.device.line.push_back(packet.clone());
            port.refill(&mut fixture.w, &fixture.pool);
            let mut received = Batch::new();
            assert_eq!(port.rx(&mut fixture.w, &mut received), 1, "round {round}");
            assert!(received[0].data() == [before, &packet].concat() && received[0].headroom() == 64);
            received.free(&mut fixture.w);
        }
    }
}

#[test]
fn the_whole_room_of_every_empty_frame_of_a_pool_is_the_same() {
    let mut fixture = Fixture::new(64);
    let mut frames: Vec<Frame> = (0..64).map(|_| fixture.pool.alloc(&mut fixture.w).unwrap()).collect();
    assert!(frames.iter().any(|frame| frame.headroom() > 64));
    let mut rooms = RxBuffers::of(&mut frames);
    assert!(rooms.iter_mut().all(|room| room.whole().len() == 1984));
    frames.into_iter().for_each(|frame| frame.free(&mut fixture.w));
}
