//! Sets up workers that share packets: their memory, ports and lanes.

use std::sync::Arc;

use netmem::forward::{Decide, Forwarder, PacketPath, Steering};
use netmem::limits::BATCH_MAX;
use netmem::packet::HeadCacheConfig;
use netmem::page::Memory;
use netmem::pool::{Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::steer::{DEFAULT_KEY, InboxStats, Mesh, MeshConfig, Toeplitz};
use netmem_router::{Fib, Route, Router};
use netmem_traffic::INTERFACES;

use super::contents::{filled_pool, packets};
use super::core::{Core, Intake, consumer_of};
use super::forwarder::{Generator, Incoming, Lines, Routing};
use super::plan::{By, FEW, Plan, Way};
use super::reading::Reading;
use super::turn::{Arriving, FLOWS, Fewer, Left, Turn};
use crate::bench::SetUpError;
use crate::experiments::router::{PacketSetup, packet_path};

/// Slots in the rings by which packets leave.
const RING_OUT: usize = 4096;

/// Number of filter rules that packets with heads are matched with.
const RULES: usize = 16;

/// The shared parts of workers that hand packets to each other.
pub(super) struct Shared {
    pub(super) left: Arc<Left>,
    pub(super) pools: Vec<Pool>,
    /// Returns the statistics of packets between them.
    pub(super) stats: Box<dyn Fn() -> Vec<InboxStats>>,
}

/// A forwarder's.
type Ports = Vec<Box<dyn Port>>;

/// The workers. The first receives.
pub(super) type Workers = Vec<Box<dyn Turn>>;

/// Makes one worker, or two with lanes between them. Packets that leave are counted in `left`. `fewer` limits what comes
/// in.
pub(super) fn workers(
    plan: &Plan,
    memory: &Memory,
    left: Arc<Left>,
    fewer: Option<Fewer>,
) -> Result<(Shared, Workers), SetUpError> {
    match plan.by {
        By::Loop => loops(plan, memory, left),
        By::Frames | By::Packets => forwarders(plan, memory, left, fewer),
    }
}

fn loops(plan: &Plan, memory: &Memory, left: Arc<Left>) -> Result<(Shared, Workers), SetUpError> {
    let (mesh, ends) = Mesh::new(&mesh_config(plan)?).map_err(SetUpError::at("mesh"))?;
    let (mut pools, mut workers) = (Vec::new(), Workers::new());
    for (outbox, inbox) in ends {
        let mut w = memory.worker().map_err(SetUpError::at("worker"))?;
        let mut intake = None;
        if pools.is_empty() {
            let pool = filled_pool(plan, memory, &mut w)?;
            intake = Some(loop_intake(plan, &pool)?);
            pools.push(pool);
        }
        let (out, sums, record, left) =
            (wire_of("out", RING_OUT)?, plan.sums, plan.record, Arc::clone(&left));
        let consumed = plan.consumed;
        workers.push(Box::new(Core { w, outbox, inbox, intake, out, sums, record, consumed, left }));
    }
    if plan.consumed {
        for (flow, packet) in packets()?.iter().enumerate() {
            let consumers = mesh.consumers();
            consumers.set(consumers.flow(packet, 0), consumer_of(flow));
        }
    }
    Ok((Shared { left, pools, stats: Box::new(move || mesh.stats()) }, workers))
}

fn forwarders(
    plan: &Plan,
    memory: &Memory,
    left: Arc<Left>,
    mut fewer: Option<Fewer>,
) -> Result<(Shared, Workers), SetUpError> {
    let (stats, ends): (Box<dyn Fn() -> Vec<InboxStats>>, _) = if let Way::Handed(_) = plan.way {
        let (control, ends) = Steering::between(&mesh_config(plan)?).map_err(SetUpError::at("steering"))?;
        (Box::new(move || control.stats()), ends.into_iter().map(Some).collect())
    } else {
        (Box::new(Vec::new), vec![None])
    };
    let fib = fib(plan.ports);
    let lines = Arc::new(Lines::new(&fib, plan.bytes)?);
    let (mut pools, mut workers) = (Vec::new(), Workers::new());
    for (number, steering) in ends.into_iter().enumerate() {
        let mut w = memory.worker().map_err(SetUpError::at("worker"))?;
        let (frames, ring) =
            if number == 0 { (plan.frames(), plan.ring_of_port()) } else { (plan.few_frames(), FEW) };
        let config =
            PoolConfig { name: format!("{}/{number}", plan.variant), frames, ..PoolConfig::default() };
        let pool = Pool::new(memory, &mut w, &config).map_err(SetUpError::at("pool"))?;
        let (ports, devices, out) = ports(plan.ports, ring)?;
        let router = Router::new(fib.clone().into());
        let decision: Box<dyn Decide> = if plan.reads { Box::new(Reading(router)) } else { Box::new(router) };
        let mut forwarder =
            Forwarder::new(ports, pool.clone(), decision).map_err(SetUpError::at("forwarder"))?;
        if plan.by == By::Packets {
            forwarder.set_packet_path(heads_and_rules(memory, &pool)?);
        }
        steering.into_iter().for_each(|end| forwarder.set_steering(end));
        // Fills the fill rings.
        forwarder.poll(&mut w);
        let arriving = Arriving::new(under_way(plan), fewer.take());
        let incoming = (number == 0).then(|| Incoming { devices, burst: plan.burst, arriving });
        let (meters, lines, left) = (forwarder.meters(), Arc::clone(&lines), Arc::clone(&left));
        pools.push(pool);
        let generator = Generator::default();
        workers.push(Box::new(Routing {
            w,
            forwarder,
            meters,
            number,
            incoming,
            out,
            lines,
            left,
            generator,
        }));
    }
    Ok((Shared { left, pools, stats }, workers))
}

fn mesh_config(plan: &Plan) -> Result<MeshConfig, SetUpError> {
    let (workers, policy) = match plan.way {
        Way::Handed(policy) => (2, policy),
        Way::One | Way::Queues => (1, "none"),
    };
    let policy = policy.parse().map_err(SetUpError::at("policy"))?;
    let (inbox, recorded_queue) = (plan.inbox, plan.record);
    Ok(MeshConfig { workers, inbox, recorded_queue, policy, key: DEFAULT_KEY, ..MeshConfig::default() })
}

fn wire_of(name: &str, ring: usize) -> Result<(MemPort, MemDevice), SetUpError> {
    MemPort::pair(name, &MemConfig { ring, ..MemConfig::default() }).map_err(SetUpError::at("wire"))
}

/// Returns the packets that may be in flight. A burst comes on top, and a packet that has left counts as waiting
/// until its reader comes back.
fn under_way(plan: &Plan) -> u64 {
    (plan.inbox as usize).saturating_sub(BATCH_MAX + plan.burst) as u64
}

fn loop_intake(plan: &Plan, pool: &Pool) -> Result<Intake, SetUpError> {
    let ports = (0..plan.ports)
        .map(|port| wire_of(&port.to_string(), plan.ring_of_port()))
        .collect::<Result<_, _>>()?;
    let (pool, arriving) = (pool.clone(), Arriving::new(under_way(plan), None));
    let (numbers, hash) = (vec![0; FLOWS], plan.hashed.then(|| Toeplitz::new(&DEFAULT_KEY)));
    Ok(Intake { ports, pool, burst: plan.burst, lines: plan.lines, arriving, numbers, hash })
}

/// Makes the ports of a forwarder, of which the last is the output, and the networks behind the input ports and
/// behind the output port.
fn ports(incoming: usize, ring: usize) -> Result<(Ports, Vec<MemDevice>, MemDevice), SetUpError> {
    let (mut ports, mut devices) = (Ports::new(), Vec::new());
    for port in 0..incoming {
        let (port, device) = wire_of(&port.to_string(), ring)?;
        ports.push(Box::new(port));
        devices.push(device);
    }
    let (port, out) = wire_of("out", RING_OUT)?;
    ports.push(Box::new(port));
    Ok((ports, devices, out))
}

/// Returns the router between the lab's two hosts. The first host has several links, and the second the last.
fn fib(incoming: usize) -> Fib {
    let ([near, far], [first, second]) = (INTERFACES, netmem_traffic::routes());
    let routes = [first, Route { port: incoming as u8, ..second }];
    let mut fib = Fib::new(std::iter::repeat_n(near, incoming).chain([far]).collect());
    fib.table = routes.into_iter().collect();
    fib
}

fn heads_and_rules(memory: &Memory, pool: &Pool) -> Result<PacketPath, SetUpError> {
    let setup =
        PacketSetup { heads: HeadCacheConfig::default(), rules: Some(RULES), pairs: None, list: None };
    packet_path(memory, pool, &setup).map(|(path, ..)| path)
}
