//! Routes: longest-prefix match from a destination to the next hop.

use std::cmp::Reverse;
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use ipnet::Ipv4Net;
use prefix_trie::PrefixMap;

use crate::wire::MacAddr;

/// Where a packet goes next: out of a port, to a station there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(8))]
pub struct NextHop {
    /// The number of the egress port.
    pub port: u8,
    /// The link address of the next router, or of the destination itself.
    pub mac: MacAddr,
}

/// The table of routes.
///
/// Most tables here hold a few routes, and for those a scan beats any tree; the tree takes over
/// when they become many.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Invariant: `first` and `further` hold every route of `all`, the longest prefixes first, or,
    /// when they are more than [`FEW_MAX`], none.
    first: Line,
    further: Vec<Line>,
    all: PrefixMap<(u32, u8), NextHop>,
}

/// Routes that are scanned at most: four cache lines of them, and the scan's worst case still beats
/// the tree's usual one.
const FEW_MAX: usize = 4 * PER_LINE;

/// Routes in a [`Line`]: as many as a 128-bit register compares at once.
const PER_LINE: usize = 4;

const _: () = assert!(size_of::<Line>() == 64);

/// A cache line of routes, as the scan compares them: all at once, and without a branch for each,
/// which mixed destinations would have the processor guess wrong.
///
/// Masks and networks are as the bytes of an address lie in a packet.
/// Invariant: an unused place has a mask of 0 and a network that is not 0, so that no address matches it.
#[derive(Debug, Clone)]
#[repr(align(64))]
struct Line {
    masks: [u32; PER_LINE],
    networks: [u32; PER_LINE],
    hops: [NextHop; PER_LINE],
}

impl Default for Line {
    fn default() -> Self {
        Line::new(&[])
    }
}

impl Line {
    /// The line of up to four routes, the longest prefix first.
    fn new(routes: &[(u32, u32, NextHop)]) -> Self {
        let nowhere = NextHop { port: u8::MAX, mac: MacAddr::BROADCAST };
        let mut line = Line { masks: [0; PER_LINE], networks: [1; PER_LINE], hops: [nowhere; PER_LINE] };
        for (i, (mask, network, hop)) in routes.iter().take(PER_LINE).enumerate() {
            (line.masks[i], line.networks[i], line.hops[i]) = (mask.to_be(), network.to_be(), *hop);
        }
        line
    }

    /// The next hop of the first route that covers `address`, its bytes as they lie in a packet.
    #[inline]
    fn find(&self, address: u32) -> Option<&NextHop> {
        let mut hits = 0u32;
        for i in 0..PER_LINE {
            hits |= u32::from(address & self.masks[i] == self.networks[i]) << i;
        }
        if hits == 0 { None } else { self.hops.get(hits.trailing_zeros() as usize) }
    }
}

impl Table {
    /// A table without routes.
    pub fn new() -> Self {
        Table::default()
    }

    /// The next hop of the longest prefix that covers `destination`.
    ///
    /// # Cost
    /// One cache line and no branch for every four routes up to 16; above, at most seven tree nodes.
    #[inline]
    pub fn lookup(&self, destination: Ipv4Addr) -> Option<&NextHop> {
        match self.first.find(u32::from_ne_bytes(destination.octets())) {
            None => self.lookup_further(destination),
            found => found,
        }
    }

    #[cold]
    #[inline(never)]
    fn lookup_further(&self, destination: Ipv4Addr) -> Option<&NextHop> {
        if self.all.len() > FEW_MAX {
            return self.all.get_lpm(&(destination.to_bits(), 32)).map(|(_, hop)| hop);
        }
        let address = u32::from_ne_bytes(destination.octets());
        self.further.iter().find_map(|line| line.find(address))
    }

    /// Adds a route, and gives the next hop that its prefix had before.
    ///
    /// # Cost
    /// Allocates; not for the hot path.
    pub fn insert(&mut self, route: Route) -> Option<NextHop> {
        let Route { prefix, port, mac } = route;
        let replaced =
            self.all.insert((prefix.network().to_bits(), prefix.prefix_len()), NextHop { port, mac });
        self.compile();
        replaced
    }

