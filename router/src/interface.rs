//! The router's ends of its links, what it asks of packets that come in by them, and what it forwards that usually is not forwarded.

use netmem::wire::MacAddr;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

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

/// What a port asks of the sources of packets that come in by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ReversePath {
    /// Nothing.
    #[default]
    Off,
    /// That some route leads to them, by whatever interface (RFC 3704 §2.4); a default route leads everywhere. Where paths are not
    /// the same both ways.
    Loose,
    /// That the longest route to them leads out of this port, or one of its paths does (RFC 3704 §2.2, §2.3).
    Strict,
}

/// There is no check of that name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{seen:?} is no reverse path check: write strict, loose or off")]
pub struct ReversePathError {
    /// What was written.
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
