//! Next hops: as they are looked up, in eight bytes, and as they are understood.

use std::fmt;
use std::net::IpAddr;

use netmem::wire::MacAddr;

/// Where a packet goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hop {
    /// Out of a port, to a station there.
    Station {
        /// The number of the egress port.
        port: u8,
        /// The station's link address.
        mac: MacAddr,
    },
    /// To a neighbour whose link address is not known yet: somebody has to ask.
    Unresolved(Neighbour),
    /// To a neighbour that was asked for and did not answer.
    Silent(Neighbour),
    /// To the router itself: the packet is the kernel's.
    Local,
    /// Nowhere, and nobody is told (a `blackhole` route).
    Blackhole,
    /// Nowhere: the destination is unreachable (an `unreachable` route).
    Unreachable,
    /// Nowhere: it is prohibited to go there (a `prohibit` route).
    Prohibit,
    /// Out of an interface that is no port here.
    Elsewhere,
}

impl Hop {
    /// The egress port of what goes to a station, known or not.
    pub const fn port(self) -> Option<u8> {
        match self {
            Hop::Station { port, .. }
            | Hop::Unresolved(Neighbour { port, .. })
            | Hop::Silent(Neighbour { port, .. }) => Some(port),
            _ => None,
        }
    }
}

/// A station on a link, by its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Neighbour {
    /// The number of the port that the link is on.
    pub port: u8,
    /// Its IP address.
    pub address: IpAddr,
}

/// One of a route's ways out of here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The egress port; None where the interface is no port here.
    pub port: Option<u8>,
    /// The next router; None where the destination itself is on the link.
    pub via: Option<IpAddr>,
    /// Its share of the flows, beside those of the other paths.
    pub weight: u16,
    /// Bytes of IP packet that may go this way, where the route says so: also where the link carries more.
    pub mtu: Option<u16>,
}

/// A next hop as the table holds it.
///
/// Invariant: `port` is a port's number only where `kind` is `Station`, and `NO_PORT` otherwise. There is no interface
/// of that number, so that on the hot path everything that is not as usual fails the check of the port, and no other.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub struct NextHop {
    pub(crate) port: u8,
    kind: Kind,
    /// Of a station; else the number that goes with the kind, in the first bytes.
    pub(crate) mac: MacAddr,
}

const _: () = assert!(size_of::<NextHop>() == 8);

/// No port has this number: there are 255 at most.
const NO_PORT: u8 = u8::MAX;

/// What a [`NextHop`] means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Station,
    /// The destination is on the link of the port whose number goes with it.
    OnLink,
    /// The paths of the hop whose number goes with it: several, or one whose neighbour is not resolved or that has an MTU of its own.
    Paths,
    Local,
    Blackhole,
    Unreachable,
    Prohibit,
    Elsewhere,
}

impl NextHop {
    /// Out of `port`, to the station with this link address.
    pub const fn station(port: u8, mac: MacAddr) -> NextHop {
        NextHop { port, kind: Kind::Station, mac }
    }

    /// To destinations that are themselves on the link of `port`.
    pub const fn on_link(port: u8) -> NextHop {
        NextHop::special(Kind::OnLink, port as u32)
    }

    /// By the paths of hop number `id`.
    pub(super) const fn paths(id: u32) -> NextHop {
        NextHop::special(Kind::Paths, id)
    }

    /// To the router itself.
    pub const LOCAL: NextHop = NextHop::special(Kind::Local, 0);
    /// Nowhere, in silence.
    pub const BLACKHOLE: NextHop = NextHop::special(Kind::Blackhole, 0);
    /// Nowhere: unreachable.
    pub const UNREACHABLE: NextHop = NextHop::special(Kind::Unreachable, 0);
    /// Nowhere: prohibited.
    pub const PROHIBIT: NextHop = NextHop::special(Kind::Prohibit, 0);
    /// Out of an interface that is no port here.
    pub const ELSEWHERE: NextHop = NextHop::special(Kind::Elsewhere, 0);

    const fn special(kind: Kind, number: u32) -> NextHop {
        let [a, b, c, d] = number.to_be_bytes();
        NextHop { port: NO_PORT, kind, mac: MacAddr::new([a, b, c, d, 0, 0]) }
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    /// The number that goes with a kind other than `Station`.
    pub(super) const fn number(&self) -> u32 {
        let [a, b, c, d, ..] = self.mac.bytes();
        u32::from_be_bytes([a, b, c, d])
    }
}

impl fmt::Debug for NextHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Station => write!(f, "Station({}, {})", self.port, self.mac),
            Kind::OnLink | Kind::Paths => write!(f, "{:?}({})", self.kind, self.number()),
            other => write!(f, "{other:?}"),
        }
    }
}
