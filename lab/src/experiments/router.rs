//! The product's forwarder between two `mem` wires, and the far side of both: a generator that sends one UDP flow
//! from prebuilt frames, and a sink that compares every byte of what comes out.

use netmem::forward::traffic::{self, Hop, INTERFACES, Outcome, Sink, Traffic};
use netmem::forward::{Forwarder, Free, Mode};
use netmem::limits::BATCH_MAX;
use netmem::page::Memory;
use netmem::pool::{Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, wire};
use netmem::sync::Worker;

use super::check_home;
use super::relay::PACKET_BYTES;
use crate::bench::{Bench, SetUpError};

/// Different frames, sent in turn.
const FRAMES: usize = 256;

/// Rounds after which a forwarder that still has packets in flight has lost them.
const SETTLE_ROUNDS: usize = 100_000;

type Bytes = [u8; PACKET_BYTES];

/// The device under test.
pub(super) struct Router {
    forwarder: Forwarder,
    pool: Pool,
}

/// Generator and sink.
pub(super) struct FarSide {
    ingress: MemDevice,
    egress: MemDevice,
    /// Each frame as it is sent, and as it must come out.
    frames: Vec<(Bytes, Bytes)>,
    sent: u64,
    received: u64,
    /// Frames that came out other than they must, or out of turn.
    corrupt: u64,
}

impl Router {
    /// A forwarder in `ip` mode that frees in the way of `free`, over wires with `ring` places a ring.
    pub(super) fn new(
        memory: &Memory,
        worker: &mut Worker,
        ring: usize,
        free: Free,
    ) -> Result<(Router, FarSide), SetUpError> {
        // More than all rings hold that ever fill, so that the pool does not run dry.
        let config = PoolConfig { name: format!("{free:?}"), frames: 8 * ring, ..PoolConfig::default() };
        let pool = Pool::new(memory, worker, &config).map_err(SetUpError::at("pool"))?;
        // The way out holds twice what the way in can deliver: a sink that is paused costs no packet.
        let wire = |name, ring| wire(name, &MemConfig { ring, ..MemConfig::default() });
        let (port_in, ingress) = wire("0", ring).map_err(SetUpError::at("wire"))?;
        let (port_out, egress) = wire("1", 2 * ring).map_err(SetUpError::at("wire"))?;
        let mode =
            Mode::Ip { table: traffic::routes().into_iter().collect(), interfaces: INTERFACES.to_vec() };
        let ports: Vec<Box<dyn Port>> = vec![Box::new(port_in), Box::new(port_out)];
        let mut forwarder = Forwarder::new(ports, pool.clone(), mode).map_err(SetUpError::at("forwarder"))?;
        forwarder.set_free(free);
        // Fills the fill rings.
        forwarder.poll(worker);
        let frames = frames().map_err(SetUpError::at("traffic"))?;
        Ok((
            Router { forwarder, pool },
            FarSide { ingress, egress, frames, sent: 0, received: 0, corrupt: 0 },
        ))
    }

    /// One poll round; returns how many packets were waiting.
    #[inline]
    pub(super) fn poll(&mut self, worker: &mut Worker) -> usize {
        self.forwarder.poll(worker)
    }

    /// Lets everything in flight arrive, on this thread, and checks that nothing was lost, spoilt or leaked.
    pub(super) fn settle(
        mut self,
        mut far: FarSide,
        worker: &mut Worker,
        variant: &str,
        bench: &mut Bench<'_>,
    ) {
        for _ in 0..SETTLE_ROUNDS {
            let moved = self.poll(worker) + far.sink();
            if moved == 0 && self.forwarder.ports().all(|port| port.in_flight() == 0) {
                break;
            }
        }
        let meters = self.forwarder.meters();
        let (dropped, completed) = (meters.drops.total(), meters.completed.get());
        let FarSide { sent, received, corrupt, .. } = far;
        bench.check(
            &format!("{variant}: every packet accounted for"),
            dropped == 0 && sent == meters.received.get() && sent == received && sent == completed,
            format!("{sent} sent, {dropped} dropped, {received} received, {completed} completed"),
        );
        bench.check(
            &format!("{variant}: contents intact"),
            corrupt == 0,
            format!("{corrupt} of {received} corrupt"),
        );
        drop((self.forwarder, far));
        check_home(bench, variant, &self.pool);
    }
}

