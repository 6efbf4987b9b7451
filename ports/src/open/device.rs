//! Opens each kind of device.

use super::{KernelCopies, OpenConfig, OpenError, PortOpener, PortPlace};
use crate::spec::has_others;
use crate::{DeviceSpec, PacketSpec, QueueCount, XdpSpec};
use netmem::limits::PAGE_SIZE;
use netmem::port::af_packet::{AfPacketConfig, AfPacketPort, ControlTraffic, FanoutGroup};
use netmem::port::bounce::BouncePort;
use netmem::port::memif::{MemifConfig, Role};
use netmem::port::pcap::{PcapConfig, PcapPort};
use netmem::port::tap::{TapConfig, TapPort};
use netmem::port::xdp::{Netdev, Punt, RingSizes, Umem, XdpConfig, XdpError, XdpPort, XdpQueues};
use netmem::wire::MacAddr;
use netmem::{Fill, MemifPort, Pool, Port, Worker};
use std::path::Path;
use std::sync::Arc;

/// The detail of a port whose frames the kernel copies.
const COPIED: &str = "copied by the kernel";
/// The addition to the detail of a port that leaves control traffic.
const CONTROL: &str = ", control traffic left to the kernel";

/// This end of a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct End {
    pub(super) mac: MacAddr,
    pub(super) mtu: Option<u16>,
}

/// A device's port, before it is wrapped.
pub(super) struct Opened {
    pub(super) port: Box<dyn Port>,
    pub(super) end: End,
    pub(super) detail: String,
    pub(super) copies: KernelCopies,
}

impl Opened {
    fn new(port: impl Port + 'static, end: End, detail: impl Into<String>) -> Opened {
        Opened { port: Box::new(port), end, detail: detail.into(), copies: KernelCopies::None }
    }
}

impl PortOpener {
    pub(super) fn device(
        &mut self,
        device: &DeviceSpec,
        place: PortPlace,
        worker: &mut Worker,
        pool: &Pool,
    ) -> Result<Opened, OpenError> {
        let ring = self.config.ring as usize;
        match device {
            DeviceSpec::Xdp(spec) => self.xdp(spec, place, worker, pool),
            DeviceSpec::Memif { path, config, lends } => {
                let lend = self.config.lend.filter(|_| *lends);
                self.memif(path, &MemifConfig { lend, ..config.clone() }, place, pool)
            }
            DeviceSpec::Packet(spec) => {
                let PacketSpec { interface, leaves_control, shares, kernel_timestamps } = spec;
                let leaves = leaves_control.unwrap_or(self.config.punt == Punt::Control);
                let shared = (*shares || self.config.workers > 1)
                    .then(|| self.fanout.entry((place.port, interface.clone())).or_default().clone());
                let config = AfPacketConfig { ring, kernel_timestamps: *kernel_timestamps };
                self.packet(interface, &config, leaves, shared)
            }
            DeviceSpec::Tap { interface, mac } => {
                let config = TapConfig { multi_queue: self.config.workers > 1, ring };
                let port = TapPort::open(interface, &config)?;
                // The interface's own address belongs to the host. This end of the link has another.
                let End { mtu, .. } = end_of(port.device().netdev())?;
                let end = End { mac: mac.unwrap_or(made_up(place)), mtu };
                Ok(Opened::new(port, end, COPIED))
            }
            DeviceSpec::Pcap { config, mac, any_mac } => {
                let end = End { mac: mac.unwrap_or(made_up(place)), mtu: None };
                let destination = any_mac.then_some(end.mac);
                let config = PcapConfig { ring, destination, ..config.clone() };
                Ok(Opened::new(PcapPort::open(&place.port.to_string(), &config)?, end, ""))
            }
        }
    }

    fn memif(
        &mut self,
        path: &Path,
        config: &MemifConfig,
        place: PortPlace,
        pool: &Pool,
    ) -> Result<Opened, OpenError> {
        let id = config.id.saturating_add(place.worker);
        let config =
            MemifConfig { id, ring: self.config.ring, frame_size: pool.frame_size(), ..config.clone() };
        let role = if config.role == Role::Client { "client" } else { "server" };
        let end = End { mac: made_up(place), mtu: None };
        let lend = config.lend.filter(|_| has_others(&config));
        let own = lend.map(|lend| self.own_pool(lend, path, place, pool)).transpose()?;
        let memory = own.as_ref().map_or(&self.memory, |own| &own.memory);
        let mut port = MemifPort::open(path, memory, &config)?;
        (self.config.greet)(&mut port);
        match own.filter(|_| port.is_zero_copy()) {
            Some(own) => {
                let port = BouncePort::new(Box::new(port), own.worker, own.pool);
                Ok(Opened::new(port, end, format!("{role}, lends frames of a pool of its own")))
            }
            None => {
                let copies = if port.is_zero_copy() { "lends its frames" } else { "copies" };
                Ok(Opened::new(port, end, format!("{role}, {copies}")))
            }
        }
    }

