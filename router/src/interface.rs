//! The router's ends of its links, and what it forwards that usually is not forwarded.

use netmem::wire::MacAddr;

/// One of the router's own ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Its link address: frames for it are forwarded, and frames it sends bear it.
    pub mac: MacAddr,
    /// Bytes of IP packet that one frame of the link carries at most.
    pub mtu: u16,
}

/// What a router forwards only where somebody wants it to.
///
/// # Cost
/// None: what is not as usual is looked at in the cold half anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allow {
    /// IPv4 packets from and to this network (0/8), loopback (127/8) and class E (240/4), and packets of both families from the
    /// router's own addresses and the broadcast addresses of its networks: martians for whose checks RFC 1812 §5.3.7 allows a
    /// switch. The others are never forwarded.
    pub martians: bool,
    /// IPv4 packets with a loose source route that pass here between two of its stops (RFC 7126 §4.3).
    pub source_routes: bool,
}
