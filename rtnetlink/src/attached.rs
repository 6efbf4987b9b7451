//! Where the kernel's interfaces stand to the router's ports.

use netmem_router::Interface;

/// What a port has to do with an interface of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Attached {
    /// Nothing: the kernel has none there.
    #[default]
    Nothing,
    /// It is the router's own end of the link; this is its name.
    Own(String),
    /// It is the host's end of the link, and the router is at the other one (TAP); this is its name.
    Opposite(String),
}

impl Attached {
    /// The name of the interface, whichever end it is.
    pub fn name(&self) -> Option<&str> {
        match self {
            Attached::Nothing => None,
            Attached::Own(name) | Attached::Opposite(name) => Some(name),
        }
    }

    /// The name of the interface that is the router's own end.
    pub fn own(&self) -> Option<&str> {
        if let Attached::Own(name) = self { Some(name) } else { None }
    }

    /// The router's end of the link, which was so `before`, now that the interface is like `kernel`: opposite ends have a link address
    /// each, and one MTU.
    pub fn end(&self, before: Interface, kernel: Interface) -> Interface {
        match self {
            Attached::Nothing => before,
            Attached::Own(_) => kernel,
            Attached::Opposite(_) => Interface { mtu: kernel.mtu, ..before },
        }
    }
}
