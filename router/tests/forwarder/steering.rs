//! Forwarders that share received packets, one round after the other on one thread.

use super::{Hop, Sink, Traffic, check, ip, traffic};
use netmem::forward::{CrossConnect, Decide, DropAll, Forwarder, Idle, Reason, Steering, SteeringControl};
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::pool::{Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::steer::{DEFAULT_KEY, MeshConfig, RecordedQueue};
use netmem::sync::Worker;
use netmem::wire::Ipv4;
use netmem_router::route::{Change, FibEntry, HopId, Path, fib};
use netmem_router::{Router, neighbour_queues};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// One worker with its ports.
struct One {
    w: Worker,
    pool: Pool,
    forwarder: Forwarder,
    devices: Vec<MemDevice>,
}

/// Workers that share packets by a policy, and a sink for the packets that they send.
struct Team {
    memory: Memory,
    workers: Vec<One>,
    control: SteeringControl,
    traffic: Traffic,
    sink: Sink,
}

const FLOWS: usize = 50;

/// Makes this many workers whose transmit rings have `ring` slots.
fn team(workers: usize, policy: &str, record: RecordedQueue, ring: usize) -> Team {
    team_of(&mesh(workers, policy, record), ring)
}

/// The settings of a mesh with the published key, so that each flow goes to the same worker in every run.
fn mesh(workers: usize, policy: &str, recorded_queue: RecordedQueue) -> MeshConfig {
    let policy = policy.parse().unwrap();
    MeshConfig { workers, policy, recorded_queue, key: DEFAULT_KEY, ..MeshConfig::default() }
}

fn team_of(mesh: &MeshConfig, ring: usize) -> Team {
    team_in(|_| ip(), mesh, ring)
}

fn team_in(decision: impl Fn(usize) -> Box<dyn Decide>, mesh: &MeshConfig, ring: usize) -> Team {
    team_with(2, decision, mesh, ring)
}

/// Makes workers of which each sends what port 0 receives by port 1, and what port 2 receives by port 3. The rings of
/// ports 1 and 3 have four slots.
fn crossed(policy: &str, record: RecordedQueue) -> Team {
    let mut team = team_with(4, |_| Box::new(CrossConnect), &mesh(2, policy, record), 4);
    team.sink = Sink::new(FLOWS, 64, Hop::Unchanged).unwrap();
    team
}

/// Makes workers with this number of ports. The rings of every second port have `ring` slots.
fn team_with(
    ports: usize,
    decision: impl Fn(usize) -> Box<dyn Decide>,
    mesh: &MeshConfig,
    ring: usize,
) -> Team {
    team_each_with(|_| ports, decision, mesh, ring)
}

/// As [`team_with`], with a number of ports for each worker.
fn team_each_with(
    ports: impl Fn(usize) -> usize,
    decision: impl Fn(usize) -> Box<dyn Decide>,
    mesh: &MeshConfig,
    ring: usize,
) -> Team {
    let backing = BackingPreference::Small;
    let config = MemoryConfig { bytes: 16 << 20, workers: mesh.workers, backing, ..MemoryConfig::default() };
    let memory = Memory::new(&config).unwrap();
    let (control, ends) = Steering::between(mesh).unwrap();
    let one = |end: Steering| {
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 2048, ..PoolConfig::default() }).unwrap();
        let wires = (0..ports(end.worker())).map(|port| {
            let is_first = port.is_multiple_of(2);
            let config = if is_first { MemConfig::default() } else { MemConfig { ring, coalesce: 1 } };
            let (port, device) = MemPort::pair(&port.to_string(), &config).unwrap();
            (Box::new(port) as Box<dyn Port>, device)
        });
        let (ports, devices) = wires.unzip();
        let mut forwarder = Forwarder::new(ports, pool.clone(), decision(end.worker())).unwrap();
        forwarder.set_steering(end);
        One { w, pool, forwarder, devices }
    };
    let workers = ends.into_iter().map(one).collect();
    let (traffic, sink) = (Traffic::new(FLOWS, 64).unwrap(), Sink::new(FLOWS, 64, Hop::Routed).unwrap());
    Team { memory, workers, control, traffic, sink }
}

impl One {
    fn poll(&mut self) {
        self.forwarder.poll(&mut self.w);
    }