    /// Opens a packet socket's port on an interface. `leaves` says whether it leaves control traffic to the kernel, and
    /// `shared` the group of ports with which it shares the interface's packets, if it does.
    fn packet(
        &mut self,
        interface: &str,
        config: &AfPacketConfig,
        leaves: bool,
        shared: Option<FanoutGroup>,
    ) -> Result<Opened, OpenError> {
        let mut port = AfPacketPort::open(interface, config)?;
        if let Some(group) = shared {
            port.join(&group)?;
        }
        let end = end_of(port.device().netdev())?;
        let mut copies = KernelCopies::Kept;
        if leaves && self.config.packets_alone {
            let taken = port.take_alone(self.control()?);
            copies =
                taken.map_or_else(|why| KernelCopies::NotDropped(why.to_string()), |()| KernelCopies::None);
        } else if leaves {
            port.leave_to_kernel(self.control()?);
        }
        let rest = match &copies {
            _ if !leaves => "",
            KernelCopies::None => ", control traffic left to the kernel, which gets nothing else",
            _ => ", control traffic left to the kernel, which has copies of the rest",
        };
        Ok(Opened { copies, ..Opened::new(port, end, format!("{COPIED}{rest}")) })
    }

    /// The control traffic that packet ports leave to the kernel. The addresses are read with each such port.
    fn control(&mut self) -> Result<Arc<ControlTraffic>, OpenError> {
        let control = self.control.get_or_insert_default();
        control.follow().map_err(|errno| OpenError::Addresses(errno.into()))?;
        Ok(Arc::clone(control))
    }

    /// The UMEM that `xdp` ports share: chunks as large as the frames, up to the kernel's maximum.
    fn shared_umem(&mut self, spec: &XdpSpec, pool: &Pool) -> Result<Arc<Umem>, OpenError> {
        let chunk_size = pool.frame_size().min(PAGE_SIZE);
        match &self.umem {
            Some(umem) if umem.chunk_size() == chunk_size => return Ok(Arc::clone(umem)),
            Some(umem) if Arc::strong_count(umem) > 1 => {
                let (frame_size, first) = (pool.frame_size(), umem.chunk_size());
                return Err(OpenError::FrameSizes { port: spec.to_string(), frame_size, first });
            }
            // One that no port has is made again.
            _ => {}
        }
        let umem = Umem::with_chunks(&self.memory, chunk_size)?;
        Ok(Arc::clone(self.umem.insert(umem)))
    }

    /// Opens a worker's port on its queues of an interface. The rings are full of frames of the worker's pool.
    fn xdp(
        &mut self,
        spec: &XdpSpec,
        place: PortPlace,
        worker: &mut Worker,
        pool: &Pool,
    ) -> Result<Opened, OpenError> {
        let OpenConfig { ring, workers, xdp_mode, cut_mtu, .. } = self.config;
        let (mode, zero_copy) = (spec.mode.unwrap_or(xdp_mode), spec.copy);
        let rings = RingSizes { fill: ring, rx: ring, tx: ring, completion: ring };
        let (punt, take) = (spec.punt.unwrap_or(self.config.punt), spec.take.clone());
        let config = XdpConfig { rings, mode, zero_copy, punt, take, cut_mtu };
        if let Some(path) = &spec.grant {
            return self.granted(spec, path, place, (worker, pool), &config);
        }
        check_frames(&spec.interface)?;
        let count = queue_count(spec, workers)?;
        let umem = self.shared_umem(spec, pool)?;
        let refused = |error| match error {
            XdpError::NoSuchQueue { .. } if workers > 1 => OpenError::NoQueueForWorker { error, workers },
            error => error.into(),
        };
        match spec.of_worker(place.worker, workers, count)[..] {
            [queue] => {
                let port = XdpPort::open(&umem, worker, pool, &spec.interface, queue, &config);
                let port = port.map_err(refused)?;
                let (end, detail) = (end_of(port.netdev())?, detail(&port, count, port.rx_posted()));
                Ok(Opened::new(port, end, detail))
            }
            ref queues => {
                let port = XdpQueues::open(&umem, worker, pool, &spec.interface, queues, &config);
                let port = port.map_err(refused)?;
                let first = &port.queues()[0];
                let (end, detail) = (end_of(first.netdev())?, detail(first, count, port.rx_posted()));
                Ok(Opened::new(port, end, detail))
            }
        }
    }

