//! Opens each worker's ports as planned. COLD.

use super::network::Network;
use super::offer::Offer;
use super::own_addresses::Own;
use super::plan::{Plan, Source};
use super::port_setup::PortSetup;
use super::worker_setup::Owner;
use crate::args::{ModeArg, port_interface};
use crate::failure::{Failure, is_for_now, is_xdp_for_now};
use netmem::page::Memory;
use netmem::port::Port;
use netmem::port::af_packet::AfPacketError;
use netmem::port::mem::{MemConfig, MemDevice, MemPort};
use netmem::port::memif::MemifError;
use netmem::port::pcap::PcapError;
use netmem::port::tap::TapError;
use netmem::port::trace::TraceError;
use netmem::port::xdp::{GrantError, Netdev, TakeControl};
use netmem::system::errno::Errno;
use netmem_ports::{KernelCopies, OpenError, OpenPort, PortOpener, PortPlace, PortSpec};
use netmem_router::Interface;
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::Arc;

/// One worker's ports, with their properties.
pub struct Ports {
    pub ports: Vec<Box<dyn Port>>,
    /// The router's end of each port's link.
    pub interfaces: Vec<Interface>,
    /// A description of each port, other than its name.
    pub details: Vec<String>,
}

/// The shared parts of all workers' ports.
#[derive(Default)]
pub struct Shared {
    /// The network that mem ports are joined to.
    pub network: Option<Network>,
    /// The host's addresses, whose packets the ports leave to the kernel.
    pub own: Own,
    /// The controls of xdp ports that take only a part of the packets, one for each interface.
    pub takes: Vec<Arc<TakeControl>>,
    /// What happens to the kernel's copies of the packets that each port takes, with the port as it is written.
    pub copies: Vec<(String, KernelCopies)>,
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
            let mut opener = setup.opener(memory);
            let mut copies = Vec::new();
            let numbered = owners.iter_mut().zip(0..);
            let each = numbered.map(|(owner, worker)| {
                let port =
                    |(port, spec)| opened(&setup, &mut opener, owner, spec, PortPlace { port, worker });
                let open: Vec<_> = ports.iter().enumerate().map(port).collect::<Result<_, _>>()?;
                copies.extend(
                    ports.iter().zip(&open).map(|(spec, port)| (spec.to_string(), port.copies.clone())),
                );
                Ok::<_, Failure>(queues(open))
            });
            let each = each.collect::<Result<_, _>>()?;
            let takes = opener.umem().map_or_else(Vec::new, |umem| umem.take_controls());
            Ok((each, Shared { own: Own::of(&opener), takes, copies, network: None }))
        }
    }
}

/// Returns the MTU of the narrowest interface of the ports, or None if no port has an existing interface.
fn narrowest(ports: &[PortSpec]) -> Option<u16> {
    let mtu = |spec: &PortSpec| Netdev::open(port_interface(spec).name()?).ok()?.mtu().ok();
    ports.iter().filter_map(mtu).map(|mtu| u16::try_from(mtu).unwrap_or(u16::MAX)).min()
}

/// Makes a worker's two mem ports and their far ends. Their numbers follow those of the workers before it.
fn link(plan: &Plan, number: usize) -> Result<(Ports, [MemDevice; 2]), Failure> {
    let ring = plan.ring as usize;
    let config = MemConfig { ring, coalesce: MemConfig::default().coalesce.min(ring / 2) };
    let pair = |end: usize| MemPort::pair(&(2 * number + end).to_string(), &config).map_err(Failure::input);
    let ((port0, device0), (port1, device1)) = (pair(0)?, pair(1)?);
    let mtu = plan.frame_size.mtu();
    let interfaces =
        netmem_traffic::INTERFACES.iter().map(|interface| Interface { mtu, ..*interface }).collect();
    let ports: Vec<Box<dyn Port>> = vec![Box::new(port0), Box::new(port1)];
    Ok((Ports { ports, interfaces, details: vec![String::new(); 2] }, [device0, device1]))
}

/// Makes the built-in network at the far ends.
fn network(plan: &Plan, offer: &Offer, devices: Vec<[MemDevice; 2]>) -> Result<Network, Failure> {
    let hop = match plan.mode {
        ModeArg::Ip => netmem_traffic::Hop::Routed,
        ModeArg::Reflect => netmem_traffic::Hop::Reflected,
        ModeArg::CrossConnect | ModeArg::Drop | ModeArg::Pass => netmem_traffic::Hop::Unchanged,
    };
    Network::new(devices, plan.ring, offer, hop, plan.steer.is_some()).map_err(Failure::input)
}

/// An opened port.
pub struct Opened {
    pub port: Box<dyn Port>,
    /// The router's end of its link.
    pub interface: Interface,
    /// Its description, other than its name.
    pub detail: String,
    /// What happens to the kernel's copies of the packets that it takes.
    pub copies: KernelCopies,
}

/// Opens worker `number`'s port at position `place` of the command line, with its wrappers.
///
/// # Errors
/// [`Failure::Input`] or [`Failure::NotNow`] with the failed step and the remedy.
pub fn opened(
    setup: &PortSetup,
    opener: &mut PortOpener,
    owner: &mut Owner,
    spec: &PortSpec,
    place: PortPlace,
) -> Result<Opened, Failure> {
    let Owner { worker, pool } = owner;
    let open = opener.open(spec, place, worker, pool).map_err(|error| refused(&error))?;
    let interface = Interface { mac: open.mac, mtu: open.mtu.unwrap_or(setup.frame_size.mtu()) };
    let OpenPort { port, detail, copies, .. } = open;
    Ok(Opened { port, interface, detail, copies })
}

