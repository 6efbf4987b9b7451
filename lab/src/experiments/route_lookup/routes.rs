//! The made-up table: prefixes, next hops, and destinations that the prefixes cover.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netmem::wire::MacAddr;
use netmem_router::route::{Target, Via};

use crate::method::random::Random;

/// Stations that routes lead to.
pub(super) const STATIONS: u8 = 64;

/// The link of all stations, as the table's side numbers it.
pub(super) const LINK: u32 = 1;

/// Number of prefixes with each length, of a hundred.
const LENGTHS_V4: [(u8, usize); 6] = [(24, 60), (22, 13), (23, 10), (20, 7), (19, 5), (16, 5)];
const LENGTHS_V6: [(u8, usize); 6] = [(48, 46), (32, 20), (44, 12), (40, 10), (36, 7), (29, 5)];

/// Of this number of routes one is a blackhole, and [`PATHS_SHARE`] have two paths.
const SHARES: usize = 64;
const PATHS_SHARE: usize = 4;

/// The destination of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// To this station.
    Station(u8),
    /// To this station and the next one, with half of the flows each.
    Paths(u8),
    /// Nowhere.
    Blackhole,
}

impl Way {
    pub(super) fn kind(self) -> Kind {
        match self {
            Way::Station(_) => Kind::Station,
            Way::Paths(_) => Kind::Paths,
            Way::Blackhole => Kind::Blackhole,
        }
    }

    /// Whether a packet may leave to this station by this route.
    pub(super) fn leads_to(self, mac: MacAddr) -> bool {
        self.stations().iter().any(|number| station_mac(*number) == mac)
    }

    /// Returns the stations that it leads to.
    pub(super) fn stations(self) -> Vec<u8> {
        match self {
            Way::Station(number) => vec![number],
            Way::Paths(number) => vec![number, (number + 1) % STATIONS],
            Way::Blackhole => vec![],
        }
    }

    /// Returns the target for the product's table.
    pub(super) fn target(self, family: Family) -> Target {
        match self {
            Way::Blackhole => Target::Blackhole,
            way => {
                let stations = way.stations().into_iter();
                let via = |number| Via::new(LINK, Some(station(family, number)));
                Target::paths(stations.map(via).collect())
            }
        }
    }
}

/// A kind of route. The lookup of each kind takes different steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Station,
    Paths,
    Blackhole,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Station, Kind::Paths, Kind::Blackhole];

    /// The name in a row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Station => "station",
            Kind::Paths => "two paths",
            Kind::Blackhole => "blackhole",
        }
    }
}

/// A family of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

impl Family {
    /// The name in a row.
    pub(super) fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    /// Returns a prefix of this length that could be in use. Returns None for 0/8, 127/8, multicast and reserved
    /// addresses, for 10/8, which has the link here, and for 169/8, which has the link-local addresses.
    fn prefix(self, bits: u128, length: u8) -> Option<IpNet> {
        match self {
            Family::V4 => {
                let address = Ipv4Addr::from_bits((bits >> 96) as u32);
                let usable = matches!(address.octets()[0], 1..=9 | 11..=126 | 128..=168 | 170..=223);
                usable.then(|| Ipv4Net::new(address, length).ok()).flatten().map(IpNet::from)
            }
            // All within 2000::/3.
            Family::V6 => {
                Ipv6Net::new(Ipv6Addr::from_bits(bits >> 3 | 1 << 125), length).ok().map(IpNet::from)
            }
        }
    }
}

/// A station's address on the link.
pub(super) fn station(family: Family, number: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 77, 0, 100 + number).into(),
        Family::V6 => Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, 100 + u16::from(number)).into(),
    }
}

/// Returns its MAC address.
pub(super) fn station_mac(number: u8) -> MacAddr {
    MacAddr::new([2, 0, 0, 0, 1, number])
}

/// Returns this number of prefixes with the shares of the lengths, each once.
pub(super) fn routes(family: Family, count: usize, random: &mut Random) -> Vec<(IpNet, Way)> {
    let lengths: &[_] = if family == Family::V4 { &LENGTHS_V4 } else { &LENGTHS_V6 };
    let shares: Vec<u8> = lengths.iter().flat_map(|(length, share)| vec![*length; *share]).collect();
    let (mut routes, mut seen) = (Vec::with_capacity(count), HashSet::with_capacity(count));
    while routes.len() < count {
        let length = shares[random.below(shares.len())];
        let bits = u128::from(random.bits()) << 64 | u128::from(random.bits());
        if let Some(prefix) = family.prefix(bits, length).map(|net| net.trunc())
            && seen.insert(prefix)
        {
            let number = random.below(STATIONS.into()) as u8;
            let way = match random.below(SHARES) {
                0 => Way::Blackhole,
                1..=PATHS_SHARE => Way::Paths(number),
                _ => Way::Station(number),
            };
            routes.push((prefix, way));
        }
    }
    routes
}

/// Returns an address that some route covers.
pub(super) fn destination(routes: &[(IpNet, Way)], random: &mut Random) -> IpAddr {
    let host = u128::from(random.bits()) << 64 | u128::from(random.bits());
    match routes[random.below(routes.len())].0 {
        IpNet::V4(net) => {
            let address = net.network().to_bits() | host as u32 & net.hostmask().to_bits();
            Ipv4Addr::from_bits(address).into()
        }
        IpNet::V6(net) => {
            let address = net.network().to_bits() | host & net.hostmask().to_bits();
            Ipv6Addr::from_bits(address).into()
        }
    }
}
