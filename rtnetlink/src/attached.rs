//! The relation between the kernel's interfaces and the router's ports.

use netmem_router::Interface;

/// The relation of a port to an interface of the kernel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Attached {
    /// The kernel has no interface there.
    #[default]
    Nothing,
    /// The interface is the router's own end of the link. The value is its name.
    Own(String),
    /// The interface is the host's end of the link, and the router is at the other end (TAP). The value is its
    /// name.
    Opposite(String),
}

impl Attached {
    /// Returns the name of the interface at either end.
    pub fn name(&self) -> Option<&str> {
        match self {
            Attached::Nothing => None,
            Attached::Own(name) | Attached::Opposite(name) => Some(name),
        }
    }

    /// Returns the name of the interface that is the router's own end.
    pub fn own(&self) -> Option<&str> {
        if let Attached::Own(name) = self { Some(name) } else { None }
    }

    /// Returns the router's end of the link, which was `before`, now that the kernel's interface is `kernel`.
    /// Opposite ends have different MAC addresses and the same MTU.
    pub fn end(&self, before: Interface, kernel: Interface) -> Interface {
        match self {
            Attached::Nothing => before,
            Attached::Own(_) => kernel,
            Attached::Opposite(_) => Interface { mtu: kernel.mtu, ..before },
        }
    }
}
