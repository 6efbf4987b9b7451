//! `route-lookup`: a full table of either family: what a route costs to load, what memory it takes, what a lookup costs;
//! beside a plain prefix map of the library that the table is built on, and a table of a few routes.
//!
//! The prefixes are made up: as many of each length as the Internet's tables have, roughly, and none twice. poptrie, the
//! other library that answers such lookups, is left out: to build a table takes it time that grows with the square of its
//! routes.

use std::collections::HashSet;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use netmem::forward::route::{Fib, Hop, NextHop, Origin, Rib, RibRoute, Target};
use netmem::wire::MacAddr;
use prefix_trie::PrefixMap;
use serde_json::Value;

use super::Experiment;
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::params;
use crate::method::clock::{Clock, Tsc};
use crate::method::random::Random;
use crate::method::round::{Label, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use crate::settings::Key;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "route-lookup",
    source: "004_4959864586ce918c.txt",
    question: "What does a full table of routes cost: to load, to hold, and to look up in?",
    seconds: 60,
    keys: &[ROUTES_V4, ROUTES_V6],
    run,
};

const ROUTES_V4: Key = Key {
    name: "routes-v4",
    what: "IPv4 prefixes in the table",
    min: 100,
    max: 2_000_000,
    full: 1_000_000,
    quick: 20_000,
};
const ROUTES_V6: Key = Key {
    name: "routes-v6",
    what: "IPv6 prefixes in the table",
    min: 100,
    max: 1_000_000,
    full: 200_000,
    quick: 10_000,
};

/// Of a hundred prefixes so many have this length.
const LENGTHS_V4: [(u8, usize); 6] = [(24, 60), (22, 13), (23, 10), (20, 7), (19, 5), (16, 5)];
const LENGTHS_V6: [(u8, usize); 6] = [(48, 46), (32, 20), (44, 12), (40, 10), (36, 7), (29, 5)];

/// Stations that routes lead to.
const STATIONS: usize = 64;
/// Destinations looked up in turn, each covered by some prefix.
const DESTINATIONS: usize = 1 << 16;
/// Routes that are loaded between two looks at the clock.
const CHUNK: usize = 500;
/// Routes of the table of a few.
const FEW: usize = 4;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let mut random = Random::new(bench.setting("seed"));
    let count = |bench: &Bench<'_>, key: Key| bench.setting(key.name) as usize;
    let v4 = routes(count(bench, ROUTES_V4), &LENGTHS_V4, &mut random, |bits, length| {
        Ipv4Net::new(Ipv4Addr::from_bits((bits >> 96) as u32), length).ok().map(IpNet::from)
    });
    // All within 2000::/3, as those in use.
    let v6 = routes(count(bench, ROUTES_V6), &LENGTHS_V6, &mut random, |bits, length| {
        Ipv6Net::new(Ipv6Addr::from_bits(bits >> 3 | 1 << 125), length).ok().map(IpNet::from)
    });
    for (family, routes) in [("IPv4", &v4), ("IPv6", &v6)] {
        measure(bench, family, routes, &mut random)?;
    }
    few(bench, &v4, &mut random);
    bench.note(
        "memory is that of one table; a router that follows changes has two, and the list of all it knows",
    );
    Ok(())
}

/// Prefixes with the lengths' shares, none twice, each to one of the stations.
fn routes(
    count: usize,
    lengths: &[(u8, usize)],
    random: &mut Random,
    net: impl Fn(u128, u8) -> Option<IpNet>,
) -> Vec<(IpNet, u8)> {
    let shares: Vec<u8> = lengths.iter().flat_map(|(length, share)| vec![*length; *share]).collect();
    let (mut routes, mut seen) = (Vec::with_capacity(count), HashSet::with_capacity(count));
    while routes.len() < count {
        let length = shares[random.below(shares.len())];
        let bits = u128::from(random.bits()) << 64 | u128::from(random.bits());
        if let Some(prefix) = net(bits, length).map(|net| net.trunc())
            && seen.insert(prefix)
        {
            routes.push((prefix, random.below(STATIONS) as u8));
        }
    }
    routes
}

fn station(number: u8) -> MacAddr {
    MacAddr::new([2, 0, 0, 0, 1, number])
}

