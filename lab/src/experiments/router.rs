//! The product's forwarder between two `mem` wires, and the far side of both: a generator that sends one UDP flow
//! from prebuilt frames, a sink that compares every byte of the output, and a retention for passed packets.

mod frames;
mod paced;
mod ready;

use std::sync::Arc;
use std::time::Duration;

use netmem::forward::local_queue::{LocalQueueCounters, Retention, RetentionLimit, local_queue};
use netmem::forward::{
    CrossConnect, Decide, DropAll, Forwarder, Free, LatencyQuantiles, PassAll, Reflect, Verdict,
};
use netmem::limits::BATCH_MAX;
use netmem::packet::{HeadCache, HeadCacheConfig, Locking, ReadyPackets, Reset};
use netmem::page::Memory;
use netmem::pool::{Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::steer::Source;
use netmem::sync::Worker;

use super::check_all_freed;
use super::relay::PACKET_BYTES;
use crate::bench::{Bench, SetUpError};
use crate::settings::Key;
use frames::{Bytes, FRAMES, frames};
pub(super) use paced::Pace;
use ready::Ready;
pub(super) use ready::packet_path;

/// Rounds after which a forwarder that still has packets in flight has lost them.
const SETTLE_ROUNDS: usize = 100_000;

/// A kept packet is freed when enough newer ones came, and never for its age.
const AGES: Duration = Duration::from_secs(3_600);

/// The length of the wires' rings: [`Setup::ring`].
pub(super) const RING: Key = Key {
    name: "ring",
    what: "places in each ring of the wires (rounded up to a power of two)",
    min: 256,
    max: 16_384,
    full: 1_024,
    quick: 1_024,
};

/// The number of packets in a window.
pub(super) const PACKETS: Key =
    Key { name: "packets", what: "packets per window", min: 64, max: 16_384, full: 768, quick: 768 };

/// The fate of the packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// They leave by the other port, forwarded as by an IPv4 router.
    Routed,
    /// They leave by the other port, unchanged.
    Redirected,
    /// They leave by the port on which they came in, with their MAC addresses swapped.
    Reflected,
    /// They leave by the other port, with their MAC addresses swapped.
    Crossed,
    /// They are dropped.
    Dropped,
    /// They go to a local queue, which frees them, on a worker of its own, when this many newer ones have come.
    Kept(usize),
}

/// The set-up of a router.
#[derive(Debug, Clone)]
pub(super) struct Setup {
    /// Slots in each ring of the wires.
    pub(super) ring: usize,
    pub(super) fate: Fate,
    pub(super) free: Free,
    /// The full path, or None if frames take the fast path.
    pub(super) packets: Option<PacketSetup>,
    /// Frames in the cache of the pool's owner, and the number to refill it to. None if every frame takes a lock.
    pub(super) cache: Option<(usize, usize)>,
    /// True if completions are checked in each round, and not when 256 frames are in flight.
    pub(super) by_round: bool,
}

/// The set-up of packets.
#[derive(Debug, Clone)]
pub(super) struct PacketSetup {
    pub(super) heads: HeadCacheConfig,
    /// Number of rules, none of which matches: [rizzo02-mbuf]'s slow forwarding. None for the fast one.
    pub(super) rules: Option<usize>,
    /// Pairs of head and frame that are kept ready, or None if heads and frames are freed separately.
    pub(super) pairs: Option<usize>,
    /// The lock of one common list of pairs, or None if each worker has its own list.
    pub(super) list: Option<(Locking, Reset)>,
}

impl Setup {
    /// Frames on the fast path, freed in bulk.
    pub(super) fn frames(ring: usize, fate: Fate) -> Setup {
        let PoolConfig { cache, refill, .. } = PoolConfig::default();
        Setup { ring, fate, free: Free::Bulk, packets: None, cache: Some((cache, refill)), by_round: false }
    }
}

/// The device under test.
pub(super) struct Router {
    forwarder: Forwarder,
    pool: Pool,
    heads: Option<HeadCache>,
    ready: Option<Ready>,
    /// Ready packets taken, and packets made, to fill the rings.
    at_first: [u64; 2],
}

/// Generator, sink and retention.
pub(super) struct FarSide {
    /// The devices of the ports. Packets go in by the first.
    devices: [MemDevice; 2],
    /// The device by which they come out.
    out: Option<usize>,
    socket: Option<Socket>,
    /// Each frame as it is sent, and as it must come out.
    frames: Vec<(Bytes, Bytes)>,
    sent: u64,
    received: u64,
    /// Frames that came out wrong or out of order.
    corrupt: u64,
}

