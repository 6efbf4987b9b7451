//! Tests of the promises of every port, on the port that needs no kernel.

#[cfg(not(loom))]
mod ledger;
#[allow(dead_code, reason = "the forwarder's tests use the rest of it")]
pub(crate) mod moody;
mod mutants;
pub(super) mod promises;
pub(super) mod runts;

use super::Port;
use super::conformance::Peer;
use super::mem::{MemConfig, MemDevice, MemError, MemPort};
use crate::page::{Memory, MemoryConfig};
use crate::pool::{Batch, Pool, PoolConfig};
use crate::port::{Complete, Fill, Rx, Tx, Wake};
use crate::sync::Worker;
use crate::sys::event::sleep_until_readable;
use crate::sys::region::BackingPreference;
use moody::{Mood, Moody};
use std::thread;
use std::time::Duration;

struct Bench {
    memory: Memory,
    w: Worker,
    pool: Pool,
    port: MemPort,
    device: MemDevice,
}

fn bench(frames: usize, ring: usize) -> Bench {
    let config = MemoryConfig {
        bytes: 2 << 20,
        workers: 1,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames, ..PoolConfig::default() }).unwrap();
    let (port, device) = MemPort::pair("0", &MemConfig { ring, coalesce: 4.min(ring / 2) }).unwrap();
    Bench { memory, w, pool, port, device }
}

#[test]
fn a_frame_makes_the_round_trip_through_the_four_queues() {
    let Bench { memory: _memory, mut w, pool, mut port, mut device } = bench(64, 32);
    assert_eq!(port.refill(&mut w, &pool), 32);
    assert_eq!(pool.ledger().posted, 32);
    let mut next = 0u8;
    assert_eq!(
        device.deliver(10, |room| {
            next += 1;
            room[..60].fill(next);
            60
        }),
        10
    );
    let mut batch = Batch::new();
    assert_eq!(port.rx(&mut w, &mut batch), 10);
    assert_eq!((pool.ledger().posted, pool.ledger().owned), (22, 10));
    for (i, frame) in batch.iter_mut().enumerate() {
        assert_eq!(frame.data(), [i as u8 + 1; 60]);
        frame.data_mut().fill(0x80 + i as u8);
    }
    assert_eq!(port.tx(&mut w, &mut batch), 10);
    let mut sent = 0u8;
    assert_eq!(
        device.collect(64, |data| {
            assert_eq!(data, [0x80 + sent; 60]);
            sent += 1;
        }),
        10
    );
    assert_eq!(port.complete(&mut w, &mut batch), 10);
    batch.free(&mut w);
    let ledger = pool.ledger();
    assert!(ledger.balanced() && ledger.posted == 22 && ledger.owned == 0, "{ledger:?}");
}

#[test]
fn completions_come_later_and_only_when_asked_for() {
    let Bench { memory: _memory, mut w, pool, mut port, mut device } = bench(64, 8);
    let mut batch = Batch::new();
    pool.alloc_burst(&mut w, &mut batch, 10);
    assert_eq!(port.tx(&mut w, &mut batch), 8, "two stay with the caller");
    assert_eq!(batch.len(), 2);
    assert_eq!(device.collect(3, |_| ()), 3);
    let mut done = Batch::new();
    assert_eq!(port.complete(&mut w, &mut done), 0, "fewer than are gathered");
    assert_eq!(device.collect(8, |_| ()), 5);
    assert_eq!((port.complete(&mut w, &mut done), port.tx_posted()), (8, 0));
    assert_eq!(port.tx(&mut w, &mut batch), 2);
    assert_eq!((device.collect(8, |_| ()), device.pending()), (2, 2));
    assert_eq!((device.collect(8, |_| ()), device.pending()), (0, 0), "idle: what has gathered is completed");
    assert_eq!(port.complete(&mut w, &mut done), 2);
    done.free(&mut w);
    assert!(pool.ledger().all_freed());
}

#[test]
fn who_does_not_ask_for_completions_cannot_transmit_any_more_and_loses_nothing() {
    let Bench { memory: _memory, mut w, pool, mut port, mut device } = bench(64, 4);
    let (mut batch, mut collected) = (Batch::new(), 0);
    pool.alloc_burst(&mut w, &mut batch, 32);
    for _ in 0..20 {
        port.tx(&mut w, &mut batch);
        collected += device.collect(8, |_| ());
    }
    assert_eq!(collected, 4, "as many as there are descriptors, then it stands still");
    let mut done = Batch::new();
    for _ in 0..20 {
        port.complete(&mut w, &mut done);
        port.tx(&mut w, &mut batch);
        collected += device.collect(8, |_| ());
    }
    assert_eq!((collected, done.len()), (32, 32));
}

#[test]
fn a_dry_pool_is_a_counted_drop_and_never_a_stall() {
    let Bench { memory: _memory, mut w, pool, mut port, mut device } = bench(16, 64);
    assert_eq!(port.refill(&mut w, &pool), 16);
    assert_eq!(device.deliver_or_drop(100, |_| 60), 16);
    assert_eq!(port.counters().rx_no_frame.get(), 84);
    let mut batch = Batch::new();
    assert_eq!(port.rx(&mut w, &mut batch), 16);
    assert_eq!(port.refill(&mut w, &pool), 0);
    batch.free(&mut w);
    assert_eq!(port.refill(&mut w, &pool), 16);
    assert_eq!(device.deliver_or_drop(16, |_| 60), 16);
}

