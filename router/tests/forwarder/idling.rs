//! A worker without work.

use super::{Hop, Rig, Sink, Traffic, ip, rig};
use netmem::forward::{Forwarder, Idle, Meters};
use netmem::page::{Lists, Memory};
use netmem::port::Port;
use netmem::port::fault::{Chance, FaultConfig, FaultPort};
use netmem::port::mem::{MemConfig, MemDevice, wire};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How long a test waits for an event that must happen. It only guards against hangs.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the forwarder on another thread while `play` plays the network. Returns the rig.
fn while_it_runs(mut rig: Rig, play: impl FnOnce(&mut [MemDevice; 2], &Meters)) -> Rig {
    let stop = AtomicBool::new(false);
    let meters = rig.forwarder.meters();
    let Rig { forwarder, w, devices, .. } = &mut rig;
    thread::scope(|scope| {
        let running = scope.spawn(|| forwarder.run(w, &stop));
        play(devices, &meters);
        stop.store(true, Relaxed);
        running.join().unwrap();
    });
    rig
}

pub(super) fn wait_until(happened: impl Fn() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain");
        thread::yield_now();
    }
}

/// Checks that the worker begins fewer than `at_most` rounds without work in a second.
fn check_rounds(meters: &Meters, at_most: u64, what: &str) {
    let (rounds, begun) = (meters.idle_rounds.get(), Instant::now());
    thread::sleep(Duration::from_secs(1));
    let (rounds, seconds) = (meters.idle_rounds.get() - rounds, begun.elapsed().as_secs() + 1);
    assert!(rounds < at_most * seconds, "{rounds} rounds in {seconds} s {what}");
}

/// Sends one packet and waits until it has left at the other end.
fn send_one(devices: &mut [MemDevice; 2], traffic: &mut Traffic, sink: &mut Sink) {
    let [from, to] = devices;
    let (begun, come) = (Instant::now(), sink.tally().received + 1);
    assert_eq!(from.deliver(1, |room| traffic.write(room)), 1);
    while sink.tally().received < come {
        assert!(begun.elapsed() < PATIENCE, "the packet does not come out");
        to.collect(1, |data| super::check(sink, data));
        thread::yield_now();
    }
    // The wire confirms that it was sent.
    to.collect(1, |_| ());
}

#[test]
fn a_sleeping_worker_polls_a_few_times_a_second_and_wakes_for_a_packet() {
    let mut rig = rig(512, ip());
    rig.forwarder.set_idle(Idle::Sleep);
    let (mut traffic, mut sink) = (Traffic::new(1, 64).unwrap(), Sink::new(1, 64, Hop::Routed).unwrap());
    let rig = while_it_runs(rig, |devices, meters| {
        wait_until(|| meters.sleeps.get() > 0);
        check_rounds(meters, 100, "of silence");
        send_one(devices, &mut traffic, &mut sink);
    });
    assert_eq!((sink.tally().received, sink.tally().corrupt), (1, 0));
    rig.check();
}

#[test]
fn no_packet_of_many_that_each_find_the_worker_asleep_is_left_lying() {
    let mut rig = rig(512, ip());
    rig.forwarder.set_idle(Idle::Sleep);
    let (mut traffic, mut sink) = (Traffic::new(1, 64).unwrap(), Sink::new(1, 64, Hop::Routed).unwrap());
    let mut slept = 0;
    let rig = while_it_runs(rig, |devices, meters| {
        for _ in 0..100 {
            let sleeps = meters.sleeps.get();
            wait_until(|| meters.sleeps.get() > sleeps);
            send_one(devices, &mut traffic, &mut sink);
        }
        slept = meters.sleeps.get();
    });
    let tally = sink.tally();
    assert_eq!((tally.received, tally.corrupt, tally.reordered, tally.missing), (100, 0, 0, 0));
    assert!(slept >= 100);
    rig.check();
}

#[test]
fn a_spinning_worker_never_sleeps() {
    let rig = while_it_runs(rig(512, ip()), |_, meters| wait_until(|| meters.idle_rounds.get() > 1_000));
    assert_eq!(rig.forwarder.meters().sleeps.get(), 0);
}