/// The local queue's reader, on a worker of its own.
struct Socket {
    retention: Retention,
    worker: Worker,
    counters: Arc<LocalQueueCounters>,
}

impl Router {
    /// Makes a forwarder over two wires, with full rings.
    pub(super) fn new(
        memory: &Memory,
        worker: &mut Worker,
        setup: &Setup,
    ) -> Result<(Router, FarSide), SetUpError> {
        let &Setup { ring, fate, free, ref packets, cache, by_round } = setup;
        let kept = if let Fate::Kept(kept) = fate { kept } else { 0 };
        // More than all rings in use hold, so that the pool does not run dry.
        let name = format!("{fate:?} {free:?}");
        let (cache, refill) = cache.unwrap_or((0, 1));
        let config = PoolConfig { name, frames: 8 * ring + kept, cache, refill, ..PoolConfig::default() };
        let pool = Pool::new(memory, worker, &config).map_err(SetUpError::at("pool"))?;
        // The output ring holds twice as much as the input ring can deliver: a paused sink loses no packet.
        let link = |name, ring| MemPort::pair(name, &MemConfig { ring, ..MemConfig::default() });
        let (port_in, ingress) = link("0", ring).map_err(SetUpError::at("wire"))?;
        let (port_out, egress) = link("1", 2 * ring).map_err(SetUpError::at("wire"))?;
        let ports: Vec<Box<dyn Port>> = vec![Box::new(port_in), Box::new(port_out)];
        let mut forwarder =
            Forwarder::new(ports, pool.clone(), decision(fate)).map_err(SetUpError::at("forwarder"))?;
        forwarder.set_free(free);
        forwarder.measure_latency();
        if by_round {
            forwarder.set_reap(1);
        }
        let (mut heads, mut ready) = (None, None);
        if let Some(packets) = packets {
            let (path, of_path, of_ready) = packet_path(memory, &pool, packets)?;
            (heads, ready) = (Some(of_path), of_ready);
            forwarder.set_packet_path(path);
        }
        let socket = match fate {
            Fate::Kept(kept) => Some(socket(memory, &mut forwarder, 4 * ring, kept)?),
            _ => None,
        };
        // Fills the fill rings.
        forwarder.poll(worker);
        let at_first = ready.as_ref().map(Ready::counts).unwrap_or_default();
        let frames = frames(fate).map_err(SetUpError::at("traffic"))?;
        let (devices, out) = ([ingress, egress], out(fate));
        Ok((
            Router { forwarder, pool, heads, ready, at_first },
            FarSide { devices, out, socket, frames, sent: 0, received: 0, corrupt: 0 },
        ))
    }

    /// Runs one poll round. Returns the number of packets that were waiting. It is a separate function, so that its
    /// instructions can be counted.
    #[inline(never)]
    pub(super) fn poll(&mut self, worker: &mut Worker) -> usize {
        self.forwarder.poll(worker)
    }

    /// Returns the time from reception to completion, or None before the first sample.
    pub(super) fn latency(&self) -> Option<LatencyQuantiles> {
        self.forwarder.meters().latency.quantiles()
    }

    /// Returns the ready packets of each worker, if there are any.
    pub(super) fn pairs(&self) -> Option<&ReadyPackets> {
        self.ready.as_ref().and_then(Ready::by_worker)
    }

    /// Returns the share of packets, in percent, that were taken as ready ones instead of made since the rings were first
    /// filled; None if no packets are kept ready.
    pub(super) fn served(&self) -> Option<f64> {
        let counts = self.ready.as_ref()?.counts();
        let [taken, missed] = [0, 1].map(|of| (counts[of] - self.at_first[of]) as f64);
        Some(100.0 * taken / (taken + missed).max(1.0))
    }

    /// Lets everything in flight arrive, on this thread. Checks that nothing was lost, corrupted or leaked.
    pub(super) fn settle(
        mut self,
        mut far: FarSide,
        worker: &mut Worker,
        variant: &str,
        bench: &mut Bench<'_>,
    ) {
        for _ in 0..SETTLE_ROUNDS {
            let moved = self.poll(worker) + far.take_in();
            if moved == 0 && self.forwarder.ports().all(|port| port.tx_posted() == 0) {
                break;
            }
        }
        let meters = self.forwarder.meters();
        let (dropped, completed) = (meters.drops.total(), meters.completed.get());
        let passed = far.release();
        let FarSide { sent, received, corrupt, .. } = far;
        let ended = match far.out {
            Some(_) => [received, completed],
            None if far.socket.is_some() => [passed, meters.passed.get()],
            None => [dropped; 2],
        };
        bench.check(
            &format!("{variant}: every packet accounted for"),
            sent == meters.received.get() && ended == [sent; 2] && (dropped == 0 || far.drops()),
            format!(
                "{sent} sent, {dropped} dropped, {received} received, {completed} completed, {passed} kept"
            ),
        );
        bench.check(
            &format!("{variant}: contents intact"),
            corrupt == 0,
            format!("{corrupt} of {received} corrupt"),
        );
        drop((self.forwarder, self.heads, self.ready, far));
        check_all_freed(bench, variant, &self.pool);
    }
}

