//! The whole path on two `mem` ports, through the router and through the decisions that use no table.

#![allow(clippy::unwrap_used)]

mod checklist;
mod copying;
mod cutting;
mod holding;
mod icmp;
mod idling;
mod odd;
mod offloads;
mod packets;
mod router;
mod shared;
mod steering;
mod mirroring;
mod waiting;

// It uses a part of this.
#[allow(dead_code)]
#[path = "../../../src/port/tests/moody.rs"]
mod moody;

use moody::{Mood, Moody};
use netmem::forward::{
    CrossConnect, Decide, DropAll, ForwardError, Forwarder, Free, PassAll, Reason, Reflect, Unpaired,
};
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::sync::Worker;
use netmem::{limits, pool, port, stats, sync};
use netmem_router::{Fib, MissingInterfaces, Router};
use netmem_traffic::{self as traffic, Hop, Sink, Traffic};
use std::sync::{Arc, Mutex};

struct Rig {
    memory: Memory,
    w: Worker,
    pool: Pool,
    forwarder: Forwarder,
    devices: [MemDevice; 2],
}

fn ip() -> Box<dyn Decide> {
    Box::new(Router::new(traffic::router().into()))
}

fn cross_connect() -> Box<dyn Decide> {
    Box::new(CrossConnect)
}

fn rig(frames: usize, mode: Box<dyn Decide>) -> Rig {
    rig_over(&PoolConfig { frames, ..PoolConfig::default() }, mode)
}

fn rig_over(frames: &PoolConfig, mode: Box<dyn Decide>) -> Rig {
    let config = MemoryConfig {
        bytes: 4 << 20,
        workers: 2,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, frames).unwrap();
    let (a, da) = MemPort::pair("0", &MemConfig::default()).unwrap();
    let (b, db) = MemPort::pair("1", &MemConfig::default()).unwrap();
    let forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], pool.clone(), mode).unwrap();
    Rig { memory, w, pool, forwarder, devices: [da, db] }
}

/// Verifies a frame with the sink, which counts the result.
fn check(sink: &mut Sink, data: &[u8]) {
    sink.verify(data);
}

impl Rig {
    /// Collects the frames that leave by port 1 until the forwarder is quiet.
    fn settle(&mut self, mut read: impl FnMut(&[u8])) {
        for _ in 0..64 {
            self.forwarder.poll(&mut self.w);
            self.devices.iter_mut().for_each(|device| {
                device.collect(64, &mut read);
            });
        }
        self.check();
    }

    fn check(&self) {
        let (meters, ledger) = (self.forwarder.meters(), self.pool.ledger());
        let came = meters.received.get() + meters.originated.get() + meters.fragments.get();
        let gone = meters.transmitted.get() + meters.drops.total() + meters.passed.get();
        assert_eq!(came, gone + meters.held.get() + meters.fragmented.get());
        assert!(ledger.balanced(), "{ledger:?}");
    }

    fn end(self) {
        let Rig { memory, w, pool, forwarder, devices } = self;
        assert_eq!(forwarder.meters().transmitted.get(), forwarder.meters().completed.get());
        drop((forwarder, devices));
        let ledger = pool.ledger();
        assert!(ledger.all_freed() && ledger.owned == 0 && ledger.posted == 0, "{ledger:?}");
        drop((pool, w));
        assert_eq!(memory.stats().free, memory.stats().total);
    }
}

#[test]
fn every_packet_arrives_once_in_order_with_the_routers_header_changes() {
    for hop in [Hop::Routed, Hop::Unchanged] {
        for free in [Free::Bulk, Free::Single] {
            let mode = if hop == Hop::Routed { ip() } else { cross_connect() };
            let mut rig = rig(2048, mode);
            rig.forwarder.set_free(free);
            let (mut traffic, mut sink) = (Traffic::new(7, 300).unwrap(), Sink::new(7, 300, hop).unwrap());
            let mut sent = 0;
            rig.forwarder.poll(&mut rig.w);
            while sent < 20_000 {
                sent += rig.devices[0].deliver(100, |room| traffic.write(room));
                rig.forwarder.poll(&mut rig.w);
                rig.devices[1].collect(128, |data| check(&mut sink, data));
                rig.check();
            }
            rig.settle(|data| check(&mut sink, data));
            let tally = sink.tally();
            assert_eq!((tally.received, tally.corrupt, tally.reordered), (sent as u64, 0, 0));
            rig.end();
        }
    }
}

