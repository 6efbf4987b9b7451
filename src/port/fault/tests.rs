//! Faults on a link.

use super::{Chance, FaultConfig, FaultPort, LATE_MAX};
use crate::pool::{Batch, Frame};
use crate::port::conformance::Fixture;
use crate::port::copying::{CopyingPort, Device, RxBuffers};
use crate::port::mem::{MemConfig, MemDevice, MemPort};
use crate::port::tests::moody::{Mood, Moody};
use crate::port::tests::promises;
use crate::port::tests::runts;
use crate::port::{Fill, Port, PortCounters, PortState, Rx, Wake};
use crate::stats::Writer;
use std::time::{Duration, Instant};

/// A link with faults, and its far end.
fn faulty(fixture: &Fixture, config: FaultConfig) -> (FaultPort, MemDevice) {
    let (port, device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 4 }).unwrap();
    (FaultPort::new(Box::new(port), fixture.pool.clone(), config), device)
}

/// Sends frames numbered from `first` on, each with its number in every byte.
fn deliver(device: &mut MemDevice, first: u8, n: u8) {
    let mut next = first;
    let delivered = device.deliver(n.into(), |room| {
        room[..60].fill(next);
        next += 1;
        60
    });
    assert_eq!(delivered, usize::from(n));
}

/// Receives once. Returns the first byte of each frame.
fn receive(fixture: &mut Fixture, port: &mut FaultPort) -> Vec<u8> {
    let mut batch = Batch::new();
    port.refill(&mut fixture.w, &fixture.pool);
    port.rx(&mut fixture.w, &mut batch);
    let first = batch.iter().map(|frame| frame.data()[0]).collect();
    batch.free(&mut fixture.w);
    first
}

/// Returns what is received of twelve frames, and then of none.
fn twelve(config: FaultConfig) -> (Vec<u8>, FaultPort, Fixture) {
    let mut fixture = Fixture::new(256);
    let (mut port, mut device) = faulty(&fixture, config);
    port.refill(&mut fixture.w, &fixture.pool);
    deliver(&mut device, 0, 12);
    let mut received = receive(&mut fixture, &mut port);
    received.extend(receive(&mut fixture, &mut port));
    (received, port, fixture)
}

#[test]
fn without_a_fault_frames_pass_as_they_are() {
    let (received, port, _fixture) = twelve(FaultConfig::default());
    assert_eq!(received, (0..12).collect::<Vec<u8>>());
    assert_eq!((port.kind(), port.name()), ("fault", "fault/mem:0"));
}

#[test]
fn every_third_frame_is_lost_by_count_and_goes_home() {
    let (received, port, fixture) = twelve(FaultConfig { drop: Chance::Every(3), ..FaultConfig::default() });
    assert_eq!(received, [0, 1, 3, 4, 6, 7, 9, 10]);
    let counters = port.counters();
    assert_eq!((counters.rx.get(), counters.rx_dropped.get(), port.faults().dropped.get()), (8, 4, 4));
    drop(port);
    assert!(fixture.pool.ledger().balanced() && fixture.pool.ledger().owned == 0);
}

#[test]
fn every_fourth_frame_comes_twice_and_the_copy_is_the_pools() {
    let (received, port, _fixture) =
        twelve(FaultConfig { duplicate: Chance::Every(4), ..FaultConfig::default() });
    assert_eq!(received, [0, 1, 2, 3, 3, 4, 5, 6, 7, 7, 8, 9, 10, 11, 11]);
    assert_eq!((port.counters().rx.get(), port.faults().duplicated.get()), (15, 3));
}

#[test]
fn a_dry_pool_makes_no_copies_and_says_so() {
    let mut fixture = Fixture::new(12);
    let (mut port, mut device) =
        faulty(&fixture, FaultConfig { duplicate: Chance::Every(1), ..FaultConfig::default() });
    assert_eq!(port.refill(&mut fixture.w, &fixture.pool), 12);
    deliver(&mut device, 0, 12);
    let mut batch = Batch::new();
    assert_eq!(port.rx(&mut fixture.w, &mut batch), 12);
    assert_eq!((port.faults().duplicated.get(), port.faults().no_frame.get()), (0, 12));
}

#[test]
fn a_reordered_frame_comes_behind_the_next_three_or_when_none_comes() {
    let (received, port, _fixture) =
        twelve(FaultConfig { reorder: Chance::Every(6), ..FaultConfig::default() });
    assert_eq!(received, [0, 1, 2, 3, 4, 6, 7, 8, 5, 9, 10, 11]);
    assert_eq!(port.faults().reordered.get(), 2);
}

#[test]
fn a_delayed_frame_comes_when_its_time_is_up_and_the_others_pass() {
    let mut fixture = Fixture::new(256);
    let mut delayed_by = |delay_by| {
        let config = FaultConfig { delay: Chance::Every(12), delay_by, ..FaultConfig::default() };
        let (mut port, mut device) = faulty(&fixture, config);
        port.refill(&mut fixture.w, &fixture.pool);
        deliver(&mut device, 0, 12);
        let (begun, first) = (Instant::now(), receive(&mut fixture, &mut port));
        (port, device, begun, first)
    };
    let (mut port, device, _, passed) = delayed_by(Duration::from_secs(3600));
    assert_eq!(passed, (0..11).collect::<Vec<u8>>());
    assert!(port.arm(), "it had better not sleep");
    port.disarm();
    drop((port, device));
    // On a machine that stands still, all may come at once.
    let delay_by = Duration::from_millis(20);
    let (mut port, _device, begun, mut received) = delayed_by(delay_by);
    while received.len() < 12 {
        received.extend(receive(&mut fixture, &mut port));
    }
    assert!(received == (0..12).collect::<Vec<u8>>() && begun.elapsed() >= delay_by, "{received:?}");
}

