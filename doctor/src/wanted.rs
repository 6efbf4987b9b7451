//! What a dataplane is going to do, as far as a host can stand in its way.

use netmem::port::xdp::XdpModePreference;
use std::path::PathBuf;

/// What is going to run; by default nothing on one core.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wanted {
    /// Its ports.
    pub ports: Vec<WantedPort>,
    /// Threads that forward; each has a core of its own.
    pub workers: usize,
    /// The cores that they are pinned to.
    pub cores: Vec<u32>,
    /// Bytes of memory for frames.
    pub memory: u64,
    /// Bytes of the longest packet that a frame has room for, with the Ethernet header.
    pub longest: usize,
    /// Whether packets leave by other ports than they came by: what the kernel forwards too would arrive twice.
    pub forwards: bool,
    /// Whether it speaks for this host's addresses: answers come by a port that others left by.
    pub routes: bool,
    /// Whether packet ports keep from the kernel what they take, where they can.
    pub packets_alone: bool,
}

/// A port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedPort {
    /// As it is written on the command line.
    pub name: String,
    /// What it is.
    pub device: Device,
}

/// What a port is on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Device {
    /// Queues of an interface, through AF_XDP.
    Xdp(XdpPlace),
    /// An interface, through a packet socket.
    Packet(String),
    /// The far end of a TAP interface of that name.
    Tap(String),
    /// A peer process at a Unix socket.
    Memif {
        /// The socket.
        path: PathBuf,
        /// Whether this end makes it.
        is_server: bool,
    },
    /// Files with captured packets.
    Files {
        /// That is received.
        input: Option<PathBuf>,
        /// That is written.
        output: Option<PathBuf>,
    },
}

/// Where an xdp port is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XdpPlace {
    /// The interface.
    pub interface: String,
    /// The first queue.
    pub queue: u32,
    /// How many queues; None for all that there are.
    pub queues: Option<u32>,
    /// Where the program may run.
    pub mode: XdpModePreference,
    /// Whether only some of the packets are taken, and the kernel has the others.
    pub is_partial: bool,
    /// Whether the kernel keeps what its addresses and neighbours need.
    pub leaves_control: bool,
}

impl Wanted {
    /// The name of each port on an interface, and the interface.
    pub fn interfaces(&self) -> impl Iterator<Item = (&WantedPort, &str)> {
        self.ports.iter().filter_map(|port| Some((port, port.device.interface()?)))
    }

    /// Each xdp port.
    pub fn xdp(&self) -> impl Iterator<Item = (&WantedPort, &XdpPlace)> {
        self.ports.iter().filter_map(|port| match &port.device {
            Device::Xdp(place) => Some((port, place)),
            _ => None,
        })
    }

    /// Each packet port, with its interface.
    pub fn packet(&self) -> impl Iterator<Item = (&WantedPort, &str)> {
        self.ports.iter().filter_map(|port| match &port.device {
            Device::Packet(interface) => Some((port, &interface[..])),
            _ => None,
        })
    }
}

impl Device {
    /// The interface that it needs; a TAP interface can be made.
    pub fn interface(&self) -> Option<&str> {
        match self {
            Device::Xdp(place) => Some(&place.interface),
            Device::Packet(interface) => Some(interface),
            Device::Tap(_) | Device::Memif { .. } | Device::Files { .. } => None,
        }
    }
}
