//! The router's interfaces, the source checks of their ports, and packets that are forwarded only on request.

use netmem::wire::MacAddr;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// One of the router's own interfaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interface {
    /// The MAC address. Frames for it are forwarded, and frames sent on the link have it as their source.
    pub mac: MacAddr,
    /// Maximum bytes of an IP packet in one frame of the link.
    pub mtu: u16,
}

/// The minimum MTU of an IPv6 link (RFC 8200 §5). A router uses no smaller MTU of a route.
const LEAST_V6: u16 = 1280;

impl Interface {
    /// Returns the maximum bytes of an IP packet that leaves for `destination` in one frame of the link. `route` is
    /// the route's own MTU, if it has one. The smaller of the two MTUs applies, as in Linux: a route's MTU cannot
    /// exceed that of the link.
    pub(crate) fn mtu_to(&self, destination: IpAddr, route: Option<u16>) -> u16 {
        let least = if destination.is_ipv6() { LEAST_V6 } else { 0 };
        route.map_or(self.mtu, |route| self.mtu.min(route.max(least)))
    }
}

/// Packets that a router forwards only if the operator allows it.
///
/// # Cost
/// None: such packets take the cold path anyway.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Allow {
    /// Martians for whose checks RFC 1812 §5.3.7 allows a switch. These are IPv4 packets from and to this network
    /// (0/8), loopback (127/8) and class E (240/4). They are also packets of both families from the router's own
    /// addresses and from the broadcast addresses of its networks. All other martians are never forwarded.
    pub martians: bool,
    /// IPv4 packets with a loose source route, if this router is between two of the route's stops (RFC 7126 §4.3).
    pub source_routes: bool,
}

/// The check of the source addresses of packets that come in on a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReversePath {
    /// No check.
    #[default]
    Off,
    /// Some route must lead to the source, by any interface (RFC 3704 §2.4). A default route leads to every source.
    /// Suits networks in which paths are asymmetric.
    Loose,
    /// The route of the longest prefix to the source, or one of its paths, must leave by this port (RFC 3704 §2.2,
    /// §2.3).
    Strict,
}

/// There is no check of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{seen:?} is not a reverse path check: write strict, loose or off")]
pub struct ReversePathError {
    /// The text that was given.
    pub seen: String,
}

impl FromStr for ReversePath {
    type Err = ReversePathError;

    fn from_str(text: &str) -> Result<ReversePath, ReversePathError> {
        let all = [ReversePath::Off, ReversePath::Loose, ReversePath::Strict];
        let found = all.into_iter().find(|how| how.to_string() == text);
        found.ok_or_else(|| ReversePathError { seen: text.to_owned() })
    }
}

impl fmt::Display for ReversePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReversePath::Off => "off",
            ReversePath::Loose => "loose",
            ReversePath::Strict => "strict",
        })
    }
}