#[test]
fn a_corrupt_frame_differs_in_one_bit() {
    let mut fixture = Fixture::new(64);
    let (mut port, mut device) =
        faulty(&fixture, FaultConfig { corrupt: Chance::Every(1), ..FaultConfig::default() });
    port.refill(&mut fixture.w, &fixture.pool);
    device.deliver(20, |room| {
        room[..60].fill(0);
        60
    });
    let mut batch = Batch::new();
    port.rx(&mut fixture.w, &mut batch);
    assert_eq!(batch.len(), 20);
    let turned = |data: &[u8]| data.iter().map(|byte| byte.count_ones()).sum::<u32>();
    assert!(batch.iter().all(|frame| turned(frame.data()) == 1));
    assert_eq!(port.faults().corrupted.get(), 20);
}

#[test]
fn the_same_seed_does_the_same_however_frames_come_in_bursts() {
    let received = |seed, burst: u8| {
        let half: Chance = "0.5".parse().unwrap();
        let config = FaultConfig { seed, drop: half, duplicate: half, ..FaultConfig::default() };
        let mut fixture = Fixture::new(256);
        let (mut port, mut device) = faulty(&fixture, config);
        let mut all = Vec::new();
        for first in (0..240).step_by(burst.into()) {
            port.refill(&mut fixture.w, &fixture.pool);
            deliver(&mut device, first, burst);
            all.extend(receive(&mut fixture, &mut port));
        }
        all
    };
    assert_eq!(received(7, 1), received(7, 24));
    assert_ne!(received(7, 24), received(8, 24));
}

#[test]
fn frames_that_are_late_for_ever_are_bounded_and_go_home_with_the_port() {
    let mut fixture = Fixture::new(256);
    let config = FaultConfig { delay: Chance::Every(1), delay_by: Duration::MAX, ..FaultConfig::default() };
    let (mut port, mut device) = faulty(&fixture, config);
    const { assert!(LATE_MAX > 200) };
    for _ in 0..5 {
        port.refill(&mut fixture.w, &fixture.pool);
        deliver(&mut device, 0, 40);
        assert_eq!(receive(&mut fixture, &mut port), []);
    }
    let (counters, faults) = (port.counters(), port.faults());
    assert_eq!((faults.delayed.get(), counters.rx_dropped.get()), (200, 0));
    drop((port, device));
    assert_eq!((counters.rx_dropped.get(), counters.rx.get()), (200, 0), "they are lost, and counted");
    let ledger = fixture.pool.ledger();
    assert!(ledger.all_freed(), "{ledger:?}");
}

#[test]
fn a_port_with_faults_keeps_its_promises() {
    promises::are_kept(|fixture| {
        let (port, device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 4 }).unwrap();
        let some: Chance = "0.2".parse().unwrap();
        let config = FaultConfig {
            drop: some,
            duplicate: some,
            corrupt: some,
            reorder: some,
            delay: some,
            ..FaultConfig::default()
        };
        (
            Box::new(FaultPort::new(Box::new(Moody::new(port, Mood::Picky)), fixture.pool.clone(), config)),
            Box::new(device),
        )
    });
}

/// A device that counts how often it is asked for the counts of others.
struct Asked;

impl Device for Asked {
    fn kind(&self) -> &'static str {
        "asked"
    }

    fn receive(&mut self, _rooms: &mut RxBuffers<'_>, _counters: &Writer<PortCounters>) -> usize {
        0
    }

    fn send(&mut self, _frames: &[Frame], _counters: &Writer<PortCounters>) -> usize {
        0
    }

    fn publish(&self, counters: &Writer<PortCounters>) {
        counters.rx_ring_full.add(1);
    }

    fn state(&self) -> PortState {
        PortState::Up
    }
}

#[test]
fn rounds_do_not_ask_the_device_for_its_counts_and_what_it_says_last_is_seen() {
    let fixture = Fixture::new(16);
    let within = Box::new(CopyingPort::new("asked:0".into(), Asked, 8));
    let mut port = FaultPort::new(within, fixture.pool.clone(), FaultConfig::default());
    (0..100).for_each(|_| port.kick());
    let counters = port.counters();
    assert_eq!(counters.rx_ring_full.get(), 2, "once when it was wrapped, once now");
    drop(port);
    assert_eq!(counters.rx_ring_full.get(), 3, "and when it was dropped");
}

#[test]
fn a_runt_with_faults_comes_without_a_byte_of_an_earlier_packet_its_copies_too() {
    let faults = [
        FaultConfig::default(),
        FaultConfig { duplicate: Chance::Every(2), ..FaultConfig::default() },
        FaultConfig { reorder: Chance::Every(3), ..FaultConfig::default() },
    ];
    for config in faults {
        runts::come_alone(1, |fixture| {
            let (port, device) = faulty(fixture, config);
            (Box::new(port), Box::new(device))
        });
    }
}