    fn transmitted(&self) -> u64 {
        self.forwarder.meters().transmitted.get()
    }
}

impl Team {
    /// Fills the rings, so that a packet finds a frame.
    fn begin(&mut self) {
        self.workers.iter_mut().for_each(One::poll);
    }

    /// Delivers up to `n` packets to worker 0. Returns the number that found a frame.
    fn deliver(&mut self, n: usize) -> usize {
        self.workers[0].devices[0].deliver(n, |room| self.traffic.write(room))
    }

    /// Takes up to `n` sent packets of each worker and each second port.
    fn collect(&mut self, n: usize) {
        for port in (1..self.workers[0].devices.len()).step_by(2) {
            self.collect_of(port, n);
        }
    }

    /// Takes up to `n` packets of each worker that a port sent. Returns their number.
    fn collect_of(&mut self, port: usize, n: usize) -> usize {
        let Team { workers, sink, .. } = self;
        workers.iter_mut().map(|one| one.devices[port].collect(n, |data| check(sink, data))).sum()
    }

    /// Packets dropped because the ring of their port was full.
    fn dropped(&self) -> u64 {
        self.workers.iter().map(|one| one.forwarder.meters().drops.get(Reason::TxFull)).sum()
    }

    /// Polls all workers until nothing moves.
    fn settle(&mut self) {
        for _ in 0..64 {
            self.workers.iter_mut().for_each(One::poll);
            self.collect(64);
        }
        for one in &self.workers {
            let (meters, ledger) = (one.forwarder.meters(), one.pool.ledger());
            let gone =
                meters.transmitted.get() + meters.drops.total() + meters.passed.get() + meters.handed.get();
            let came = meters.received.get() + meters.taken.get() + meters.fragments.get();
            assert_eq!(came, gone + meters.held.get() + meters.fragmented.get());
            assert!(ledger.balanced() && ledger.queued == 0, "{ledger:?}");
        }
    }

    fn end(self) {
        let Team { memory, workers, .. } = self;
        let (rest, pools): (Vec<_>, Vec<_>) = workers
            .into_iter()
            .map(|One { w, pool, forwarder, devices }| ((w, forwarder, devices), pool))
            .unzip();
        let mut workers = Vec::new();
        for (w, forwarder, devices) in rest {
            drop((forwarder, devices));
            workers.push(w);
        }
        for pool in pools {
            let ledger = pool.ledger();
            assert!(ledger.all_freed() && ledger.queued == 0 && ledger.owned == 0, "{ledger:?}");
        }
        drop(workers);
        assert_eq!(memory.stats().free, memory.stats().total);
    }
}

#[test]
fn packets_leave_by_the_queue_of_the_first_worker_or_of_the_second() {
    for (record, from_first) in [(RecordedQueue::Received, true), (RecordedQueue::Worker, false)] {
        let mut team = team(3, "hash=1,2", record, 512);
        team.begin();
        for _ in 0..100 {
            assert_eq!(team.deliver(50), 50);
            team.settle();
        }
        let tally = team.sink.tally();
        assert_eq!((tally.received, tally.corrupt, tally.reordered, tally.missing), (5_000, 0, 0, 0));
        let transmitted: Vec<u64> = team.workers.iter().map(One::transmitted).collect();
        assert_eq!(transmitted[0] == 5_000, from_first, "{transmitted:?}");
        assert_eq!(transmitted[1] > 0 && transmitted[2] > 0, !from_first, "{transmitted:?}");
        team.end();
    }
}

