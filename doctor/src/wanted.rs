//! A description of the planned dataplane, as far as its needs depend on the host.

use netmem::port::xdp::XdpModePreference;
use std::path::PathBuf;

/// The planned dataplane. The default has no ports and no workers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Its ports.
    pub ports: Vec<WantedPort>,
    /// Number of forwarding threads. Each has a core of its own.
    pub workers: usize,
    /// The cores that the threads are pinned to.
    pub cores: Vec<u32>,
    /// Bytes of memory for frames and heads, all of which `xdp` ports lock.
    pub memory: u64,
    /// Bytes of the longest packet that fits into a frame, with the Ethernet header.
    pub longest: usize,
    /// True if packets leave by other ports than they came in on. If the kernel forwards them too, they arrive
    /// twice.
    pub forwards: bool,
    /// True if the dataplane uses this host's addresses. Answers may then come in on another port than the requests
    /// left by.
    pub routes: bool,
    /// True if it takes its routes from the kernel, as they change.
    pub kernel_routes: bool,
    /// True if packet ports hide the packets that they take from the kernel, if they can.
    pub packets_alone: bool,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPort {
    /// The name, as it is written on the command line.
    pub name: String,
    /// The device.
    pub device: Device,
    /// The files that ports around it write (`trace:file=FILE`).
    pub traces: Vec<PathBuf>,
}

/// The device of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// Queues of an interface, through AF_XDP.
    Xdp(XdpPlace),
    /// An interface, through a packet socket.
    Packet(String),
    /// The far end of a TAP interface of this name.
    Tap(String),
    /// A peer process at a Unix socket.
    Memif {
        /// The socket.
        path: PathBuf,
        /// True if this end creates the socket.
        is_server: bool,
    },
    /// Files with captured packets.
    Files {
        /// The file that is received.
        input: Option<PathBuf>,
        /// The file that is written.
        output: Option<PathBuf>,
    },
}

/// The interface and queues of an xdp port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpPlace {
    /// The interface.
    pub interface: String,
    /// The first queue.
    pub queue: u32,
    /// Number of queues, or None for all queues.
    pub queues: Option<u32>,
    /// The mode in which the program may run.
    pub mode: XdpModePreference,
    /// True if the port takes only some of the packets, and the kernel gets the others.
    pub is_partial: bool,
    /// True if a process with the privileges opens its sockets and attaches its program (`netmem grant`).
    pub is_granted: bool,
    /// True if the port takes no packet at all: it only transmits, and in copy mode needs no program.
    pub takes_none: bool,
    /// True if the port is to be in copy mode, also where zero-copy is possible.
    pub copies: bool,
    /// True if the kernel keeps the packets that its addresses and neighbours need.
    pub leaves_control: bool,
}

impl XdpPlace {
    /// Returns true if the port takes some packets, and the kernel gets the others.
    pub(crate) fn takes_some(&self) -> bool {
        self.is_partial && !self.takes_none
    }
}

impl Wanted {
    /// Iterates over the ports on an interface, each with the interface.
    pub fn interfaces(&self) -> impl Iterator<Item = (&WantedPort, &str)> {
        self.ports.iter().filter_map(|port| Some((port, port.device.interface()?)))
    }

    /// Iterates over the xdp ports.
    pub fn xdp(&self) -> impl Iterator<Item = (&WantedPort, &XdpPlace)> {
        self.ports.iter().filter_map(|port| match &port.device {
            Device::Xdp(place) => Some((port, place)),
            _ => None,
        })
    }

    /// Iterates over the packet ports, each with its interface.
    pub fn packet(&self) -> impl Iterator<Item = (&WantedPort, &str)> {
        self.ports.iter().filter_map(|port| match &port.device {
            Device::Packet(interface) => Some((port, &interface[..])),
            _ => None,
        })
    }
}

impl Device {
    /// Returns the interface that the port needs. A TAP interface need not exist.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Device::Xdp(place) => Some(&place.interface),
            Device::Packet(interface) => Some(interface),
            Device::Tap(_) | Device::Memif { .. } | Device::Files { .. } => None,
        }
    }
}