#[test]
fn with_64_frames_in_all_a_burst_of_10_000_is_dropped_counted_and_recovered_from() {
    let mut rig = rig(64, ip());
    let (mut traffic, mut sink) = (Traffic::new(1, 64).unwrap(), Sink::new(1, 64, Hop::Routed).unwrap());
    rig.forwarder.poll(&mut rig.w);
    let delivered = rig.devices[0].deliver_or_drop(10_000, |room| traffic.write(room));
    assert!(delivered > 0 && delivered <= 64);
    rig.settle(|data| check(&mut sink, data));
    let lost = rig.forwarder.ports().next().unwrap().counters().rx_drops();
    assert_eq!(delivered as u64 + lost, 10_000);
    assert_eq!(sink.tally().received, delivered as u64);
    let after = rig.devices[0].deliver(16, |room| traffic.write(room));
    assert_eq!(after, 16, "it receives again");
    rig.settle(|data| check(&mut sink, data));
    assert_eq!((sink.tally().received, sink.tally().corrupt), (delivered as u64 + 16, 0));
    rig.end();
}

#[test]
fn a_port_without_traffic_does_not_hold_the_frames_that_another_port_needs() {
    let mut rig = rig(64, cross_connect());
    let mut traffic = Traffic::new(1, 64).unwrap();
    for round in 0..200 {
        let busy = usize::from(round >= 100);
        rig.forwarder.poll(&mut rig.w);
        assert!(rig.devices[busy].deliver(8, |room| traffic.write(room)) == 8, "round {round}");
        rig.forwarder.poll(&mut rig.w);
        rig.devices[1 - busy].collect(64, |_| ());
        rig.devices[1 - busy].collect(64, |_| ());
    }
    rig.settle(|_| ());
    rig.end();
}

#[test]
fn rings_shorter_than_the_reaping_threshold_lose_nothing_while_traffic_never_pauses() {
    let mut rig = rig(256, ip());
    let config = MemConfig { ring: 64, coalesce: 8 };
    let ((a, da), (b, db)) = (MemPort::pair("0", &config).unwrap(), MemPort::pair("1", &config).unwrap());
    rig.devices = [da, db];
    rig.forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], rig.pool.clone(), ip()).unwrap();
    let (mut traffic, mut sink) = (Traffic::new(1, 64).unwrap(), Sink::new(1, 64, Hop::Routed).unwrap());
    rig.forwarder.poll(&mut rig.w);
    for _ in 0..1_000 {
        assert_eq!(rig.devices[0].deliver_or_drop(16, |room| traffic.write(room)), 16);
        assert_eq!(rig.forwarder.poll(&mut rig.w), 16, "no round is idle");
        rig.devices[1].collect(64, |data| check(&mut sink, data));
    }
    rig.settle(|data| check(&mut sink, data));
    assert_eq!((sink.tally().received, rig.forwarder.meters().drops.total()), (16_000, 0));
    rig.end();
}

#[test]
fn a_peer_that_stopped_fills_the_rings_and_further_frames_are_counted_drops() {
    let mut rig = rig(4096, ip());
    let mut traffic = Traffic::new(1, 64).unwrap();
    rig.forwarder.poll(&mut rig.w);
    for _ in 0..100 {
        rig.devices[0].deliver(64, |room| traffic.write(room));
        rig.forwarder.poll(&mut rig.w);
        rig.check();
    }
    assert!(rig.forwarder.meters().drops.get(Reason::TxFull) > 0);
    rig.settle(|_| ());
    rig.end();
}

#[test]
fn frames_that_a_port_with_its_link_down_does_not_take_are_counted_drops_and_none_waits_forever() {
    let (mut rig, _) = moody_rig(512, ip, Mood::Mute);
    let mut traffic = Traffic::new(1, 64).unwrap();
    rig.forwarder.poll(&mut rig.w);
    assert_eq!(rig.devices[0].deliver(200, |room| traffic.write(room)), 200);
    rig.settle(|_| ());
    let meters = rig.forwarder.meters();
    assert_eq!((meters.drops.get(Reason::TxRefused), meters.held.get()), (200, 0));
    rig.end();
}

