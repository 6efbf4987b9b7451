//! The full path: packets with heads, rules, and ports of every kind.

use super::idling::wait_until;
use super::*;
use netmem::forward::PacketPath;
use netmem::forward::filter::{FilterControl, filter};
use netmem::forward::local_queue::local_queue;
use netmem::packet::{HeadCache, HeadCacheConfig, HeadCacheMode, ReadyPackets};
use netmem::port::fault::{Chance, FaultConfig, FaultPort};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

/// A rig on the full path with these rules.
fn full(
    frames: usize,
    decision: Box<dyn Decide>,
    mode: HeadCacheMode,
    rules: &[&str],
) -> (Rig, FilterControl) {
    let mut rig = rig(frames, decision);
    let (control, _) = take_full_path(&mut rig, mode, rules);
    (rig, control)
}

fn take_full_path(rig: &mut Rig, mode: HeadCacheMode, rules: &[&str]) -> (FilterControl, HeadCache) {
    let config = HeadCacheConfig { mode, size: 64, refill: 16, free: 32, ..HeadCacheConfig::default() };
    let heads = HeadCache::with(&rig.memory, &config).unwrap();
    let (filter, control) = filter(rules.iter().map(|text| text.parse().unwrap()).collect()).unwrap();
    rig.forwarder.set_packet_path(PacketPath::new(heads.clone()).with_hooks(filter));
    (control, heads)
}

/// Heads that are not free: on packets, in pairs, or waiting for a frame that a device has.
fn out(heads: &HeadCache) -> u64 {
    let stats = heads.stats();
    stats.taken + stats.cache_taken - stats.kept - stats.cache_given - stats.freed
}

impl Rig {
    /// Sends `n` packets of seven flows through. The sink verifies them. Returns the sink's tally.
    fn send_through(&mut self, n: usize) -> traffic::Tally {
        let (mut traffic, mut sink) =
            (Traffic::new(7, 300).unwrap(), Sink::new(7, 300, Hop::Routed).unwrap());
        let mut sent = 0;
        self.forwarder.poll(&mut self.w);
        while sent < n {
            sent += self.devices[0].deliver((n - sent).min(100), |room| traffic.write(room));
            self.forwarder.poll(&mut self.w);
            self.devices[1].collect(128, |data| check(&mut sink, data));
            self.check();
        }
        self.settle(|data| check(&mut sink, data));
        sink.tally()
    }
}

#[test]
fn every_packet_arrives_once_in_order_whatever_form_the_ready_heads_have() {
    for mode in [HeadCacheMode::Each, HeadCacheMode::Bulk, HeadCacheMode::FlushOnly, HeadCacheMode::TwoSided]
    {
        for free in [Free::Bulk, Free::Single] {
            let (mut rig, control) = full(2048, ip(), mode, &[]);
            rig.forwarder.set_free(free);
            let tally = rig.send_through(10_000);
            assert_eq!((tally.received, tally.corrupt, tally.reordered), (10_000, 0, 0), "{mode:?}");
            assert_eq!(control.unmatched(), 10_000);
            rig.end();
        }
    }
}

#[test]
fn heads_and_frames_of_ready_packets_stay_together_from_completion_to_the_next_fill() {
    for (max, free) in [(0, Free::Bulk), (50, Free::Bulk), (50, Free::Single), (1000, Free::Bulk)] {
        let mut rig = rig(2048, ip());
        let heads = HeadCache::new(&rig.memory).unwrap();
        let pairs = ReadyPackets::new(&rig.pool, &heads, max);
        rig.forwarder.set_packet_path(PacketPath::new(heads.clone()).with_ready_packets(pairs.clone()));
        rig.forwarder.set_free(free);
        let tally = rig.send_through(10_000);
        assert_eq!((tally.received, tally.corrupt, tally.reordered), (10_000, 0, 0), "max {max}");
        let stats = pairs.stats();
        assert_eq!(stats.taken > 0, max > 0, "{stats:?}");
        assert!(pairs.now() <= max, "{stats:?}");
        let posted = rig.forwarder.ports().map(|port| port.rx_posted()).sum::<usize>();
        assert_eq!(rig.pool.ledger().ready, pairs.now() as u64);
        assert_eq!(
            out(&heads),
            (posted + pairs.now()) as u64,
            "a head for each frame that is posted, and for each pair"
        );
        pairs.drain(&mut rig.w);
        drop((heads, pairs));
        rig.end();
    }
}

