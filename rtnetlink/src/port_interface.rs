//! The kernel's interfaces behind the router's ports.

use netmem_router::Interface;

/// The kernel's interface behind a port.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum PortInterface {
    /// The kernel has no interface there.
    #[default]
    Absent,
    /// The interface is the router's own end of the link. The value is its name.
    RouterEnd(String),
    /// The interface is the host's end of the link, and the router is at the other end (TAP). The value is its
    /// name.
    HostEnd(String),
}

impl PortInterface {
    /// Returns the name of the interface at either end.
    pub fn name(&self) -> Option<&str> {
        match self {
            PortInterface::Absent => None,
            PortInterface::RouterEnd(name) | PortInterface::HostEnd(name) => Some(name),
        }
    }

    /// Returns the name of the interface that is the router's own end.
    pub fn router_end(&self) -> Option<&str> {
        if let PortInterface::RouterEnd(name) = self { Some(name) } else { None }
    }

    /// Returns the router's interface on the link, which was `before`, now that the kernel's interface is `kernel`.
    /// Opposite ends have different MAC addresses and the same MTU.
    pub fn router_interface(&self, before: Interface, kernel: Interface) -> Interface {
        match self {
            PortInterface::Absent => before,
            PortInterface::RouterEnd(_) => kernel,
            PortInterface::HostEnd(_) => Interface { mtu: kernel.mtu, ..before },
        }
    }
}