/// A rig whose second port has the state `mood` at each moment.
fn moody_rig(frames: usize, mode: fn() -> Box<dyn Decide>, mood: Mood) -> (Rig, Arc<Mutex<Mood>>) {
    let mut rig = rig(frames, mode());
    let (a, da) = MemPort::pair("0", &MemConfig::default()).unwrap();
    let (b, db) = MemPort::pair("1", &MemConfig::default()).unwrap();
    let b = Moody::new(b, mood);
    let handle = b.mood();
    rig.devices = [da, db];
    rig.forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], rig.pool.clone(), mode()).unwrap();
    (rig, handle)
}

#[test]
fn runts_among_frames_that_a_port_carries_are_refused_at_once_and_do_not_fill_its_batch() {
    let (mut rig, _) = moody_rig(512, || cross_connect(), Mood::Picky);
    rig.forwarder.poll(&mut rig.w);
    for round in 1..=40 {
        let mut n = 0;
        rig.devices[0].deliver(8, |_| {
            n += 1;
            if n % 2 == 0 { 60 } else { 10 }
        });
        rig.forwarder.poll(&mut rig.w);
        rig.devices[1].collect(64, |data| assert_eq!(data.len(), 60));
        let meters = rig.forwarder.meters();
        assert_eq!((meters.drops.get(Reason::TxRefused), meters.held.get()), (4 * round, 0));
        let counters = rig.forwarder.ports().nth(1).map(|port| port.counters().tx_invalid.get());
        assert_eq!(counters, Some(4 * round), "each once");
    }
    rig.settle(|_| ());
    rig.end();
}

#[test]
fn random_frames_cause_no_panic_and_leave_the_ledger_balanced() {
    let frames =
        std::env::var("NETMEM_RANDOM_FRAMES").ok().and_then(|n| n.parse().ok()).unwrap_or(1_000_000u64);
    let mut rig = rig(1024, ip());
    let mut traffic = Traffic::new(3, 90).unwrap();
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut sent = 0;
    rig.forwarder.poll(&mut rig.w);
    while sent < frames {
        // Good frames, corrupted in a few bytes, truncated or lengthened at random.
        sent += rig.devices[(sent % 2) as usize].deliver(64, |room| {
            let len = traffic.write(room);
            for _ in 0..random() % 4 {
                room[(random() % 48) as usize] = random() as u8;
            }
            if random() % 4 == 0 { (random() % room.len() as u64) as usize } else { len }
        }) as u64;
        rig.forwarder.poll(&mut rig.w);
        for device in &mut rig.devices {
            device.collect(128, |_| ());
        }
    }
    rig.settle(|_| ());
    let meters = rig.forwarder.meters();
    assert_eq!(meters.received.get(), sent);
    for reason in
        [Reason::Short, Reason::BadChecksum, Reason::NotForUs, Reason::BadVersion, Reason::Truncated]
    {
        assert!(meters.drops.get(reason) > 0, "{} never seen", reason.name());
    }
    rig.end();
}

#[test]
fn too_few_ports_and_missing_interfaces_are_refused() {
    let Rig { pool, .. } = rig(64, ip());
    let ports = |n: usize| -> Vec<Box<dyn Port>> {
        (0..n)
            .map(|i| {
                Box::new(MemPort::pair(&i.to_string(), &MemConfig::default()).unwrap().0) as Box<dyn Port>
            })
            .collect()
    };
    let refused = |n, decision| match Forwarder::new(ports(n), pool.clone(), decision) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{n} ports are taken"),
    };
    assert!(matches!(Forwarder::new(ports(0), pool.clone(), ip()), Err(ForwardError::Ports(0))));
    assert!(matches!(Forwarder::new(ports(1), pool.clone(), ip()), Err(ForwardError::Decision(_))));
    assert!(
        Forwarder::new(ports(1), pool.clone(), Box::new(Reflect)).is_ok(),
        "an echo needs no second port"
    );
    assert_eq!(refused(3, cross_connect()), Unpaired(3).to_string());
    assert_eq!(refused(3, ip()), MissingInterfaces { interfaces: 2, ports: 3 }.to_string());
}