    /// Opens a worker's port on its queues of a grant.
    fn granted(
        &mut self,
        spec: &XdpSpec,
        path: &Path,
        place: PortPlace,
        (worker, pool): (&mut Worker, &Pool),
        config: &XdpConfig,
    ) -> Result<Opened, OpenError> {
        let umem = self.shared_umem(spec, pool)?;
        let (grant, count) = self.grants.of_worker(spec, path, place, self.config.workers)?;
        let takes = format!(", granted, takes {} alone", grant.take());
        let port = XdpQueues::open_granted(&umem, worker, pool, grant, config)?;
        let first = &port.queues()[0];
        let (end, detail) = (end_of(first.netdev())?, detail(first, count, port.rx_posted()));
        Ok(Opened::new(port, end, detail + &takes))
    }
}

/// Returns the number of queues of all workers.
fn queue_count(spec: &XdpSpec, workers: usize) -> Result<u32, OpenError> {
    spec.count(workers).map_err(|line| match XdpQueues::all_of(&spec.interface) {
        // What the process lacks is no fault of the number.
        Err(error @ XdpError::NoDescriptor { .. }) if spec.queues == QueueCount::All => error.into(),
        _ => OpenError::QueueCount(line),
    })
}

/// Returns this end of a link without an interface: a locally administered MAC address with the port's number.
fn made_up(place: PortPlace) -> MacAddr {
    MacAddr::new([0x02, b'n', b'e', b't', 0, place.port as u8])
}

/// Checks that an interface carries Ethernet frames, if there is one of this name.
fn check_frames(interface: &str) -> Result<(), OpenError> {
    const EAFNOSUPPORT: i32 = 97;
    let Ok(netdev) = Netdev::open(interface) else { return Ok(()) };
    match netdev.frame_mac() {
        Err(errno) if errno.raw_os_error() == EAFNOSUPPORT => {
            Err(OpenError::NotEthernet(interface.to_owned()))
        }
        _ => Ok(()),
    }
}

/// Returns this end of an interface's link: the address in its frames, and its MTU.
fn end_of(netdev: &Netdev) -> Result<End, OpenError> {
    let unknown = |what, error| OpenError::Interface { what, interface: netdev.name().to_owned(), error };
    let mac = netdev.frame_mac().map_err(|errno| unknown("MAC address", errno.into()))?;
    let mtu = netdev.mtu().map_err(|errno| unknown("MTU", errno.into()))?;
    Ok(End { mac: MacAddr::new(mac), mtu: Some(u16::try_from(mtu).unwrap_or(u16::MAX)) })
}

/// `generic mode (native: Operation not supported), copied by the kernel, control traffic left to the kernel, takes udp:53 alone`,
/// and that the ports of all workers have only `count` queues of more, or that the pool had no frame to receive into.
fn detail(port: &XdpPort, count: u32, posted: usize) -> String {
    let refused = port.native_refused().map_or_else(String::new, |why| format!(" ({why})"));
    let has_no_rules = port.take_control().is_some_and(|taking| taking.get().rules().is_empty());
    let mode = if has_no_rules && !port.is_zero_copy() {
        "no XDP program while it takes nothing".to_owned()
    } else {
        format!("{} mode{refused}", port.mode())
    };
    let copy = if port.is_zero_copy() { "zero-copy" } else { COPIED };
    let kept = match port.punt() {
        Punt::Nothing => "",
        Punt::Control => CONTROL,
        Punt::Neighbours => ", ARP and neighbour discovery left to the kernel",
    };
    let takes =
        port.take_control().map(|taking| format!(", takes {} alone", taking.get())).unwrap_or_default();
    let dry = if posted == 0 { ", without a frame to receive into: its pool has none" } else { "" };
    format!("{mode}, {copy}{kept}{takes}{}{dry}", left_out(port, count))
}

/// `, queue 0 of 2; the others stay with the kernel`, if an interface has more receive queues than the ports of all workers.
fn left_out(port: &XdpPort, count: u32) -> String {
    let queues = port.netdev().queues().ok().flatten().map_or(0, |queues| queues.rx);
    match count {
        _ if queues <= count => String::new(),
        1 => format!(", queue {} of {queues}; the others stay with the kernel", port.queue()),
        _ => format!(", {count} of {queues} queues; the others stay with the kernel"),
    }
}