#[test]
fn the_head_of_a_frame_that_a_port_drops_is_freed() {
    let mut rig = rig(1024, ip());
    let ((a, near), (b, far)) = (
        MemPort::pair("0", &MemConfig::default()).unwrap(),
        MemPort::pair("1", &MemConfig::default()).unwrap(),
    );
    let config = FaultConfig { drop: Chance::Every(2), ..FaultConfig::default() };
    let a = FaultPort::new(Box::new(a), rig.pool.clone(), config);
    rig.forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], rig.pool.clone(), ip()).unwrap();
    rig.devices = [near, far];
    let heads = HeadCache::new(&rig.memory).unwrap();
    let pairs = ReadyPackets::new(&rig.pool, &heads, 100);
    rig.forwarder.set_packet_path(PacketPath::new(heads.clone()).with_ready_packets(pairs.clone()));
    assert_eq!(rig.send_through(4_000).received, 2_000);
    let posted = rig.forwarder.ports().map(|port| port.rx_posted()).sum::<usize>();
    assert_eq!(out(&heads), (posted + pairs.now()) as u64);
    pairs.drain(&mut rig.w);
    drop((heads, pairs));
    rig.end();
}

#[test]
fn the_number_of_ready_packets_is_changed_under_traffic_also_below_what_there_is() {
    let mut rig = rig(1024, ip());
    let heads = HeadCache::new(&rig.memory).unwrap();
    let pairs = ReadyPackets::new(&rig.pool, &heads, 200);
    rig.forwarder.set_packet_path(PacketPath::new(heads).with_ready_packets(pairs.clone()));
    for max in [200, 7, 0, 64, 1] {
        pairs.set_max(max);
        assert!(pairs.now() <= max);
        let tally = rig.send_through(1_000);
        assert_eq!((tally.received, tally.corrupt), (1_000, 0), "max {max}");
        assert!(pairs.now() <= max);
    }
    pairs.set_max(0);
    drop(pairs);
    rig.end();
}

#[test]
fn the_first_rule_that_matches_decides_and_every_packet_is_counted_under_one() {
    // Seven flows, from 49152 on, to 10.1.0.1 and the addresses behind it.
    let rules =
        ["accept,sport=49152", "drop,dst=10.1.0.0/30", "pass,proto=udp,sport=49155-49156", "drop,in=1"];
    let (mut rig, control) = full(2048, ip(), HeadCacheMode::TwoSided, &rules);
    let (local_queue, mut reader) = local_queue(4096);
    rig.forwarder.set_local_queue(local_queue);
    let tally = rig.send_through(700);
    let counts = control.rules().into_iter().map(|count| (count.packets, count.bytes)).collect::<Vec<_>>();
    assert_eq!(counts, [(100, 30_000), (200, 60_000), (200, 60_000), (0, 0)]);
    let meters = rig.forwarder.meters();
    assert_eq!(
        (meters.drops.get(Reason::FilterDrop), meters.passed.get(), control.unmatched()),
        (200, 200, 200)
    );
    assert_eq!((tally.received, tally.corrupt), (300, 0));
    assert_eq!(reader.waiting(4096), 200);
    drop(reader);
    rig.end();
}

#[test]
fn the_statistics_hook_counts_each_packet_under_what_it_carries() {
    let mut rig = rig(512, Box::new(DropAll));
    let (filter, _control) = filter(Vec::new()).unwrap();
    let path = PacketPath::new(HeadCache::new(&rig.memory).unwrap()).with_hooks(filter);
    let protocols = path.protocols().unwrap();
    rig.forwarder.set_packet_path(path);
    rig.forwarder.poll(&mut rig.w);
    let mut traffic = Traffic::new(1, 64).unwrap();
    for (at, value) in [(23, 17), (23, 6), (23, 1), (23, 89), (14, 0x65), (13, 6), (12, 0x86)] {
        rig.devices[0].deliver(1, |room| {
            let len = traffic.write(room);
            room[at] = value;
            len
        });
    }
    rig.settle(|_| ());
    let counts = protocols.iter().map(|(_, packets)| packets).collect::<Vec<_>>();
    assert_eq!((counts, protocols.bytes.get()), (vec![1, 1, 1, 2, 0, 1, 1], 7 * 64));
    rig.end();
}

