//! A worker without work.

use super::{Hop, Rig, Sink, Traffic, ip, rig};
use netmem::forward::{Forwarder, Idle, Meters};
use netmem::page::{Lists, Memory};
use netmem::pool::Batch;
use netmem::port::fault::{Chance, FaultConfig, FaultPort};
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::port::wrap::WrapPort;
use netmem::port::{Port, PortCounters};
use netmem::stats::Writer;
use netmem::sync::Worker;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
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
    let (begun, rounds) = (Instant::now(), meters.idle_rounds.get());
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
fn each_packet_that_finds_the_worker_asleep_is_forwarded() {
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
fn frames_that_are_freed_to_an_empty_pool_are_found_by_a_sleeping_worker() {
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
    let (port, mut network) = MemPort::pair("late", &MemConfig::default()).unwrap();
    let an_hour = Duration::from_secs(3600);
    let config = FaultConfig { delay: Chance::Every(1), delay_by: an_hour, ..FaultConfig::default() };
    let port = FaultPort::new(Box::new(port), rig.pool.clone(), config);
    let (other, _far) = MemPort::pair("other", &MemConfig::default()).unwrap();
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

/// A port that may report packets, of which it gives none.
struct Starved {
    within: MemPort,
    /// Keeps the port up.
    _far: MemDevice,
    is_ready: bool,
    /// Each call leaves a packet to the kernel.
    discards: bool,
    counters: Writer<PortCounters>,
    /// How often a worker asked for its descriptor.
    asked: Arc<AtomicU64>,
}

impl Starved {
    fn new(is_ready: bool, discards: bool) -> Starved {
        let (within, _far) = MemPort::pair("starved", &MemConfig::default()).unwrap();
        Starved { within, _far, is_ready, discards, counters: Writer::default(), asked: Arc::default() }
    }
}

impl WrapPort for Starved {
    fn within(&self) -> &dyn Port {
        &self.within
    }

    fn within_mut(&mut self) -> &mut dyn Port {
        &mut self.within
    }

    fn rx(&mut self, _: &mut Worker, _: &mut Batch) -> usize {
        self.counters.add(|counters| &counters.rx_kernel, self.discards.into());
        0
    }

    fn arm(&mut self) -> bool {
        self.within_mut().arm() || self.is_ready
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.asked.fetch_add(1, Relaxed);
        self.within().wakeup_fd()
    }

    fn name(&self) -> &str {
        "starved"
    }

    fn kind(&self) -> &'static str {
        "starved"
    }

    fn counters(&self) -> Arc<PortCounters> {
        self.counters.reader()
    }

    /// It cannot tell.
    fn rx_pending(&mut self) -> Option<usize> {
        None
    }
}

/// Found: a packet at any port waited for up to a millisecond while another port had packets that it did not give.
#[test]
fn the_other_ports_wake_a_worker_that_sleeps_beside_packets_that_it_cannot_receive() {
    let mut rig = rig(512, ip());
    let (ready, quiet) = (Starved::new(true, false), Starved::new(false, false));
    let (of_ready, of_quiet) = (ready.asked.clone(), quiet.asked.clone());
    rig.forwarder = Forwarder::new(vec![Box::new(ready), Box::new(quiet)], rig.pool.clone(), ip()).unwrap();
    rig.forwarder.set_idle(Idle::Sleep);
    while_it_runs(rig, |_, meters| {
        wait_until(|| meters.sleeps.get() > 20);
        let asked = of_quiet.load(Relaxed);
        wait_until(|| of_quiet.load(Relaxed) > asked);
    });
    assert_eq!(of_ready.load(Relaxed), 0, "its descriptor would end each sleep at once");
}

/// Found: a worker slept after each burst of control traffic that was left to the kernel, and packets behind it were lost.
#[test]
fn a_worker_does_not_sleep_while_a_port_takes_packets_that_it_leaves_to_the_kernel() {
    let mut rig = rig(512, ip());
    let ports: Vec<Box<dyn Port>> =
        vec![Box::new(Starved::new(true, true)), Box::new(Starved::new(false, false))];
    rig.forwarder = Forwarder::new(ports, rig.pool.clone(), ip()).unwrap();
    rig.forwarder.set_idle(Idle::Sleep);
    let rig = while_it_runs(rig, |_, meters| wait_until(|| meters.idle_rounds.get() > 1_000));
    assert_eq!(rig.forwarder.meters().sleeps.get(), 0);
}

/// Seen: frames that waited for a slot of a port that did not send kept a sleeping worker's core busy.
#[test]
fn a_worker_sleeps_while_frames_wait_for_a_slot() {
    let mut rig = rig(512, ip());
    let config = MemConfig { ring: 64, ..MemConfig::default() };
    let ((a, mut from), (b, _to)) =
        (MemPort::pair("0", &config).unwrap(), MemPort::pair("1", &config).unwrap());
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
fn the_time_of_a_sleep_is_not_part_of_the_next_packets_time() {
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
fn a_sleeping_worker_gives_back_the_free_pages_that_its_tuned_lists_do_not_need() {
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
