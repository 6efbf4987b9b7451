//! COLD: opening the socket.

use super::{AfPacketLink, AfPacketPort};
use crate::limits::BATCH_MAX;
use crate::port::copying::CopyingPort;
use crate::sys::errno::{Errno, descriptor_remedy};
use crate::sys::netdev::Netdev;
use crate::sys::packet::{PacketSocket, PacketStep};

/// The settings of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AfPacketConfig {
    /// Maximum number of frames posted in each direction. Default 512.
    pub ring: usize,
    /// Whether each packet gets the time at which the kernel received it
    /// ([`Frame::timestamp`](crate::pool::Frame::timestamp)). A `pcap` port then writes the packet with that time
    /// instead of the time of transmission. The time takes 18 bytes of the headroom. The kernel reads its clock for each
    /// packet of all interfaces then. It begins somewhat after the port is opened; packets that come before get the time
    /// at which the port receives them. Default false.
    pub kernel_timestamps: bool,
}

impl Default for AfPacketConfig {
    fn default() -> Self {
        AfPacketConfig { ring: 512, kernel_timestamps: false }
    }
}

/// The reason why a port could not be opened. Nothing is left behind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AfPacketError {
    /// There is no interface of that name in this network namespace.
    #[error("interface {0} does not exist: `ip link` lists those of this network namespace")]
    UnknownInterface(String),
    /// The interface is down.
    #[error("interface {0} is down: set it up with `ip link set dev {0} up`")]
    InterfaceDown(String),
    /// The interface does not carry Ethernet frames.
    #[error("interface {0} is not an Ethernet interface: use veth or tap")]
    NotEthernet(String),
    /// This process has no permission.
    #[error("packet socket for {0}: not permitted; run as root, or grant CAP_NET_RAW with setcap(8)")]
    NotPermitted(String),
    /// The ports of the group have another interface.
    #[error(
        "interface {0}: the ports of this fanout group have another interface: make a group for each interface"
    )]
    OtherGroup(String),
    /// Another error of the kernel.
    #[error("{step} for {interface}: {errno}{}", descriptor_remedy(*.errno))]
    Refused {
        /// The interface.
        interface: String,
        /// The step that failed.
        step: &'static str,
        /// The kernel's error.
        errno: Errno,
    },
}

impl AfPacketPort {
    /// Opens a port on an interface.
    ///
    /// # Errors
    /// Returns [`AfPacketError`] with the step and the remedy.
    #[cold]
    pub fn open(interface: &str, config: &AfPacketConfig) -> Result<AfPacketPort, AfPacketError> {
        let refused = |step, errno| refused(interface, step, errno);
        let netdev = Netdev::open(interface).map_err(|errno| refused("find", errno))?;
        netdev.mac().map_err(|errno| refused("link address", errno))?;
        if !netdev.is_up().map_err(|errno| refused("flags", errno))? {
            return Err(AfPacketError::InterfaceDown(interface.to_owned()));
        }
        let socket =
            PacketSocket::open(netdev.index()).map_err(|error| refused(step(error.step), error.errno))?;
        if config.kernel_timestamps {
            socket.report_times().map_err(|errno| refused("ask for times of reception", errno))?;
        }
        let device = AfPacketLink::new(socket, netdev, BATCH_MAX, config.kernel_timestamps);
        Ok(CopyingPort::new(format!("packet:{interface}"), device, config.ring))
    }
}

/// The error of a step that the kernel refused.
pub(super) fn refused(interface: &str, step: &'static str, errno: Errno) -> AfPacketError {
    let name = || interface.to_owned();
    match errno {
        Errno::NODEV | Errno::NXIO => AfPacketError::UnknownInterface(name()),
        Errno::NETDOWN => AfPacketError::InterfaceDown(name()),
        Errno::AFNOSUPPORT if step == "link address" => AfPacketError::NotEthernet(name()),
        Errno::PERM | Errno::ACCESS => AfPacketError::NotPermitted(name()),
        _ => AfPacketError::Refused { interface: name(), step, errno },
    }
}

fn step(step: PacketStep) -> &'static str {
    match step {
        PacketStep::Open => "open packet socket",
        PacketStep::Configure => "configure packet socket (Linux 4.20 or later)",
        PacketStep::Promiscuous => "ask for frames to all addresses",
        PacketStep::Bind => "bind packet socket",
    }
}
