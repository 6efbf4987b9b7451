//! Each worker's ports as planned. COLD.

use super::network::Network;
use super::offer::Offer;
use super::own_addresses::Own;
use super::plan::{Plan, Source};
use super::port_setup::PortSetup;
use super::worker_setup::Owner;
use crate::args::{ModeArg, attached};
use crate::failure::Failure;
use crate::stop;
use netmem::page::Memory;
use netmem::port::Port;
use netmem::port::af_packet;
use netmem::port::fault::FaultPort;
use netmem::port::mem::{MemConfig, MemDevice, wire};
use netmem::port::memif::{MemifConfig, MemifPort, Role};
use netmem::port::pcap::{self, PcapConfig};
use netmem::port::tap::{self, TapConfig};
use netmem::port::trace::TracePort;
use netmem::port::xdp::{
    Netdev, Punt, RingSizes, TakeControl, Umem, XdpConfig, XdpError, XdpPort, XdpQueues,
};
use netmem::wire::MacAddr;
use netmem_ports::{DeviceSpec, PortSpec, WrapSpec, XdpSpec};
use netmem_router::Interface;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One worker's ports, with all that comes with them.
pub struct Ports {
    pub ports: Vec<Box<dyn Port>>,
    /// The router's end of each one's link.
    pub interfaces: Vec<Interface>,
    /// What there is to say about each besides its name.
    pub details: Vec<String>,
}

/// What all workers' ports come with.
#[derive(Default)]
pub struct Shared {
    /// The network that mem ports are joined to.
    pub network: Option<Network>,
    /// The host's addresses, whose packets ports leave to the kernel.
    pub own: Own,
    /// What xdp ports take that do not take all, a control for each interface.
    pub takes: Vec<Arc<TakeControl>>,
}

/// Opens each worker's ports.
///
/// # Errors
/// [`Failure::Input`] with the step and the remedy.
pub fn open(plan: &Plan, memory: &Memory, owners: &mut [Owner]) -> Result<(Vec<Ports>, Shared), Failure> {
    match &plan.source {
        Source::BuiltIn(offer) => {
            let links = (0..owners.len()).map(|number| link(plan, number)).collect::<Result<Vec<_>, _>>()?;
            let (ports, devices): (Vec<_>, Vec<_>) = links.into_iter().unzip();
            let network = Some(network(plan, offer, devices)?);
            Ok((ports, Shared { network, ..Shared::default() }))
        }
        Source::Ports { ports, .. } => {
            let setup = PortSetup { cut_mtu: narrowest(ports), ..plan.port_setup() };
            let (umem, mut own) = (setup.umem(memory)?, Own::default());
            let numbered = owners.iter_mut().zip(0..);
            let ports = numbered.map(|(owner, number)| {
                let port =
                    |(place, spec)| opened(&setup, (memory, &umem, &mut own), owner, spec, (place, number));
                Ok(queues(plan.mode, ports.iter().enumerate().map(port).collect::<Result<_, _>>()?))
            });
            let ports = ports.collect::<Result<_, _>>()?;
            own.xdp = umem.own_addresses();
            let takes = umem.take_controls();
            Ok((ports, Shared { own, takes, ..Shared::default() }))
        }
    }
}

/// The MTU of the narrowest of the interfaces that ports are on; None where none is, or is there.
fn narrowest(ports: &[PortSpec]) -> Option<u16> {
    let mtu = |spec: &PortSpec| Netdev::open(attached(spec).name()?).ok()?.mtu().ok();
    ports.iter().filter_map(mtu).map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX)).min()
}

/// A worker's two mem ports, numbered on from those of the workers before it, and their far ends.
fn link(plan: &Plan, number: usize) -> Result<(Ports, [MemDevice; 2]), Failure> {
    let ring = plan.ring as usize;
    let config = MemConfig { ring, coalesce: MemConfig::default().coalesce.min(ring / 2) };
    let wire = |end: usize| wire(&(2 * number + end).to_string(), &config).map_err(Failure::input);
    let ((port0, device0), (port1, device1)) = (wire(0)?, wire(1)?);
    let mtu = plan.frame_size.mtu();
    let interfaces =
        netmem_traffic::INTERFACES.iter().map(|interface| Interface { mtu, ..*interface }).collect();
    let ports: Vec<Box<dyn Port>> = vec![Box::new(port0), Box::new(port1)];
    Ok((Ports { ports, interfaces, details: vec![String::new(); 2] }, [device0, device1]))
}