impl FarSide {
    /// Runs one turn: takes every output packet, then sends a batch.
    pub(super) fn turn(&mut self) {
        while self.take_in() == BATCH_MAX {}
        self.send(BATCH_MAX);
    }

    /// Sends at most `n` packets. Returns the number sent.
    fn send(&mut self, n: usize) -> usize {
        let Self { devices: [ingress, _], frames, sent, .. } = self;
        ingress.deliver(n, |room| {
            let (frame, _) = &frames[*sent as usize % FRAMES];
            *sent += 1;
            room.first_chunk_mut().map_or(0, |place: &mut Bytes| {
                *place = *frame;
                PACKET_BYTES
            })
        })
    }

    /// Takes the last packet off the second wire without counting it, if all that were sent have been forwarded.
    pub(super) fn lose_last(&mut self) {
        self.take_out((self.sent - self.received).saturating_sub(1) as usize);
        self.devices[1].collect(1, |_| ());
    }

    /// Takes at most a batch of output packets, and the passed packets. Returns the number of output packets.
    fn take_in(&mut self) -> usize {
        if let Some(Socket { retention, worker, .. }) = &mut self.socket {
            retention.turn(worker);
        }
        self.take_out(BATCH_MAX)
    }

    /// Takes at most `n` output packets, and compares each with what must leave in its place.
    fn take_out(&mut self, n: usize) -> usize {
        let Self { devices, out, frames, received, corrupt, .. } = self;
        let Some(device) = *out else { return 0 };
        devices[device].collect(n, |data| {
            let (_, wanted) = &frames[*received as usize % FRAMES];
            *received += 1;
            *corrupt += u64::from(data != wanted);
        })
    }

    /// Returns true if packets are to be dropped.
    fn drops(&self) -> bool {
        self.out.is_none() && self.socket.is_none()
    }

    /// Frees all kept packets after comparing them. Returns the number of packets that were ever passed.
    fn release(&mut self) -> u64 {
        let Some(Socket { retention, worker, counters }) = &mut self.socket else { return 0 };
        retention.turn(worker);
        let first = self.sent - retention.kept() as u64;
        for (number, data) in (first..).zip(retention.frames()) {
            self.received += 1;
            self.corrupt += u64::from(data != self.frames[number as usize % FRAMES].1);
        }
        retention.release(worker);
        counters.given.get()
    }
}

/// Rewrites frames as [`Reflect`] does, and sends them by the other port.
struct Cross;

impl Decide for Cross {
    fn takes_offloads(&self) -> bool {
        Reflect.takes_offloads()
    }

    #[inline]
    fn decide(&mut self, from: Source, frame: &mut [u8]) -> Verdict {
        match Reflect.decide(from, frame) {
            Verdict::Tx => Verdict::Redirect(from.port ^ 1),
            dropped => dropped,
        }
    }
}

fn decision(fate: Fate) -> Box<dyn Decide> {
    match fate {
        Fate::Routed => Box::new(netmem_router::Router::new(netmem_traffic::router().into())),
        Fate::Redirected => Box::new(CrossConnect),
        Fate::Reflected => Box::new(Reflect),
        Fate::Crossed => Box::new(Cross),
        Fate::Dropped => Box::new(DropAll),
        Fate::Kept(_) => Box::new(PassAll),
    }
}

/// Returns the device by which packets come out.
fn out(fate: Fate) -> Option<usize> {
    match fate {
        Fate::Routed | Fate::Redirected | Fate::Crossed => Some(1),
        Fate::Reflected => Some(0),
        Fate::Dropped | Fate::Kept(_) => None,
    }
}