/// The fragments of a whole burst are more than may wait for a port at once. They leave by the queue of the worker
/// that is to transmit them.
#[test]
fn fragments_leave_in_order_by_the_queue_that_their_packets_would() {
    for (record, transmitter) in [(RecordedQueue::Received, 0), (RecordedQueue::Worker, 1)] {
        let mut fib = traffic::router();
        fib.interfaces[1].mtu = 100;
        let mesh = MeshConfig {
            workers: 2,
            policy: "hash=1".parse().unwrap(),
            recorded_queue: record,
            key: DEFAULT_KEY,
            ..MeshConfig::default()
        };
        let mut team = team_in(|_| Box::new(Router::new(fib.clone().into())), &mesh, 512);
        team.traffic = Traffic::new(FLOWS, 300).unwrap();
        team.begin();
        for first in (0..600).step_by(60) {
            let (traffic, mut id) = (&mut team.traffic, first);
            team.workers[0].devices[0].deliver(60, |room| {
                let len = traffic.write(room);
                room[18..20].copy_from_slice(&u16::to_be_bytes(id));
                room[20] = 0;
                Ipv4::seal(&mut room[14..]);
                id += 1;
                len
            });
            let mut left = Vec::new();
            for _ in 0..16 {
                team.workers.iter_mut().for_each(One::poll);
                team.workers[transmitter].devices[1].collect(512, |data| {
                    let (header, _) = Ipv4::parse(&data[14..]).unwrap();
                    left.push((header.id(), header.fragment_offset()));
                });
            }
            let wanted = (first..first + 60).flat_map(|id| [0, 10, 20, 30].map(|offset| (id, offset)));
            assert_eq!(left, wanted.collect::<Vec<_>>());
        }
        team.settle();
        assert_eq!(team.sink.tally().received, 0, "nothing left by another queue");
        team.end();
    }
}

/// Found in a review: the worker panicked.
#[test]
fn frames_for_a_port_that_the_transmitting_worker_lacks_are_dropped() {
    let mesh = mesh(2, "hash=1", RecordedQueue::Received);
    let decision =
        |worker| -> Box<dyn Decide> { if worker == 1 { Box::new(CrossConnect) } else { Box::new(DropAll) } };
    let mut team = team_each_with(|worker| 1 + worker, decision, &mesh, 64);
    team.begin();
    assert_eq!(team.deliver(50), 50);
    (0..64).for_each(|_| team.workers.iter_mut().for_each(One::poll));
    assert_eq!(team.workers[0].forwarder.meters().drops.get(Reason::NoRoute), 50);
    team.end();
}

#[test]
fn a_full_transmit_ring_delays_frames_and_loses_and_reorders_none() {
    for record in [RecordedQueue::Received, RecordedQueue::Worker] {
        let mut team = team(2, "hash", record, 4);
        team.begin();
        let mut sent = 0;
        for round in 0..4_000 {
            if sent < 2_000 {
                sent += team.deliver(17.min(2_000 - sent));
            }
            team.workers[round % 2].poll();
            // The other side is slow: three packets a round.
            team.collect(3);
        }
        team.settle();
        let tally = team.sink.tally();
        assert_eq!((tally.received as usize, tally.corrupt, tally.reordered), (sent, 0, 0));
        assert_eq!((sent, team.control.drops().total()), (2_000, 0));
        team.end();
    }
}

/// Seen: frames for a port whose other side stood still waited without end. No port received any more, and other
/// workers waited for the frames that they had handed over.
#[test]
fn a_port_whose_peer_stopped_loses_its_frames_and_delays_no_other_port() {
    for record in [RecordedQueue::Received, RecordedQueue::Worker] {
        let mut team = crossed("hash", record);
        team.traffic = Traffic::of(0..25, 64).unwrap();
        let mut other = Traffic::of(25..FLOWS, 64).unwrap();
        team.begin();
        assert_eq!(team.deliver(100), 100);
        assert_eq!(team.workers[0].devices[2].deliver(50, |room| other.write(room)), 50);
        let (begun, mut left) = (Instant::now(), 0);
        while left < 50 || team.dropped() == 0 {
            assert!(begun.elapsed() < super::idling::PATIENCE, "{left} left, {} dropped", team.dropped());
            team.workers.iter_mut().for_each(One::poll);
            left += team.collect_of(3, 64);
        }
        team.settle();
        assert_eq!((team.sink.tally().corrupt, team.sink.tally().reordered), (0, 0));
        // The port moves again. Frames wait for it again, as long as it moves.
        let (dropped, received) = (team.dropped(), team.sink.tally().received);
        assert_eq!(team.deliver(100), 100);
        for _ in 0..200 {
            team.workers.iter_mut().for_each(One::poll);
            team.collect(1);
        }
        team.settle();
        assert_eq!((team.dropped(), team.sink.tally().received), (dropped, received + 100));
        assert_eq!(team.control.drops().total(), 0);
        team.end();
    }
}