#[test]
fn frames_that_come_home_to_a_dry_pool_are_found_in_sleep() {
    let mut rig = rig(64, ip());
    rig.forwarder.set_idle(Idle::Sleep);
    let mut held = netmem::pool::Batch::new();
    rig.pool.alloc_burst(&mut rig.w, &mut held, 64);
    assert_eq!(held.len(), 64);
    let (mut traffic, mut sink) = (Traffic::new(1, 64).unwrap(), Sink::new(1, 64, Hop::Routed).unwrap());
    let rig = while_it_runs(rig, |devices, meters| {
        wait_until(|| meters.sleeps.get() > 0);
        assert_eq!(devices[0].deliver(1, |_| 64), 0, "no frame is posted");
        drop(held);
        let begun = Instant::now();
        while devices[0].deliver(1, |room| traffic.write(room)) == 0 {
            assert!(begun.elapsed() < PATIENCE, "the fill ring stays empty");
            thread::yield_now();
        }
        while sink.tally().received < 1 {
            assert!(begun.elapsed() < PATIENCE, "the packet does not come out");
            devices[1].collect(1, |data| super::check(&mut sink, data));
        }
    });
    rig.check();
}

/// Seen: a port that reported packets which could not be received yet kept a sleeping worker's core busy.
#[test]
fn a_worker_sleeps_while_a_port_has_only_packets_that_it_cannot_receive_yet() {
    let mut rig = rig(512, ip());
    let (port, mut network) = wire("late", &MemConfig::default()).unwrap();
    let an_hour = Duration::from_secs(3600);
    let config = FaultConfig { delay: Chance::Every(1), delay_by: an_hour, ..FaultConfig::default() };
    let port = FaultPort::new(Box::new(port), rig.pool.clone(), config);
    let (other, _far) = wire("other", &MemConfig::default()).unwrap();
    let ports: Vec<Box<dyn Port>> = vec![Box::new(port), Box::new(other)];
    rig.forwarder = Forwarder::new(ports, rig.pool.clone(), ip()).unwrap();
    rig.forwarder.set_idle(Idle::Sleep);
    let mut traffic = Traffic::new(1, 64).unwrap();
    while_it_runs(rig, |_, meters| {
        while network.deliver(1, |room| traffic.write(room)) == 0 {
            thread::yield_now();
        }
        let sleeps = meters.sleeps.get();
        wait_until(|| meters.sleeps.get() > sleeps + 20);
        check_rounds(meters, 2_000, "without a packet to take");
    });
}

/// Seen: frames that waited for a slot of a port that did not send kept a sleeping worker's core busy.
#[test]
fn a_worker_sleeps_while_frames_wait_for_a_slot() {
    let mut rig = rig(512, ip());
    let config = MemConfig { ring: 64, ..MemConfig::default() };
    let ((a, mut from), (b, _to)) = (wire("0", &config).unwrap(), wire("1", &config).unwrap());
    rig.forwarder = Forwarder::new(vec![Box::new(a), Box::new(b)], rig.pool.clone(), ip()).unwrap();
    rig.forwarder.set_idle(Idle::Sleep);
    let mut traffic = Traffic::new(1, 64).unwrap();
    while_it_runs(rig, |_, meters| {
        wait_until(|| meters.sleeps.get() > 0);
        while meters.held.get() == 0 {
            from.deliver(1, |room| traffic.write(room));
        }
        let sleeps = meters.sleeps.get();
        wait_until(|| meters.sleeps.get() > sleeps + 20);
        check_rounds(meters, 2_000, "without a slot");
    });
}

/// Seen: the time of a rest counted as work of the packet after it, or threw its window away as if the machine had stopped.
#[test]
fn a_rest_is_no_part_of_the_time_of_the_packet_after_it() {
    let mut rig = rig(512, ip());
    rig.forwarder.set_idle(Idle::Sleep);
    let (mut traffic, mut sink) = (Traffic::new(1, 64).unwrap(), Sink::new(1, 64, Hop::Routed).unwrap());
    while_it_runs(rig, |devices, meters| {
        let begun = Instant::now();
        // A window has 256 packets. The machine may stop in one of them, but not in all.
        while meters.windows.quantiles().is_none() {
            assert!(begun.elapsed() < PATIENCE, "no window counts");
            let sleeps = meters.sleeps.get();
            wait_until(|| meters.sleeps.get() > sleeps);
            send_one(devices, &mut traffic, &mut sink);
        }
    });
}

#[test]
fn a_worker_that_rests_gives_back_the_free_pages_that_its_tuned_lists_do_not_need() {
    const LEAST: u64 = 16;
    let mut rig = rig(64, ip());
    rig.memory.set_lists(Lists::Tuned { least: LEAST as usize, most: 1 << 16 });
    let cached = |memory: &Memory| memory.stats().cached;
    // Misses let the list grow, so that all of these fit.
    let pages: Vec<_> = (0..100).map_while(|_| rig.memory.alloc(&mut rig.w, 0)).collect();
    pages.into_iter().for_each(|page| rig.memory.free(&mut rig.w, page));
    assert!(cached(&rig.memory) > 4 * LEAST);
    let memory = rig.memory.clone();
    let rig = while_it_runs(rig, |_, _| wait_until(|| cached(&memory) <= LEAST));
    rig.check();
}