    /// Lays the routes out for the scan.
    fn compile(&mut self) {
        let mut routes = Vec::new();
        if self.all.len() <= FEW_MAX {
            let mask = |length: u8| u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            routes.extend(self.all.iter().map(|((network, length), hop)| (mask(length), network, *hop)));
            routes.sort_by_key(|(mask, ..)| Reverse(*mask));
        }
        let mut lines = routes.chunks(PER_LINE).map(Line::new);
        self.first = lines.next().unwrap_or_default();
        self.further = lines.collect();
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Whether there is no route at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<Route> for Table {
    fn from_iter<I: IntoIterator<Item = Route>>(routes: I) -> Self {
        let mut table = Table::new();
        for route in routes {
            table.insert(route);
        }
        table
    }
}

/// A route as a person writes it: `PREFIX,port,mac`.
///
/// ```
/// use netmem::forward::route::Route;
///
/// let route: Route = "10.0.2.0/24,1,02:00:00:00:00:02".parse()?;
/// assert_eq!(route.port, 1);
/// assert_eq!(route.to_string(), "10.0.2.0/24,1,02:00:00:00:00:02");
/// # Ok::<(), netmem::forward::route::RouteError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The destinations it is for.
    pub prefix: Ipv4Net,
    /// The number of the egress port.
    pub port: u8,
    /// The link address of the next hop.
    pub mac: MacAddr,
}

/// What is wrong with a route's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// There are not three parts.
    #[error("route {seen:?}: write PREFIX,port,mac, as in 10.0.2.0/24,1,02:00:00:00:00:02")]
    Parts {
        /// The whole text.
        seen: String,
    },
    /// The first part is no IPv4 prefix.
    #[error("route prefix {seen:?}: write an IPv4 network and its length, as in 10.0.2.0/24")]
    Prefix {
        /// The first part.
        seen: String,
    },
    /// The prefix names a host in the network, not the network.
    #[error("route prefix {seen:?} has bits set behind its length: write {network}")]
    HostBits {
        /// The first part.
        seen: String,
        /// The network that the host is in.
        network: Ipv4Net,
    },
    /// The second part is no port number.
    #[error("route port {seen:?}: write the number of a --port in the order given, from 0 to 255")]
    Port {
        /// The second part.
        seen: String,
    },
    /// There is no port of that number.
    #[error("route port {seen}: there are {ports} ports, numbered from 0")]
    NoSuchPort {
        /// The port's number.
        seen: u8,
        /// How many ports there are.
        ports: usize,
    },
    /// The third part is no link address.
    #[error("route mac {seen:?}: write six pairs of hex digits, as in 02:00:00:00:00:02")]
    Mac {
        /// The third part.
        seen: String,
    },
    /// The link address is one of a group.
    #[error("route mac {seen} is a multicast address: write the next hop's own, whose first byte is even")]
    GroupMac {
        /// The third part.
        seen: MacAddr,
    },
}

impl Route {
    /// Checks that the route's port is one of `ports`.
    ///
    /// # Errors
    /// [`RouteError::NoSuchPort`].
    pub fn check_port(&self, ports: usize) -> Result<(), RouteError> {
        if usize::from(self.port) < ports {
            Ok(())
        } else {
            Err(RouteError::NoSuchPort { seen: self.port, ports })
        }
    }
}

impl FromStr for Route {
    type Err = RouteError;