/// The built-in network at the far ends.
fn network(plan: &Plan, offer: &Offer, devices: Vec<[MemDevice; 2]>) -> Result<Network, Failure> {
    let hop = match plan.mode {
        ModeArg::Ip => netmem_traffic::Hop::Routed,
        ModeArg::Reflect => netmem_traffic::Hop::Reflected,
        ModeArg::CrossConnect | ModeArg::Drop | ModeArg::Pass => netmem_traffic::Hop::Unchanged,
    };
    Network::new(devices, plan.ring, offer, hop, plan.steer.is_some()).map_err(Failure::input)
}

/// The detail of a port whose frames the kernel copies.
const COPIED: &str = "copied by the kernel";
/// What is said of a port besides that leaves it.
const CONTROL: &str = ", control traffic left to the kernel";

/// How long a memif port waits for a peer that is there; a slow one shall not cost the packets of the other ports.
const GREETING: Duration = Duration::from_secs(20);

/// How often it is looked meanwhile whether the run is to end before it has begun.
const BRIEF: Duration = Duration::from_millis(50);

/// Waits for the peer of a memif port, if it is there.
fn greet(port: &mut MemifPort) {
    let begun = Instant::now();
    while begun.elapsed() < GREETING && !stop::is_asked() {
        let waiting = Instant::now();
        // There is a peer, or nobody to be waited for.
        if port.wait(BRIEF) || waiting.elapsed() < BRIEF {
            break;
        }
    }
}

/// A port as it was opened.
pub struct Opened {
    pub port: Box<dyn Port>,
    /// The router's end of its link.
    pub interface: Interface,
    /// What there is to say about it besides its name.
    pub detail: String,
}

/// Worker `number`'s port that is the one at `place` on the command line, with what is wrapped around it.
///
/// # Errors
/// [`Failure::Input`] with the step and the remedy.
pub fn opened(
    setup: &PortSetup,
    (memory, umem, own): (&Memory, &Arc<Umem>, &mut Own),
    owner: &mut Owner,
    spec: &PortSpec,
    (place, number): (usize, u32),
) -> Result<Opened, Failure> {
    let mut opened = match &spec.device {
        DeviceSpec::Xdp(spec) => xdp_port(setup, umem, owner, spec, number)?,
        DeviceSpec::Memif { path, config } => {
            let id = config.id.saturating_add(number);
            let frame_size = setup.frame_size.bytes();
            let config = MemifConfig { id, ring: setup.ring, frame_size, ..config.clone() };
            let mut port = MemifPort::open(path, memory, &config).map_err(Failure::input)?;
            // A peer that is there shall miss no packet of the other ports.
            greet(&mut port);
            let role = if config.role == Role::Client { "client" } else { "server" };
            let copies = if port.is_zero_copy() { "lends its frames" } else { "copies" };
            Opened {
                port: Box::new(port),
                interface: setup.made_up(place),
                detail: format!("{role}, {copies}"),
            }
        }
        DeviceSpec::Packet { interface, leaves_control } => {
            packet_port(setup, own, interface, leaves_control.unwrap_or(setup.punt == Punt::Control))?
        }
        DeviceSpec::Tap { interface, mac } => {
            let config = TapConfig { several: setup.workers > 1, ring: setup.ring as usize };
            let port = tap::open(interface, &config).map_err(Failure::input)?;
            // The interface's own address is the host's: the router is at the other end of the link.
            let Interface { mtu, .. } = interface_of(port.device().netdev())?;
            let interface = Interface { mac: mac.unwrap_or(setup.made_up(place).mac), mtu };
            Opened { port: Box::new(port), interface, detail: COPIED.to_owned() }
        }
        DeviceSpec::Pcap { config, mac, any_mac } => {
            let Interface { mac: made_up, mtu } = setup.made_up(place);
            let interface = Interface { mac: mac.unwrap_or(made_up), mtu };
            let destination = any_mac.then_some(interface.mac);
            let config = PcapConfig { ring: setup.ring as usize, destination, ..config.clone() };
            let port = pcap::open(&place.to_string(), &config).map_err(Failure::input)?;
            Opened { port: Box::new(port), interface, detail: String::new() }
        }
    };
    for wrap in spec.wraps.iter().rev() {
        opened.port = match wrap {
            WrapSpec::Fault(config) => {
                Box::new(FaultPort::new(opened.port, owner.pool.clone(), config.clone()))
            }
            WrapSpec::Trace(config) => Box::new(TracePort::new(opened.port, config).map_err(Failure::input)?),
        };
    }
    Ok(opened)
}

