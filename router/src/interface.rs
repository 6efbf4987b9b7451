//! The router's ends of its links, and what it forwards that usually is not forwarded.

use netmem::wire::MacAddr;
use std::net::IpAddr;

/// One of the router's own ends of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// Its link address: frames for it are forwarded, and frames it sends bear it.
    pub mac: MacAddr,
    /// Bytes of IP packet that one frame of the link carries at most.
    pub mtu: u16,
}

/// What every link of IPv6 carries (RFC 8200 §5): no route's MTU is less to a router.
const LEAST_V6: u16 = 1280;

impl Interface {
    /// Bytes of IP packet that may leave for `destination` in one frame of the link, by a route that has this MTU of its own, or none:
    /// the smaller of the two, as by Linux, where a route's may not be used to send what the link does not carry.
    pub(crate) fn mtu_to(&self, destination: IpAddr, route: Option<u16>) -> u16 {
        let least = if destination.is_ipv6() { LEAST_V6 } else { 0 };
        route.map_or(self.mtu, |route| self.mtu.min(route.max(least)))
    }
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