    fn from_str(text: &str) -> Result<Self, RouteError> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        let [prefix, port, mac] = parts[..] else { return Err(RouteError::Parts { seen: text.into() }) };
        let network: Ipv4Net = prefix.parse().map_err(|_| RouteError::Prefix { seen: prefix.into() })?;
        if network.trunc() != network {
            return Err(RouteError::HostBits { seen: prefix.into(), network: network.trunc() });
        }
        let port = port.parse().map_err(|_| RouteError::Port { seen: port.into() })?;
        let mac: MacAddr = mac.parse().map_err(|_| RouteError::Mac { seen: mac.into() })?;
        if mac.is_group() {
            return Err(RouteError::GroupMac { seen: mac });
        }
        Ok(Route { prefix: network, port, mac })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{},{}", self.prefix, self.port, self.mac)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn route(text: &str) -> Route {
        text.parse().unwrap()
    }

    #[test]
    fn the_longest_prefix_wins_whatever_the_order() {
        let routes = ["0.0.0.0/0,0", "10.0.0.0/8,1", "10.1.0.0/16,2", "10.1.2.3/32,3", "128.0.0.0/1,4"];
        let mut routes = routes.map(|text| route(&format!("{text},02:00:00:00:00:01")));
        for turn in 0..routes.len() {
            routes.rotate_left(turn);
            let table: Table = routes.into_iter().collect();
            let port = |address: [u8; 4]| table.lookup(address.into()).unwrap().port;
            assert_eq!(
                [[9, 9, 9, 9], [10, 9, 9, 9], [10, 1, 9, 9], [10, 1, 2, 3], [200, 0, 0, 1]].map(port),
                [0, 1, 2, 3, 4]
            );
        }
    }

    #[test]
    fn an_empty_table_knows_no_way_and_a_replaced_route_leads_elsewhere() {
        let mut table = Table::new();
        assert_eq!(table.lookup(Ipv4Addr::new(10, 0, 0, 1)), None);
        assert_eq!(table.insert(route("10.0.0.0/8,0,02:00:00:00:00:01")), None);
        let before = table.insert(route("10.0.0.0/8,1,02:00:00:00:00:02")).unwrap();
        assert_eq!((before.port, table.len()), (0, 1));
        assert_eq!(table.lookup(Ipv4Addr::new(10, 0, 0, 1)).unwrap().port, 1);
        assert_eq!(table.lookup(Ipv4Addr::new(11, 0, 0, 1)), None);
    }

    #[test]
    fn a_wrong_route_says_which_part_and_what_would_be_right() {
        let error = |text: &str| text.parse::<Route>().expect_err(text).to_string();
        for (text, says) in [
            ("", "PREFIX,port,mac"),
            ("10.0.0.0/8,1", "PREFIX,port,mac"),
            ("10.0.0.0/8,1,02:00:00:00:00:02,", "PREFIX,port,mac"),
            ("10.0.0.0/33,1,02:00:00:00:00:02", "prefix \"10.0.0.0/33\""),
            ("10.0.0/8,1,02:00:00:00:00:02", "prefix \"10.0.0/8\""),
            ("10.0.0.1,1,02:00:00:00:00:02", "prefix \"10.0.0.1\""),
            ("10.0.2.7/24,1,02:00:00:00:00:02", "write 10.0.2.0/24"),
            ("10.0.0.0/8,-1,02:00:00:00:00:02", "port \"-1\""),
            ("10.0.0.0/8,256,02:00:00:00:00:02", "from 0 to 255"),
            ("10.0.0.0/8,1,02:00:00:00:00", "mac \"02:00:00:00:00\""),
            ("10.0.0.0/8,1,ff:ff:ff:ff:ff:ff", "multicast"),
        ] {
            let seen = error(text);
            assert!(seen.contains(says) && !seen.contains('\n'), "{text}: {seen}");
        }
        let route = route("10.0.0.0/8,2,02:00:00:00:00:02");
        assert_eq!(route.check_port(3), Ok(()));
        assert!(route.check_port(2).unwrap_err().to_string().contains("2 ports"));
    }

    proptest! {
        /// The model: every route is tried, the longest that covers the address is kept. Addresses
        /// lie near the routes, and the tables lie on both sides of the scan's limit.
        #[test]
        fn lookups_are_those_of_a_brute_force_search(
            routes in prop::collection::vec((any::<u32>(), 0u8..=32, any::<u8>()), 0..3 * FEW_MAX),
            flips in prop::collection::vec((any::<prop::sample::Index>(), 0u32..33), 1..50),
        ) {
            let routes: Vec<Route> = routes.into_iter().map(|(address, length, port)| {
                // Few distinct networks, so that prefixes nest.
                let prefix = Ipv4Net::new((address & 0x0f00_8181).into(), length).unwrap().trunc();
                Route { prefix, port, mac: MacAddr::new([2, 0, 0, 0, 0, port]) }
            }).collect();
            let table: Table = routes.iter().copied().collect();
            for (at, flip) in flips {
                let near = if routes.is_empty() { 0 } else { at.get(&routes).prefix.network().to_bits() };
                let address = Ipv4Addr::from_bits(near ^ 1u32.checked_shl(flip).unwrap_or(0));
                // `max_by_key` keeps the last of equals: the route that replaced the others.
                let model = routes.iter().filter(|route| route.prefix.contains(&address))
                    .max_by_key(|route| route.prefix.prefix_len())
                    .map(|route| NextHop { port: route.port, mac: route.mac });
                prop_assert_eq!(table.lookup(address).copied(), model, "{}", address);
            }
        }
    }
}