/// Seen: every round began with port 0, whose frames for a slow port ended it. No later port had a turn, nor had the
/// frames that other workers received.
#[test]
fn a_port_with_many_frames_for_a_slow_port_does_not_starve_other_ports_and_workers() {
    let mut team = crossed("hash=0", RecordedQueue::Received);
    let mut other = Traffic::new(20, 64).unwrap();
    team.begin();
    let mut left = 0;
    for round in 0..1_000 {
        team.deliver(64);
        if round == 10 {
            for one in &mut team.workers {
                assert_eq!(one.devices[2].deliver(10, |room| other.write(room)), 10);
            }
        }
        team.workers.iter_mut().for_each(One::poll);
        team.collect_of(1, 1);
        left += team.collect_of(3, 64);
    }
    assert_eq!((left, team.dropped()), (20, 0));
    // What port 0 still has leaves by four packets a round.
    (0..4).for_each(|_| team.settle());
    team.end();
}

/// Seen: frames whose neighbour had answered took other frames along to the worker that was to transmit them. Those
/// others waited for this worker's own full ring.
#[test]
fn frames_that_waited_for_a_neighbour_do_not_take_others_along_to_another_worker() {
    let (mut control, reader) = fib(traffic::router());
    let via = Path { port: Some(1), via: Some([10, 9, 9, 9].into()), weight: 1, mtu: None };
    let silent = "10.1.0.0/27".parse().unwrap();
    let hop = HopId(7);
    control.apply(vec![Change::Paths(hop, [via].into()), Change::Route(silent, hop)]);
    let mesh = mesh(2, "hash=1", RecordedQueue::Received);
    let router = |worker| -> Box<dyn Decide> {
        let router = Router::new(reader.clone());
        Box::new(if worker == 1 { router.with_neighbour_queues(neighbour_queues(512).0) } else { router })
    };
    let mut team = team_in(router, &mesh, 4);
    team.begin();
    let (mut other, mut own) = (Traffic::of(0..31, 64).unwrap(), Traffic::of(31..FLOWS, 64).unwrap());
    assert_eq!(team.workers[0].devices[0].deliver(10, |room| other.write(room)), 10);
    (0..8).for_each(|_| team.workers.iter_mut().for_each(One::poll));
    assert_eq!(team.workers[1].devices[0].deliver(20, |room| own.write(room)), 20);
    (0..8).for_each(|_| team.workers.iter_mut().for_each(One::poll));
    let meters = team.workers[1].forwarder.meters();
    assert_eq!((meters.transmitted.get(), meters.held.get()), (4, 16 + 10));
    control.apply(vec![Change::Hop(hop, FibEntry::station(1, traffic::HOSTS[1]))]);
    (0..8).for_each(|_| team.workers.iter_mut().for_each(One::poll));
    assert_eq!((meters.handed.get(), meters.held.get()), (0, 16 + 10), "the ring is full");
    team.settle();
    assert_eq!(team.workers.iter().map(One::transmitted).collect::<Vec<_>>(), [10, 20]);
    let tally = team.sink.tally();
    assert_eq!((tally.received, tally.corrupt, tally.reordered), (30, 0, 0));
    team.end();
}

#[test]
fn a_worker_that_retires_leaves_its_waiting_frames_to_its_successor_in_order() {
    for record in [RecordedQueue::Received, RecordedQueue::Worker] {
        let mut team = team(3, "hash=1,2", record, 512);
        team.begin();
        for (retiring, delivered) in [(2, 200), (1, 400)] {
            team.deliver(200);
            // Worker 0 hands frames over, and no worker has taken them yet.
            (0..4).for_each(|_| team.workers[0].poll());
            let One { forwarder, w, .. } = &mut team.workers[retiring];
            forwarder.retire(w, 0);
            // From now on the retiring worker does its own rounds.
            team.settle();
            assert_eq!(team.sink.tally().received, delivered);
        }
        let tally = team.sink.tally();
        assert_eq!((tally.corrupt, tally.reordered, tally.missing), (0, 0, 0));
        assert_eq!(team.control.drops().total(), 0);
        team.end();
    }
}

#[test]
fn frames_in_an_inbox_that_no_worker_reads_any_more_are_freed_and_counted() {
    let mut team = team(2, "hash=1", RecordedQueue::Received, 512);
    team.begin();
    team.deliver(100);
    (0..4).for_each(|_| team.workers[0].poll());
    let One { forwarder, w, .. } = &mut team.workers[0];
    forwarder.retire(w, 0);
    let One { forwarder, w, .. } = &mut team.workers[1];
    forwarder.retire(w, 0);
    assert_eq!(team.control.drops().inbox_gone, 100);
    assert_eq!(team.sink.tally().received, 0);
    team.end();
}