/// Makes a local queue for the forwarder, and its reader.
fn socket(
    memory: &Memory,
    forwarder: &mut Forwarder,
    queue: usize,
    kept: usize,
) -> Result<Socket, SetUpError> {
    let (local_queue, reader) = local_queue(queue as u32);
    forwarder.set_local_queue(local_queue);
    let worker = memory.worker().map_err(SetUpError::at("the retention's worker"))?;
    let counters = reader.counters();
    Ok(Socket {
        retention: Retention::new(reader, Arc::new(RetentionLimit::new(kept, AGES))),
        worker,
        counters,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use crate::json::Report;
    use netmem::page::MemoryConfig;

    /// Forwards some packets, lets `corrupt` change the packets in flight, and settles.
    fn settled(fate: Fate, free: Free, corrupt: impl FnOnce(&mut FarSide)) -> Report {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        let setup = Setup { free, ..Setup::frames(256, fate) };
        settled_with(&memory, &mut worker, &setup, corrupt)
    }

    fn settled_with(
        memory: &Memory,
        worker: &mut Worker,
        setup: &Setup,
        corrupt: impl FnOnce(&mut FarSide),
    ) -> Report {
        let (mut router, mut far) = Router::new(memory, worker, setup).unwrap();
        for _ in 0..100 {
            far.turn();
            assert_eq!(router.poll(worker), BATCH_MAX);
        }
        corrupt(&mut far);
        report_of(false, |bench| router.settle(far, worker, "netmem", bench))
    }

    #[test]
    fn packets_of_every_kind_are_accounted_for_and_their_frames_are_freed() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        for rules in [None, Some(3)] {
            for pairs in [None, Some(0), Some(50)] {
                for cache in [None, Some((512, 256))] {
                    for list in
                        [None, Some((Locking::Caller, Reset::AtPut)), Some((Locking::Each, Reset::AtGet))]
                    {
                        let packets =
                            Some(PacketSetup { heads: HeadCacheConfig::default(), rules, pairs, list });
                        let setup = Setup { packets, cache, ..Setup::frames(256, Fate::Routed) };
                        let report = settled_with(&memory, &mut worker, &setup, |_| ());
                        assert!(report.ok() && report.checks.len() == 3, "{setup:?} {:?}", report.checks);
                    }
                }
            }
        }
    }

    /// Found in a review: 50 pairs, which serve a fifth of the packets here, were compared with the source's figures.
    #[test]
    fn fewer_pairs_than_are_completed_at_once_serve_a_part_of_the_packets() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        let mut served = |pairs, list| {
            let heads = HeadCacheConfig::default();
            let packets = Some(PacketSetup { heads, rules: None, pairs: Some(pairs), list });
            let setup = Setup { packets, ..Setup::frames(256, Fate::Routed) };
            let (mut router, mut far) = Router::new(&memory, &mut worker, &setup).unwrap();
            for _ in 0..200 {
                far.turn();
                router.poll(&mut worker);
            }
            let served = router.served().unwrap();
            assert!(report_of(false, |bench| router.settle(far, &mut worker, "netmem", bench)).ok());
            served
        };
        for list in [None, Some((Locking::Caller, Reset::AtGet))] {
            let [none, fifty, all] = [0, 50, 4 * BATCH_MAX].map(|pairs| served(pairs, list));
            assert!(none == 0.0 && (10.0..40.0).contains(&fifty) && all > 90.0, "{none} {fifty} {all}");
        }
    }

    #[test]
    fn every_packet_is_accounted_for_and_every_frame_is_freed() {
        let sent = [Fate::Routed, Fate::Redirected, Fate::Reflected, Fate::Crossed];
        for fate in sent.into_iter().chain([Fate::Dropped, Fate::Kept(0), Fate::Kept(300)]) {
            for free in [Free::Single, Free::Bulk] {
                let report = settled(fate, free, |_| ());
                assert!(report.ok() && report.checks.len() == 3, "{fate:?} {:?}", report.checks);
            }
        }
    }

    #[test]
    fn a_packet_lost_on_the_way_fails_its_check() {
        let report = settled(Fate::Routed, Free::Bulk, FarSide::lose_last);
        assert!(!report.checks[0].ok && report.checks[1].ok, "{:?}", report.checks);
    }

    #[test]
    fn a_packet_corrupted_on_the_way_fails_its_check() {
        for fate in [Fate::Reflected, Fate::Crossed, Fate::Kept(300)] {
            let report = settled(fate, Free::Bulk, |far| {
                far.frames.iter_mut().for_each(|(_, wanted)| wanted[60] ^= 1)
            });
            assert!(report.checks[0].ok && !report.checks[1].ok, "{fate:?} {:?}", report.checks);
        }
    }
}