/// A packet socket's port on an interface, which `leaves` control traffic to the kernel or does not.
fn packet_port(setup: &PortSetup, own: &mut Own, interface: &str, leaves: bool) -> Result<Opened, Failure> {
    let mut port = af_packet::open(interface, setup.ring as usize).map_err(Failure::input)?;
    let interface = interface_of(port.device().netdev())?;
    if leaves {
        port.leave_to_kernel(own.of_packet_ports()?);
    }
    let kept = if leaves { CONTROL } else { "" };
    Ok(Opened { port: Box::new(port), interface, detail: format!("{COPIED}{kept}") })
}

/// Worker `number`'s port on its queues of an interface, all over one UMEM, their rings full of frames of the worker's pool.
fn xdp_port(
    setup: &PortSetup,
    umem: &Arc<Umem>,
    owner: &mut Owner,
    spec: &XdpSpec,
    number: u32,
) -> Result<Opened, Failure> {
    let &PortSetup { workers, ring, xdp_mode: mode, punt, cut_mtu, .. } = setup;
    let rings = RingSizes { fill: ring, rx: ring, tx: ring, completion: ring };
    let punt = spec.punt.unwrap_or(punt);
    let take = spec.take.clone();
    let config = XdpConfig { rings, mode, punt, take, cut_mtu, ..XdpConfig::default() };
    let Owner { worker, pool } = owner;
    let count = spec.count(workers).map_err(Failure::Input)?;
    let refused = |error: XdpError| {
        let each = match error {
            XdpError::NoSuchQueue { .. } if workers > 1 => {
                format!(
                    "; each of {workers} workers needs a queue of its own: give it more (ethtool -L), or fewer workers"
                )
            }
            _ => String::new(),
        };
        Failure::input(format!("{error}{each}"))
    };
    match spec.of_worker(number, workers, count)[..] {
        [queue] => {
            let port = XdpPort::open(umem, worker, pool, &spec.interface, queue, &config).map_err(refused)?;
            let (interface, detail) = (interface_of(port.netdev())?, detail(&port));
            Ok(Opened { port: Box::new(port), interface, detail })
        }
        ref queues => {
            let port =
                XdpQueues::open(umem, worker, pool, &spec.interface, queues, &config).map_err(refused)?;
            let first = &port.queues()[0];
            let (interface, detail) = (interface_of(first.netdev())?, detail(first));
            Ok(Opened { port: Box::new(port), interface, detail })
        }
    }
}

/// A worker's ports.
fn queues(plan: ModeArg, opened: Vec<Opened>) -> Ports {
    let interfaces = opened.iter().map(|port| port.interface).collect();
    let details = opened.iter().map(|port| detail_of(plan, port)).collect();
    Ports { ports: opened.into_iter().map(|port| port.port).collect(), interfaces, details }
}

/// What there is to say about a port; of a router's its address too, for its neighbours.
fn detail_of(plan: ModeArg, Opened { interface, detail, .. }: &Opened) -> String {
    match (plan, &detail[..]) {
        (ModeArg::Ip, "") => format!("address {}", interface.mac),
        (ModeArg::Ip, detail) => format!("{detail}, address {}", interface.mac),
        _ => detail.clone(),
    }
}

/// The router's end of the port's link: the interface's own address and MTU.
pub fn interface_of(netdev: &Netdev) -> Result<Interface, Failure> {
    let failed = |what| {
        move |errno| Failure::input(format!("{what} of {}: {errno}; is it still there?", netdev.name()))
    };
    let mac = netdev.mac().map_err(failed("MAC address"))?;
    let mtu = netdev.mtu().map_err(failed("MTU"))?;
    Ok(Interface { mac: MacAddr::new(mac), mtu: u16::try_from(mtu).unwrap_or(u16::MAX) })
}

/// `generic mode (native: Operation not supported), copied by the kernel, control traffic left to the kernel, takes udp:53 alone`
fn detail(port: &XdpPort) -> String {
    let refused = port.native_refused().map_or_else(String::new, |why| format!(" ({why})"));
    let copy = if port.is_zero_copy() { "zero-copy" } else { "copied by the kernel" };
    let kept = match port.punt() {
        Punt::Nothing => "",
        Punt::Control => CONTROL,
        Punt::Neighbours => ", ARP and neighbour discovery left to the kernel",
    };
    let takes =
        port.take_control().map(|taking| format!(", takes {} alone", taking.get())).unwrap_or_default();
    format!("{} mode{refused}, {copy}{kept}{takes}", port.mode())
}