#[test]
fn a_drained_forwarder_has_sent_the_frames_on_its_lists() {
    let policy = "hash=1".parse().unwrap();
    let linger = Duration::from_secs(86_400);
    let mut team = team_of(
        &MeshConfig { workers: 2, policy, linger, batch: 64, key: DEFAULT_KEY, ..MeshConfig::default() },
        512,
    );
    team.begin();
    assert_eq!(team.deliver(20), 20);
    team.settle();
    assert_eq!(team.sink.tally().received, 0, "the list waits for more");
    let One { forwarder, w, .. } = &mut team.workers[0];
    forwarder.drain(w, 4, |_| false);
    team.settle();
    assert_eq!(team.sink.tally().received, 20);
    team.end();
}

/// Seen: while there was other work to do, no lingering packet was sent.
#[test]
fn a_forwarder_that_is_busy_to_the_end_of_its_drain_has_sent_the_frames_on_its_lists_too() {
    let policy = "hash=1".parse().unwrap();
    let linger = Duration::from_secs(86_400);
    let mut team = team_of(
        &MeshConfig { workers: 2, policy, linger, batch: 64, key: DEFAULT_KEY, ..MeshConfig::default() },
        512,
    );
    team.begin();
    let (rounds, traffic) = (std::cell::Cell::new(0), std::cell::RefCell::new(&mut team.traffic));
    let One { forwarder, w, devices, .. } = &mut team.workers[0];
    let devices = std::cell::RefCell::new(devices);
    forwarder.drain(w, 4, |_| {
        rounds.set(rounds.get() + 1);
        if rounds.get() <= 3 {
            let write = |room: &mut [u8]| traffic.borrow_mut().write(room);
            assert_eq!(devices.borrow_mut()[0].deliver(1, write), 1);
        }
        rounds.get() > 3
    });
    team.settle();
    assert_eq!(team.sink.tally().received, 3);
    team.end();
}

#[test]
fn a_sleeping_worker_wakes_for_frames_that_another_worker_hands_off() {
    for record in [RecordedQueue::Received, RecordedQueue::Worker] {
        let mut team = team(2, "map=rx0:1", record, 512);
        team.begin();
        let stop = AtomicBool::new(false);
        let Team { workers, traffic, sink, .. } = &mut team;
        let [zero, one] = &mut workers[..] else { panic!("two workers") };
        let meters = one.forwarder.meters();
        one.forwarder.set_idle(Idle::Sleep);
        zero.forwarder.set_idle(Idle::Sleep);
        thread::scope(|scope| {
            let running = [
                scope.spawn(|| zero.forwarder.run(&mut zero.w, &stop)),
                scope.spawn(|| one.forwarder.run(&mut one.w, &stop)),
            ];
            for number in 1..=50 {
                let sleeps = meters.sleeps.get();
                super::idling::wait_until(|| meters.sleeps.get() > sleeps);
                assert_eq!(zero.devices[0].deliver(1, |room| traffic.write(room)), 1);
                let begun = Instant::now();
                while sink.tally().received < number {
                    assert!(begun.elapsed() < super::idling::PATIENCE, "packet {number} does not come out");
                    for device in [&mut zero.devices[1], &mut one.devices[1]] {
                        device.collect(1, |data| check(sink, data));
                    }
                    thread::yield_now();
                }
            }
            stop.store(true, Relaxed);
            running.into_iter().for_each(|worker| worker.join().unwrap());
        });
        team.settle();
        assert_eq!((team.sink.tally().corrupt, team.sink.tally().reordered), (0, 0));
        team.end();
    }
}

#[test]
fn a_worker_whose_decision_drops_frames_frees_those_of_other_workers_to_their_pools() {
    let mesh = mesh(2, "map=rx0:1", RecordedQueue::Received);
    let mut team = team_in(|worker| if worker == 1 { Box::new(DropAll) } else { ip() }, &mesh, 512);
    team.begin();
    team.deliver(300);
    team.settle();
    assert_eq!(team.workers[1].forwarder.meters().drops.total(), 300);
    team.end();
}