#[test]
fn frames_inside_rings_that_are_torn_down_go_home() {
    for port_first in [true, false] {
        let Bench { memory, mut w, pool, mut port, mut device } = bench(64, 16);
        port.refill(&mut w, &pool);
        device.deliver(4, |_| 60);
        let mut batch = Batch::new();
        pool.alloc_burst(&mut w, &mut batch, 8);
        port.tx(&mut w, &mut batch);
        device.collect(5, |_| ());
        if port_first {
            drop(port);
            drop(device);
        } else {
            drop(device);
            drop(port);
        }
        let ledger = pool.ledger();
        assert!(ledger.all_freed() && ledger.owned == 0 && ledger.posted == 0, "{ledger:?}");
        drop((batch, pool, w));
        assert_eq!(memory.stats().free, memory.stats().total);
    }
}

#[test]
fn an_armed_port_says_what_is_there_and_is_readable_by_what_comes() {
    let Bench { memory: _memory, mut w, pool, mut port, mut device } = bench(64, 32);
    port.refill(&mut w, &pool);
    let readable = |port: &MemPort| sleep_until_readable(&[port.wakeup_fd().unwrap()], Duration::ZERO);
    assert!(!port.arm() && !readable(&port));
    device.deliver(1, |_| 60);
    assert!(readable(&port), "a frame came");
    port.disarm();
    assert!(port.arm() && !readable(&port), "it is there still, and nobody wakes for it again");
    port.disarm();
    let mut batch = Batch::new();
    port.rx(&mut w, &mut batch);
    port.tx(&mut w, &mut batch);
    assert!(!port.arm());
    device.collect(1, |_| ());
    assert!(!readable(&port), "sent, and not completed yet");
    device.collect(1, |_| ());
    assert!(readable(&port), "completed");
    port.disarm();
    assert!(port.arm());
    port.complete(&mut w, &mut batch);
    assert!(!port.arm() && !readable(&port));
}

#[test]
fn a_device_on_a_thread_of_its_own_gets_and_gives_every_frame_in_order() {
    const FRAMES: u32 = 20_000;
    let Bench { memory: _memory, mut w, pool, mut port, mut device } = bench(128, 32);
    let network = thread::spawn(move || {
        let (mut sent, mut seen) = (0_u32, 0_u32);
        while seen < FRAMES {
            let burst = 8.min(FRAMES - sent) as usize;
            device.deliver(burst, |room| {
                room[..4].copy_from_slice(&sent.to_be_bytes());
                sent += 1;
                60
            });
            device.collect(64, |data| {
                assert_eq!((&data[..4], data.len()), (&seen.to_be_bytes()[..], 60));
                seen += 1;
            });
            thread::yield_now();
        }
        device
    });
    let (mut batch, mut sent) = (Batch::new(), Batch::new());
    while !network.is_finished() {
        port.refill(&mut w, &pool);
        port.rx(&mut w, &mut batch);
        port.tx(&mut w, &mut batch);
        port.complete(&mut w, &mut sent);
        sent.free(&mut w);
        thread::yield_now();
    }
    let mut device = network.join().unwrap();
    while port.tx_posted() > 0 {
        device.collect(64, |_| ());
        port.complete(&mut w, &mut sent);
        sent.free(&mut w);
    }
    let counters = port.counters();
    let counted = [&counters.rx, &counters.tx, &counters.completed].map(|count| count.get());
    assert_eq!(counted, [u64::from(FRAMES); 3]);
    drop((port, device));
    assert!(pool.ledger().all_freed());
}

#[test]
fn rings_of_absurd_sizes_are_refused() {
    for ring in [0, 1, 3, 1 << 21] {
        assert_eq!(MemPort::pair("x", &MemConfig { ring, coalesce: 1 }).unwrap_err(), MemError::Ring(ring));
    }
    assert!(MemPort::pair("x", &MemConfig { ring: 8, coalesce: 5 }).is_err());
}

#[test]
fn a_wire_keeps_its_promises_also_where_it_carries_no_runts() {
    let pair = || MemPort::pair("0", &MemConfig { ring: 64, coalesce: 4 }).unwrap();
    promises::are_kept(|_| {
        let (port, device) = pair();
        (Box::new(port), Box::new(device))
    });
    promises::are_kept(|_| {
        let (port, device) = pair();
        (Box::new(Moody::new(port, Mood::Picky)), Box::new(device))
    });
}

#[test]
fn a_runt_over_a_wire_comes_without_a_byte_of_an_earlier_packet() {
    runts::come_alone(1, |_| {
        let (port, device) = MemPort::pair("0", &MemConfig { ring: 64, coalesce: 4 }).unwrap();
        (Box::new(port), Box::new(device))
    });
}

impl Peer for MemDevice {
    fn deliver(&mut self, frame: &[u8]) {
        MemDevice::deliver(self, 1, |room| {
            room[..frame.len()].copy_from_slice(frame);
            frame.len()
        });
    }

    fn collect(&mut self) -> Option<Vec<Vec<u8>>> {
        let mut come = Vec::new();
        MemDevice::collect(self, usize::MAX, |data| come.push(data.to_vec()));
        Some(come)
    }
}
