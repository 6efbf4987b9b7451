//! The same routes in the product's table and in a plain prefix map of the library that it is built on.

use std::net::IpAddr;

use ipnet::IpNet;
use netmem_router::route::{Fib, FibEntry, Hop, Origin, Resolution, Rib, RibRoute};
use prefix_trie::PrefixMap;

use super::routes::{Family, LINK, STATIONS, Way, station, station_mac};
use crate::method::clock::{Clock, Tsc};

/// Routes that are loaded between two reads of the clock.
const CHUNK: usize = 500;

/// The port that [`LINK`] is on.
const PORT: u8 = 0;

/// The product's two tables: the one with all information, and the one for packets.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) rib: Rib,
    pub(super) fib: Fib,
    /// The median of the time that a route took, in nanoseconds.
    pub(super) ns_per_route: f64,
}

/// A route of the kernel's main table.
pub(super) fn route(family: Family, (prefix, way): (IpNet, Way)) -> RibRoute {
    RibRoute { prefix, origin: Origin::Main, metric: 0, target: way.target(family), distinguisher: 0 }
}

/// Loads all routes into the product's tables. All stations are known.
pub(super) fn load(clock: &Tsc, family: Family, routes: &[(IpNet, Way)]) -> Loaded {
    let (mut rib, mut fib) = (Rib::new([(LINK, PORT)]), Fib::default());
    for number in 0..STATIONS {
        rib.set_neighbour(LINK, station(family, number), Resolution::Known(station_mac(number)));
    }
    fib.apply(&rib.take_changes());
    let ns_per_route = timed_by_chunks(clock, routes, |chunk| {
        for each in chunk {
            rib.insert(&route(family, *each));
        }
        fib.apply(&rib.take_changes());
    });
    Loaded { rib, fib, ns_per_route }
}

/// Returns the median over chunks of the time for a route, in nanoseconds.
fn timed_by_chunks(clock: &Tsc, routes: &[(IpNet, Way)], mut add: impl FnMut(&[(IpNet, Way)])) -> f64 {
    let mut chunks = Vec::new();
    for chunk in routes.chunks(CHUNK) {
        let begun = clock.ticks();
        add(chunk);
        chunks.push((clock.ticks() - begun) as f64 / chunk.len() as f64);
    }
    chunks.sort_by(f64::total_cmp);
    chunks.get(chunks.len() / 2).copied().unwrap_or_default() / clock.ticks_per_ns()
}

/// Routes to a station or to the neighbour itself are found in the table's hop. The others take more steps.
#[inline]
pub(super) fn hop(fib: &Fib, to: IpAddr) -> Option<&FibEntry> {
    match to {
        IpAddr::V4(to) => fib.table.lookup(to),
        IpAddr::V6(to) => fib.table.lookup_v6(to),
    }
}

/// Whether a packet of the flow with this hash goes where `way` leads.
pub(super) fn agrees(fib: &Fib, to: IpAddr, flow: u32, way: Option<Way>) -> bool {
    match (fib.table.next_hop(to, || flow), way) {
        (Some(Hop::Station { port: PORT, mac }), Some(way)) => way.leads_to(mac),
        (Some(Hop::Blackhole), Some(Way::Blackhole)) | (None, None) => true,
        _ => false,
    }
}

/// The plain map. Its keys are as wide as the table's own: network and length.
#[derive(Debug)]
pub(super) enum Plain {
    V4(PrefixMap<(u32, u8), Way>),
    V6(PrefixMap<(u128, u8), Way>),
}

impl Plain {
    /// Loads all routes. Returns the map, and the median of the time for a route, in nanoseconds.
    pub(super) fn load(clock: &Tsc, family: Family, routes: &[(IpNet, Way)]) -> (Plain, f64) {
        let mut plain = match family {
            Family::V4 => Plain::V4(PrefixMap::new()),
            Family::V6 => Plain::V6(PrefixMap::new()),
        };
        let ns = timed_by_chunks(clock, routes, |chunk| chunk.iter().for_each(|route| plain.insert(*route)));
        (plain, ns)
    }

    fn insert(&mut self, (prefix, way): (IpNet, Way)) {
        match (self, prefix) {
            (Plain::V4(map), IpNet::V4(net)) => {
                map.insert((net.network().to_bits(), net.prefix_len()), way);
            }
            (Plain::V6(map), IpNet::V6(net)) => {
                map.insert((net.network().to_bits(), net.prefix_len()), way);
            }
            _ => {}
        }
    }

    #[inline]
    pub(super) fn lookup(&self, to: IpAddr) -> Option<Way> {
        match (self, to) {
            (Plain::V4(map), IpAddr::V4(to)) => map.get_lpm(&(to.to_bits(), 32)).map(|(_, way)| *way),
            (Plain::V6(map), IpAddr::V6(to)) => map.get_lpm(&(to.to_bits(), 128)).map(|(_, way)| *way),
            _ => None,
        }
    }

    /// Returns the bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Plain::V4(map) => map.mem_size(),
            Plain::V6(map) => map.mem_size(),
        }
    }
}