impl FarSide {
    /// One turn: all that came out is taken in, then a batch is sent.
    pub(super) fn turn(&mut self) {
        while self.sink() == BATCH_MAX {}
        let Self { ingress, frames, sent, .. } = self;
        ingress.deliver(BATCH_MAX, |room| {
            let (frame, _) = &frames[*sent as usize % FRAMES];
            *sent += 1;
            room.first_chunk_mut().map_or(0, |place: &mut Bytes| {
                *place = *frame;
                PACKET_BYTES
            })
        });
    }

    /// Takes at most a batch of what came out; returns how many.
    fn sink(&mut self) -> usize {
        let Self { egress, frames, received, corrupt, .. } = self;
        egress.collect(BATCH_MAX, |data| {
            let (_, wanted) = &frames[*received as usize % FRAMES];
            *received += 1;
            *corrupt += u64::from(data != wanted);
        })
    }
}

/// The frames of the product's generator, each beside what a router must make of it: the product's sink says so.
fn frames() -> Result<Vec<(Bytes, Bytes)>, String> {
    let said = |error: traffic::TrafficError| error.to_string();
    let mut traffic = Traffic::new(1, PACKET_BYTES).map_err(said)?;
    let mut sink = Sink::new(1, PACKET_BYTES, Hop::Routed).map_err(said)?;
    let table = traffic::routes().into_iter().collect();
    let mut pair = || {
        let mut sent = [0; PACKET_BYTES];
        traffic.write(&mut sent);
        let mut routed = sent;
        netmem::forward::ip::forward_ipv4(&mut routed, &INTERFACES[0], &table, &INTERFACES);
        match sink.verify(&routed) {
            Outcome::Good { .. } => Ok((sent, routed)),
            Outcome::Corrupt(fault) => Err(format!("the sink refuses a prebuilt frame: {}", fault.name())),
        }
    };
    (0..FRAMES).map(|_| pair()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use crate::json::Report;
    use netmem::page::MemoryConfig;

    /// Forwards some packets, lets `spoil` do what it wants to what is in flight, and settles.
    fn settled(free: Free, spoil: impl FnOnce(&mut FarSide)) -> Report {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut worker = memory.worker().unwrap();
        let (mut router, mut far) = Router::new(&memory, &mut worker, 256, free).unwrap();
        for _ in 0..100 {
            far.turn();
            assert_eq!(router.poll(&mut worker), BATCH_MAX);
        }
        spoil(&mut far);
        report_of(false, |bench| router.settle(far, &mut worker, "netmem", bench))
    }

    #[test]
    fn every_packet_is_accounted_for_and_every_frame_goes_home() {
        for free in [Free::Single, Free::Bulk] {
            let report = settled(free, |_| ());
            assert!(report.ok() && report.checks.len() == 3, "{:?}", report.checks);
        }
    }

    #[test]
    fn a_packet_lost_on_the_way_fails_its_check() {
        let report = settled(Free::Bulk, |far| {
            far.egress.collect(1, |_| ());
        });
        assert!(!report.checks[0].ok, "{:?}", report.checks);
    }

    #[test]
    fn a_packet_spoilt_on_the_way_fails_its_check() {
        let report = settled(Free::Bulk, |far| {
            let next = far.received as usize % FRAMES;
            far.frames[next].1[60] ^= 1;
        });
        assert!(report.checks[0].ok && !report.checks[1].ok, "{:?}", report.checks);
    }
}
