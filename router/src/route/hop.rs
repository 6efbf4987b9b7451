//! Next hops: packed in eight bytes for the lookup ([`FibEntry`]), and as an enum for callers ([`Hop`]).

use std::fmt;
use std::net::IpAddr;

use netmem::wire::MacAddr;

/// The next hop of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// A station on a port's link.
    Station {
        /// The number of the egress port.
        port: u8,
        /// The station's MAC address.
        mac: MacAddr,
    },
    /// A neighbour whose MAC address is not known and has to be asked for.
    Unresolved(Neighbour),
    /// A neighbour that was asked for its MAC address and did not answer.
    Failed(Neighbour),
    /// The router itself: the packet is for the kernel.
    Local,
    /// None, and no ICMP error is sent (a `blackhole` route).
    Blackhole,
    /// None: the destination is unreachable (an `unreachable` route).
    Unreachable,
    /// None: the destination is prohibited (a `prohibit` route).
    Prohibit,
    /// An interface that is not a port.
    Elsewhere,
}

impl Hop {
    /// Returns the egress port, if the next hop is on a port's link, whether or not its MAC address is known.
    pub const fn port(self) -> Option<u8> {
        match self {
            Hop::Station { port, .. }
            | Hop::Unresolved(Neighbour { port, .. })
            | Hop::Failed(Neighbour { port, .. }) => Some(port),
            _ => None,
        }
    }
}

/// A station on a link, named by its IP address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Neighbour {
    /// The number of the port that the link is on.
    pub port: u8,
    /// Its IP address.
    pub address: IpAddr,
}

/// One of the paths of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The egress port, or None if the interface is not a port.
    pub port: Option<u8>,
    /// The next router, or None if the destination itself is on the link.
    pub via: Option<IpAddr>,
    /// The path's share of the flows, relative to the weights of the other paths.
    pub weight: u16,
    /// The route's own MTU for this path in bytes of IP packet, if it has one. It may exceed that of the link.
    pub mtu: Option<u16>,
}

/// An entry of the table that workers look up: a next hop in packed form.
///
/// Invariant: `port` is a port's number if `kind` is `Station`, and `NO_PORT` otherwise. No interface has the
/// number `NO_PORT`. So on the hot path the check of the port is the only check, and every special kind fails it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub struct FibEntry {
    pub(crate) port: u8,
    kind: Kind,
    /// The MAC address of a station. For other kinds, the number that belongs to the kind, in the first bytes.
    pub(crate) mac: MacAddr,
}

const _: () = assert!(size_of::<FibEntry>() == 8);

/// A number that no port has: there are at most 255 ports.
const NO_PORT: u8 = u8::MAX;

/// The kind of a [`FibEntry`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Station,
    /// The destination is on the link of the port with the given number.
    OnLink,
    /// The paths of the hop with the given number: several, or one whose neighbour is not resolved or that has an
    /// MTU of its own.
    Paths,
    Local,
    Blackhole,
    Unreachable,
    Prohibit,
    Elsewhere,
    Throw,
}

impl FibEntry {
    /// Returns the hop out of `port` to the station with this MAC address.
    pub const fn station(port: u8, mac: MacAddr) -> FibEntry {
        FibEntry { port, kind: Kind::Station, mac }
    }

    /// Returns the hop to destinations that are themselves on the link of `port`.
    pub const fn on_link(port: u8) -> FibEntry {
        FibEntry::special(Kind::OnLink, port as u32)
    }

    /// Returns the hop with the paths of hop number `id`.
    pub(super) const fn paths(id: u32) -> FibEntry {
        FibEntry::special(Kind::Paths, id)
    }

    /// To the router itself.
    pub const LOCAL: FibEntry = FibEntry::special(Kind::Local, 0);
    /// No next hop; silently dropped.
    pub const BLACKHOLE: FibEntry = FibEntry::special(Kind::Blackhole, 0);
    /// No next hop: unreachable.
    pub const UNREACHABLE: FibEntry = FibEntry::special(Kind::Unreachable, 0);
    /// No next hop: prohibited.
    pub const PROHIBIT: FibEntry = FibEntry::special(Kind::Prohibit, 0);
    /// Out of an interface that is not a port.
    pub const ELSEWHERE: FibEntry = FibEntry::special(Kind::Elsewhere, 0);
    /// As if there were no route (a `throw` route): no table follows in which the lookup could continue.
    pub const THROW: FibEntry = FibEntry::special(Kind::Throw, 0);

    const fn special(kind: Kind, number: u32) -> FibEntry {
        let [a, b, c, d] = number.to_be_bytes();
        FibEntry { port: NO_PORT, kind, mac: MacAddr::new([a, b, c, d, 0, 0]) }
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the number that belongs to a kind other than `Station`.
    pub(super) const fn number(&self) -> u32 {
        let [a, b, c, d, ..] = self.mac.bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

impl fmt::Debug for FibEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Station => write!(f, "Station({}, {})", self.port, self.mac),
            Kind::OnLink | Kind::Paths => write!(f, "{:?}({})", self.kind, self.number()),
            other => write!(f, "{other:?}"),
        }
    }
}
