//! The kernel's interface on a port's link.

use netmem_ports::{DeviceSpec, PortSpec};
use netmem_rtnetlink::Attached;

/// The kernel's interface on the port's link. A TAP interface is the host's end of it, not the port's.
pub fn attached(port: &PortSpec) -> Attached {
    match &port.device {
        DeviceSpec::Xdp(spec) => Attached::Own(spec.interface.clone()),
        DeviceSpec::Packet { interface, .. } => Attached::Own(interface.clone()),
        DeviceSpec::Tap { interface, .. } => Attached::Opposite(interface.clone()),
        DeviceSpec::Memif { .. } | DeviceSpec::Pcap { .. } => Attached::Nothing,
    }
}