/// Returns the failure of a port that could not be opened. What another program has, or the kernel has no memory or
/// descriptors for, may be there later.
fn refused(error: &OpenError) -> Failure {
    let is_not_now = match error {
        OpenError::Xdp(error) | OpenError::NoQueueForWorker { error, .. } => is_xdp_for_now(error),
        // The process that grants may come later, and grants the queues again once another server has ended.
        OpenError::Grant { error, .. } => match error {
            GrantError::Connect { errno, .. } => *errno != Errno::ACCESS,
            GrantError::Refused(_) | GrantError::TimedOut | GrantError::NoRoom => true,
            _ => false,
        },
        OpenError::Packet(error) => matches!(error, AfPacketError::Refused { .. }),
        OpenError::Tap(error) => matches!(error, TapError::Busy(_) | TapError::Refused { .. }),
        // If the file is no socket, no program listens there.
        OpenError::Memif(MemifError::Listen { path, errno }) => {
            is_for_now(&(*errno).into()) && (*errno != Errno::ADDRINUSE || is_socket(path))
        }
        OpenError::Memif(error) => matches!(error, MemifError::Watch(_) | MemifError::Bell { .. }),
        OpenError::Pcap(PcapError::Open { error, .. }) | OpenError::Trace(TraceError::File { error, .. }) => {
            is_for_now(error)
        }
        OpenError::OwnPool { .. } | OpenError::Addresses(_) | OpenError::Interface { .. } => true,
        _ => false,
    };
    if is_not_now { Failure::not_now(error) } else { Failure::input(error) }
}

fn is_socket(path: &Path) -> bool {
    let is_abstract = path.as_os_str().as_encoded_bytes().starts_with(b"@");
    is_abstract || fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// Collects a worker's ports.
fn queues(opened: Vec<Opened>) -> Ports {
    let interfaces = opened.iter().map(|port| port.interface).collect();
    let (ports, details) = opened.into_iter().map(|port| (port.port, port.detail)).unzip();
    Ports { ports, interfaces, details }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::port::xdp::XdpError;
    use std::io;
    use std::os::unix::net::UnixListener;

    fn name() -> String {
        "one".to_owned()
    }

    #[test]
    fn a_port_that_the_host_lacks_only_now_is_told_from_one_that_it_will_never_have() {
        let errno = Errno::NOMEM;
        let bound = || XdpError::QueueBound { interface: name(), queue: 0 };
        let step = "open";
        let file = |errno: Errno| PcapError::Open { path: "/one".into(), error: errno.into() };
        let connect = |errno| GrantError::Connect { path: "/one".into(), errno };
        let grant = |error| OpenError::Grant { port: name(), error };
        let now: [OpenError; 18] = [
            grant(connect(Errno::NOENT)),
            grant(GrantError::Refused(name())),
            file(Errno::MFILE).into(),
            MemifError::Listen { path: "/one".into(), errno: Errno::NFILE }.into(),
            bound().into(),
            OpenError::NoQueueForWorker { error: bound(), workers: 2 },
            XdpError::ProgramAttached { interface: name(), program: None }.into(),
            XdpError::NoDescriptor { interface: name(), step: name(), errno: Errno::MFILE }.into(),
            XdpError::Refused { interface: name(), cause: name() }.into(),
            AfPacketError::Refused { interface: name(), step, errno }.into(),
            TapError::Busy(name()).into(),
            TapError::Refused { interface: name(), step, errno }.into(),
            MemifError::Watch(errno).into(),
            MemifError::Bell { errno }.into(),
            OpenError::OwnPool { step, port: name(), error: name().into() },
            OpenError::Addresses(io::ErrorKind::OutOfMemory.into()),
            OpenError::Interface { what: "MTU", interface: name(), error: io::ErrorKind::OutOfMemory.into() },
            MemifError::Bell { errno: Errno::AGAIN }.into(),
        ];
        for error in now {
            assert_eq!(refused(&error), Failure::NotNow(error.to_string()));
        }
        let never: [OpenError; 14] = [
            grant(connect(Errno::ACCESS)),
            grant(GrantError::InvalidReply("it begins otherwise")),
            OpenError::GrantedOther { port: name(), granted: name() },
            file(Errno::NOENT).into(),
            XdpError::UnknownInterface { interface: name() }.into(),
            OpenError::NoQueueForWorker { error: XdpError::GuardPages, workers: 2 },
            XdpError::InterfaceDown { interface: name() }.into(),
            OpenError::QueueCount(name()),
            OpenError::NotEthernet(name()),
            AfPacketError::NotPermitted(name()).into(),
            AfPacketError::InterfaceDown(name()).into(),
            TapError::NoDriver(name()).into(),
            TapError::NotTap(name()).into(),
            MemifError::Listen { path: "/one".into(), errno: Errno::ADDRINUSE }.into(),
        ];
        for error in never {
            assert_eq!(refused(&error), Failure::Input(error.to_string()));
        }
    }

    /// Seen: the service stayed down when the socket of a memif port was another program's for some seconds.
    #[test]
    fn a_memif_socket_on_which_another_program_listens_may_be_free_later_and_another_file_not() {
        let path = std::env::temp_dir().join(format!("netmem-ports-{}", std::process::id()));
        let error = || OpenError::from(MemifError::Listen { path: path.clone(), errno: Errno::ADDRINUSE });
        let _listener = UnixListener::bind(&path).expect("a socket");
        assert!(matches!(refused(&error()), Failure::NotNow(_)));
        fs::remove_file(&path).expect("it is there");
        fs::write(&path, "").expect("a file");
        assert!(matches!(refused(&error()), Failure::Input(_)));
        fs::remove_file(&path).expect("it is there");
        let error = MemifError::Listen { path: "@one".into(), errno: Errno::ADDRINUSE };
        assert!(matches!(refused(&error.into()), Failure::NotNow(_)));
    }
}