/// An address that some route covers.
fn destination(routes: &[(IpNet, u8)], random: &mut Random) -> IpAddr {
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

fn label(variant: &str, family: &str, routes: usize, of: &str) -> Label {
    let value = |text: &str| Value::from(text);
    let params = params([("family", value(family)), ("routes", routes.into()), ("of", value(of))]);
    Label { variant: variant.to_owned(), params }
}

/// Loads all routes; the table, and the median of the time that a route took, in nanoseconds.
fn load(clock: &Tsc, routes: &[(IpNet, u8)]) -> (Fib, f64) {
    let (mut rib, mut fib, mut chunks) = (Rib::default(), Fib::default(), Vec::new());
    for chunk in routes.chunks(CHUNK) {
        let begun = clock.ticks();
        for (prefix, number) in chunk {
            let target = Target::Station { port: 0, mac: station(*number) };
            rib.insert(&RibRoute { prefix: *prefix, origin: Origin::Main, metric: 0, target });
        }
        fib.apply(&rib.take_changes());
        chunks.push((clock.ticks() - begun) as f64 / chunk.len() as f64);
    }
    chunks.sort_by(f64::total_cmp);
    let median = chunks.get(chunks.len() / 2).copied().unwrap_or_default();
    (fib, median / clock.ticks_per_ns())
}

/// One family's full table, beside the plain map.
fn measure(
    bench: &mut Bench<'_>,
    family: &str,
    routes: &[(IpNet, u8)],
    random: &mut Random,
) -> Result<(), SetUpError> {
    let clock = bench.clock;
    let (fib, load_ns) = load(&clock, routes);
    let map: PrefixMap<IpNetKey, u8> = routes.iter().map(|(prefix, number)| (key(prefix), *number)).collect();
    let to: Vec<IpAddr> = (0..DESTINATIONS).map(|_| destination(routes, random)).collect();
    let wrong = to.iter().filter(|to| next(&fib, **to) != map_next(&map, **to).map(station)).count();
    bench.check(
        &format!("{family}: every lookup finds what the plain map finds"),
        wrong == 0 && fib.table.len() == routes.len(),
        format!("{wrong} of {DESTINATIONS} differ, {} routes of {}", fib.table.len(), routes.len()),
    );
    let (n, bytes) = (routes.len(), fib.table.bytes());
    bench.once(|bench| {
        bench.figure(label("netmem", family, n, "load, per route"), Metric::NsPerOp, load_ns, None);
        bench.figure(label("netmem", family, n, "memory of a table"), Metric::Bytes, bytes as f64, None);
        let map = map.mem_size() as f64;
        bench.figure(label("prefix-trie", family, n, "memory of a table"), Metric::Bytes, map, None);
        Ok(())
    })?;
    let (mut at, mut other) = (0, 0);
    let ours = looking_up(&to, &mut at, |to| hop(&fib, to).map_or(0, |hop| usize::from(is_found(hop))));
    let theirs = looking_up(&to, &mut other, |to| map_next(&map, to).map_or(0, usize::from));
    let mut variants: Vec<Box<dyn Variant + '_>> = vec![
        Box::new(OpLoop::new(label("netmem", family, n, "lookup"), &clock, ours)),
        Box::new(OpLoop::new(label("prefix-trie", family, n, "lookup"), &clock, theirs)),
    ];
    let comparison = Comparison { a: 0, b: 1, metric: Metric::NsPerOp };
    let effort = bench.effort().shared_by(2);
    let series = bench.measure_with(&mut variants, &[comparison], Cores::Same, effort);
    series.iter().for_each(|series| bench.row(series, Metric::NsPerOp, None));
    Ok(())
}

/// A table of a few routes, which is scanned.
fn few(bench: &mut Bench<'_>, routes: &[(IpNet, u8)], random: &mut Random) {
    let (clock, routes) = (bench.clock, &routes[..FEW]);
    let (fib, _) = load(&clock, routes);
    let to: Vec<IpAddr> = (0..DESTINATIONS).map(|_| destination(routes, random)).collect();
    let mut at = 0;
    let body = looking_up(&to, &mut at, |to| hop(&fib, to).map_or(0, |hop| usize::from(is_found(hop))));
    let label = label("netmem", "IPv4", FEW, "lookup");
    let mut variants: Vec<Box<dyn Variant + '_>> = vec![Box::new(OpLoop::new(label, &clock, body))];
    let effort = bench.effort().shared_by(2);
    let series = bench.measure_with(&mut variants, &[], Cores::Same, effort);
    series.iter().for_each(|series| bench.row(series, Metric::NsPerOp, None));
}

/// Looks up one destination after the other, on and on.
fn looking_up<'a>(
    to: &'a [IpAddr],
    at: &'a mut usize,
    find: impl Fn(IpAddr) -> usize + 'a,
) -> Box<dyn FnMut(u32) + 'a> {
    Box::new(move |ops| {
        for _ in 0..ops {
            *at = (*at + 1) % DESTINATIONS;
            black_box(find(to[*at]));
        }
    })
}

#[inline]
fn hop(fib: &Fib, to: IpAddr) -> Option<&NextHop> {
    match to {
        IpAddr::V4(to) => fib.table.lookup(to),
        IpAddr::V6(to) => fib.table.lookup_v6(to),
    }
}

#[inline]
fn is_found(hop: &NextHop) -> bool {
    *hop != NextHop::ELSEWHERE
}

fn next(fib: &Fib, to: IpAddr) -> Option<MacAddr> {
    match fib.table.next_hop(to, || 0)? {
        Hop::Station { mac, .. } => Some(mac),
        _ => None,
    }
}

/// The plain map's key: network and length, as in the table.
type IpNetKey = (u128, u8);

/// An IPv4 prefix lies in the high bits.
fn key(prefix: &IpNet) -> IpNetKey {
    match prefix {
        IpNet::V4(net) => (u128::from(net.network().to_bits()) << 96, net.prefix_len()),
        IpNet::V6(net) => (net.network().to_bits(), net.prefix_len()),
    }
}

#[inline]
fn map_next(map: &PrefixMap<IpNetKey, u8>, to: IpAddr) -> Option<u8> {
    let (bits, length) = match to {
        IpAddr::V4(to) => (u128::from(to.to_bits()) << 96, 32),
        IpAddr::V6(to) => (to.to_bits(), 128),
    };
    map.get_lpm(&(bits, length)).map(|(_, number)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;

    #[test]
    fn a_quick_run_finds_every_route_and_says_what_it_costs() {
        let report = report_of(false, |bench| {
            let mut random = Random::new(7);
            let v6 = routes(2_000, &LENGTHS_V6, &mut random, |bits, length| {
                Ipv6Net::new(Ipv6Addr::from_bits(bits), length).ok().map(IpNet::from)
            });
            assert_eq!(v6.iter().map(|(prefix, _)| prefix).collect::<HashSet<_>>().len(), 2_000);
            measure(bench, "IPv6", &v6, &mut random).unwrap();
        });
        assert!(report.ok() && report.checks.len() == 1, "{:?}", report.checks);
        let of =
            |of: &str| report.rows.iter().filter(|row| row.params["of"] == of && row.median > 0.0).count();
        assert_eq!([of("load, per route"), of("memory of a table"), of("lookup")], [1, 2, 2]);
    }
}
