//! Memory, pool, ports and forwarder as planned. Interfaces are touched last; what was made before a failure
//! is dropped.

use super::board::board;
use super::holding::{Holding, Tapped};
use super::hooks::{self, Hooks};
use super::network::Network;
use super::packet_board;
use super::plan::{Offer, Plan, Source};
use crate::args::{ModeArg, PortSpec};
use crate::control::server::Server;
use crate::failure::Failure;
use netmem::forward::holder::{Keep, Keeper, holder};
use netmem::forward::ip::Interface;
use netmem::forward::route::{Route, Table};
use netmem::forward::tap::tap;
use netmem::forward::{Forwarder, Mode, traffic};
use netmem::limits::CHUNK_SIZE;
use netmem::page::{Memory, MemoryConfig};
use netmem::pool::{DmaMap, Pool, PoolConfig};
use netmem::port::Port;
use netmem::port::mem::{MemConfig, wire};
use netmem::port::xdp::{RingSizes, Umem, XdpConfig, XdpModeWish, XdpPort};
use netmem::sync::Worker;
use netmem::wire::MacAddr;
use std::sync::Arc;

/// Places of the holder's queue at least.
const QUEUE: u32 = 1024;

/// Everything a run needs.
pub struct Dataplane {
    pub memory: Memory,
    pub pool: Pool,
    /// The forwarder's worker, which owns the pool.
    pub worker: Worker,
    pub forwarder: Forwarder,
    /// What the mem ports are joined to; None with interfaces.
    pub network: Option<Network>,
    /// Who takes passed frames; None where none are passed.
    pub holding: Option<Holding>,
    /// What can be asked about packets; None where frames stay frames.
    pub hooks: Option<Hooks>,
    /// What there is to say about each port besides its name: the XDP mode.
    pub details: Vec<String>,
    /// The control socket, if one was asked for.
    pub control: Option<Server>,
}

/// Ports with all that comes with them.
struct Ports {
    ports: Vec<Box<dyn Port>>,
    mode: Mode,
    network: Option<Network>,
    details: Vec<String>,
}

/// Sets everything up.
///
/// # Errors
/// [`Failure::Input`] with the step and the remedy.
pub fn open(plan: &Plan) -> Result<Dataplane, Failure> {
    let bytes = plan.frames * CHUNK_SIZE + plan.packets.as_ref().map_or(0, |_| hooks::room(plan.frames));
    let holds = plan.hold.is_some() || plan.tap.is_some();
    let workers = 1 + usize::from(holds);
    let config = MemoryConfig { bytes, workers, ..MemoryConfig::default() };
    let memory = Memory::new(&config).map_err(Failure::input)?;
    let mut worker = memory.worker().map_err(Failure::input)?;
    let dma = match plan.source {
        Source::BuiltIn(_) => DmaMap::None,
        Source::Xdp { .. } => DmaMap::Umem,
    };
    let config = PoolConfig { name: "rx".into(), frames: plan.frames, dma, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut worker, &config).map_err(Failure::input)?;
    let Ports { ports, mode, network, details } = match &plan.source {
        Source::BuiltIn(offer) => mem_ports(plan, offer)?,
        Source::Xdp { ports, routes, mode } => {
            let open = opener(Umem::new(&memory), &mut worker, &pool, plan.ring, *mode);
            xdp_ports(ports.iter().map(open).collect::<Result<_, _>>()?, plan.mode, routes)?
        }
    };
    let mut forwarder = Forwarder::new(ports, pool.clone(), mode).map_err(Failure::input)?;
    forwarder.set_free(plan.free);
    let hooks = plan.packets.as_ref().map(|packets| hooks::set(&mut forwarder, &memory, &pool, packets));
    let hooks = hooks.transpose()?;
    let holding = holds.then(|| hold_for(&mut forwarder, &memory, plan)).transpose()?;
    let listen = |path| {
        let mut board = board(&memory, &pool, &forwarder);
        hooks.iter().for_each(|hooks| packet_board::packets(&mut board, hooks));
        holding.iter().for_each(|holding| packet_board::holder(&mut board, holding));
        Server::start(path, board)
    };
    let control = plan.control.as_deref().map(listen).transpose()?;
    Ok(Dataplane { memory, pool, worker, forwarder, network, holding, hooks, details, control })
}