#[test]
fn rules_are_changed_under_traffic_and_no_packet_is_lost_or_counted_twice() {
    let (mut rig, control) = full(2048, ip(), HeadCacheMode::TwoSided, &["accept,in=0"]);
    let total = thread::scope(|scope| {
        let changing = scope.spawn(move || {
            for round in 0..300 {
                match round % 3 {
                    0 => control.insert(0, "drop,sport=49153".parse().unwrap()).unwrap(),
                    1 => control.insert(1, "accept,proto=udp".parse().unwrap()).unwrap(),
                    _ => (0..2).for_each(|_| control.remove(0).unwrap()),
                }
                thread::yield_now();
            }
            control
        });
        let mut total = traffic::Tally::default();
        while !changing.is_finished() || total.received == 0 {
            let tally = rig.send_through(700);
            assert_eq!((tally.corrupt, tally.duplicates), (0, 0));
            total.received += tally.received;
        }
        let control = changing.join().unwrap();
        assert_eq!(control.rules().len(), 1);
        assert!(control.rules()[0].packets > 0);
        total.received
    });
    let meters = rig.forwarder.meters();
    assert_eq!(meters.received.get(), total + meters.drops.get(Reason::FilterDrop));
    rig.end();
}

#[test]
fn a_peer_that_stopped_causes_counted_drops_and_costs_no_head() {
    let mut rig = rig(4096, ip());
    let (_control, heads) = take_full_path(&mut rig, HeadCacheMode::TwoSided, &[]);
    let mut traffic = Traffic::new(1, 64).unwrap();
    rig.forwarder.poll(&mut rig.w);
    for _ in 0..100 {
        rig.devices[0].deliver(64, |room| traffic.write(room));
        rig.forwarder.poll(&mut rig.w);
        rig.check();
    }
    assert!(rig.forwarder.meters().drops.get(Reason::TxFull) > 0);
    let in_flight: usize = rig.forwarder.ports().map(|port| port.tx_posted()).sum();
    assert_eq!(out(&heads), in_flight as u64 + rig.forwarder.meters().held.get());
    rig.settle(|_| ());
    assert_eq!(out(&heads), 0);
    drop(heads);
    rig.end();
}

#[test]
fn a_port_that_completes_out_of_order_is_served_as_any_other() {
    let (mut rig, _) = moody_rig(2048, ip, Mood::Backwards);
    let (_control, heads) = take_full_path(&mut rig, HeadCacheMode::TwoSided, &[]);
    let tally = rig.send_through(5_000);
    assert_eq!((tally.received, tally.corrupt, tally.reordered), (5_000, 0, 0));
    assert_eq!(out(&heads), 0);
    drop(heads);
    rig.end();
}

#[test]
fn packets_are_dropped_for_that_reason_without_memory_for_heads_and_their_frames_are_freed() {
    let (mut rig, _control) = full(512, ip(), HeadCacheMode::Each, &[]);
    let mut traffic = Traffic::new(1, 64).unwrap();
    rig.forwarder.poll(&mut rig.w);
    rig.devices[0].deliver(20, |room| traffic.write(room));
    let all = std::iter::from_fn(|| rig.memory.alloc(&mut rig.w, 0)).collect::<Vec<_>>();
    rig.forwarder.poll(&mut rig.w);
    drop(all);
    rig.devices[0].deliver(20, |room| traffic.write(room));
    rig.settle(|_| ());
    let meters = rig.forwarder.meters();
    assert_eq!((meters.drops.get(Reason::NoMem), meters.transmitted.get()), (20, 20));
    rig.end();
}

#[test]
fn heads_of_frames_that_are_lost_with_their_interface_are_freed_with_traffic_and_without() {
    for traffic_goes_on in [true, false] {
        let (mut rig, mood) = moody_rig(512, ip, Mood::Picky);
        let (_control, heads) = take_full_path(&mut rig, HeadCacheMode::Each, &[]);
        rig.forwarder.measure_latency();
        let mut traffic = Traffic::new(1, 64).unwrap();
        rig.forwarder.poll(&mut rig.w);
        rig.devices[0].deliver(100, |room| traffic.write(room));
        rig.forwarder.poll(&mut rig.w);
        rig.forwarder.poll(&mut rig.w);
        assert_eq!(out(&heads), 100);
        *mood.lock().unwrap() = Mood::Gone;
        if traffic_goes_on {
            rig.devices[0].deliver(20, |room| traffic.write(room));
            rig.forwarder.poll(&mut rig.w);
            assert_eq!(rig.forwarder.meters().drops.get(Reason::TxRefused), 20);
        } else {
            let stop = AtomicBool::new(false);
            let Rig { forwarder, w, .. } = &mut rig;
            thread::scope(|scope| {
                scope.spawn(|| {
                    wait_until(|| out(&heads) == 0);
                    stop.store(true, Relaxed);
                });
                forwarder.run(w, &stop);
            });
        }
        assert_eq!(out(&heads), 0);
        drop(heads);
        rig.check();
        let Rig { pool, forwarder, devices, .. } = rig;
        drop((forwarder, devices));
        assert!(pool.ledger().all_freed(), "{:?}", pool.ledger());
    }
}
