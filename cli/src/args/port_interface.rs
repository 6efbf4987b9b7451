//! The kernel's interface on a port's link.

use netmem_ports::{DeviceSpec, PacketSpec, PortSpec};
use netmem_rtnetlink::PortInterface;

/// The kernel's interface on the port's link. A TAP interface is the host's end of it, not the port's.
pub fn port_interface(port: &PortSpec) -> PortInterface {
    match &port.device {
        DeviceSpec::Xdp(spec) => PortInterface::RouterEnd(spec.interface.clone()),
        DeviceSpec::Packet(PacketSpec { interface, .. }) => PortInterface::RouterEnd(interface.clone()),
        DeviceSpec::Tap { interface, .. } => PortInterface::HostEnd(interface.clone()),
        DeviceSpec::Memif { .. } | DeviceSpec::Pcap { .. } => PortInterface::Absent,
    }
}