/// Gives the forwarder somebody to pass frames to, and to show them to, as planned.
fn hold_for(forwarder: &mut Forwarder, memory: &Memory, plan: &Plan) -> Result<Holding, Failure> {
    let worker = memory.worker().map_err(Failure::input)?;
    let places = (2 * plan.ring).max(QUEUE);
    let keeper = plan.hold.map(|hold| {
        let (holder, reader) = holder(places);
        forwarder.set_holder(holder);
        Keeper::new(reader, Arc::new(Keep::new(hold.frames, hold.time)))
    });
    let tapped = plan.tap.map(|keep| {
        let (tap, reader) = tap(places);
        forwarder.add_tap(tap);
        Tapped::new(reader, keep)
    });
    Ok(Holding { keeper, tapped, worker })
}

/// Two wires, and the built-in network at their far ends.
fn mem_ports(plan: &Plan, offer: &Offer) -> Result<Ports, Failure> {
    let ring = plan.ring as usize;
    let config = MemConfig { ring, coalesce: MemConfig::default().coalesce.min(ring / 2) };
    let (port0, device0) = wire("0", &config).map_err(Failure::input)?;
    let (port1, device1) = wire("1", &config).map_err(Failure::input)?;
    let (mode, hop) = match plan.mode {
        ModeArg::Ip => {
            let table = traffic::routes().into_iter().collect();
            (Mode::Ip { table, interfaces: traffic::INTERFACES.into() }, traffic::Hop::Routed)
        }
        ModeArg::CrossConnect => (Mode::CrossConnect, traffic::Hop::Unchanged),
        ModeArg::Reflect => (Mode::Reflect, traffic::Hop::Reflected),
        ModeArg::Drop => (Mode::Drop, traffic::Hop::Unchanged),
        ModeArg::Pass => (Mode::Pass, traffic::Hop::Unchanged),
    };
    let network = Network::new([device0, device1], plan.ring, offer, hop).map_err(Failure::input)?;
    let ports: Vec<Box<dyn Port>> = vec![Box::new(port0), Box::new(port1)];
    Ok(Ports { ports, mode, network: Some(network), details: vec![String::new(); 2] })
}

/// Opens ports on interfaces, all over one UMEM and each with its rings full of frames of `pool`.
fn opener(
    umem: Arc<Umem>,
    worker: &mut Worker,
    pool: &Pool,
    ring: u32,
    mode: XdpModeWish,
) -> impl FnMut(&PortSpec) -> Result<XdpPort, Failure> {
    let rings = RingSizes { fill: ring, rx: ring, tx: ring, completion: ring };
    let config = XdpConfig { rings, mode, ..XdpConfig::default() };
    move |spec| {
        XdpPort::open(&umem, worker, pool, &spec.interface, spec.queue, &config).map_err(Failure::input)
    }
}

/// The open ports, and between them the routes.
fn xdp_ports(ports: Vec<XdpPort>, mode: ModeArg, routes: &[Route]) -> Result<Ports, Failure> {
    let mode = match mode {
        ModeArg::CrossConnect => Mode::CrossConnect,
        ModeArg::Reflect => Mode::Reflect,
        ModeArg::Drop => Mode::Drop,
        ModeArg::Pass => Mode::Pass,
        ModeArg::Ip => {
            let interfaces = ports.iter().map(interface).collect::<Result<_, _>>()?;
            Mode::Ip { table: routes.iter().copied().collect::<Table>(), interfaces }
        }
    };
    let details = ports.iter().map(detail).collect();
    let ports = ports.into_iter().map(|port| Box::new(port) as Box<dyn Port>).collect();
    Ok(Ports { ports, mode, network: None, details })
}

/// The router's end of the port's link: the interface's own address and MTU.
fn interface(port: &XdpPort) -> Result<Interface, Failure> {
    let netdev = port.netdev();
    let failed = |what| {
        move |errno| Failure::input(format!("{what} of {}: {errno}; is it still there?", netdev.name()))
    };
    let mac = netdev.mac().map_err(failed("link address"))?;
    let mtu = netdev.mtu().map_err(failed("MTU"))?;
    Ok(Interface { mac: MacAddr::new(mac), mtu: u16::try_from(mtu).unwrap_or(u16::MAX) })
}

/// `generic mode (native: Operation not supported), copied by the kernel`
fn detail(port: &XdpPort) -> String {
    let refused = port.native_refused().map_or_else(String::new, |why| format!(" ({why})"));
    let copy = if port.is_zero_copy() { "zero-copy" } else { "copied by the kernel" };
    format!("{} mode{refused}, {copy}", port.mode())
}
