//! Tests of lookups, before and after changes of routes, neighbours and links.

mod model;

use std::net::{IpAddr, Ipv4Addr};

use ipnet::Ipv4Net;
use proptest::prelude::*;

use super::table::FEW_MAX;
use super::*;
use crate::interface::Interface;
use netmem::wire::MacAddr;

fn route(text: &str) -> Route {
    text.parse().expect(text)
}

fn mac(last: u8) -> MacAddr {
    MacAddr::new([2, 0, 0, 0, 0, last])
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
fn an_empty_table_has_no_route_and_a_replaced_route_has_another_next_hop() {
    let mut table = Table::new();
    assert_eq!(table.lookup(Ipv4Addr::new(10, 0, 0, 1)), None);
    assert_eq!(table.insert(route("10.0.0.0/8,0,02:00:00:00:00:01")), None);
    let before = table.insert(route("10.0.0.0/8,1,02:00:00:00:00:02")).unwrap();
    assert_eq!((before.port, table.len()), (0, 1));
    assert_eq!(table.lookup(Ipv4Addr::new(10, 0, 0, 1)).unwrap().port, 1);
    assert_eq!(table.lookup(Ipv4Addr::new(11, 0, 0, 1)), None);
    assert_eq!(table.insert(route("fd00::/8,0,02:00:00:00:00:01")), None);
    assert_eq!(table.insert(route("fd00::/8,1,02:00:00:00:00:02")).map(|before| before.port), Some(0));
    assert_eq!(table.lookup_v6("fd07::1".parse().unwrap()).map(|hop| hop.port), Some(1));
    assert_eq!((table.len(), table.lookup_v6("fe00::1".parse().unwrap())), (2, None));
}

proptest! {
    /// The model tries every route and keeps the longest that covers the address. Addresses are close to the
    /// routes, and the tables have both less and more routes than the scan's limit.
    #[test]
    fn lookups_are_those_of_a_brute_force_search(
        routes in prop::collection::vec((any::<u32>(), 0u8..=32, any::<u8>()), 0..3 * FEW_MAX),
        flips in prop::collection::vec((any::<prop::sample::Index>(), 0u32..33), 1..50),
    ) {
        let routes: Vec<Route> = routes.into_iter().map(|(address, length, port)| {
            // Few distinct networks, so that prefixes are nested.
            let prefix = Ipv4Net::new((address & 0x0f00_8181).into(), length).unwrap().trunc();
            Route { prefix: prefix.into(), port, mac: MacAddr::new([2, 0, 0, 0, 0, port]) }
        }).collect();
        let table: Table = routes.iter().copied().collect();
        for (at, flip) in flips {
            let near = if routes.is_empty() { IpAddr::from([0; 4]) } else { at.get(&routes).prefix.network() };
            let IpAddr::V4(near) = near else { panic!("{near}") };
            let address = Ipv4Addr::from_bits(near.to_bits() ^ 1u32.checked_shl(flip).unwrap_or(0));
            // `max_by_key` returns the last of equal routes: the route that replaced the others.
            let model = routes.iter().filter(|route| route.prefix.contains(&IpAddr::from(address)))
                .max_by_key(|route| route.prefix.prefix_len())
                .map(|route| FibEntry::station(route.port, route.mac));
            prop_assert_eq!(table.lookup(address).copied(), model, "{}", address);
        }
    }
}

#[test]
fn flows_share_the_paths_by_weight_and_one_flow_keeps_to_its_path() {
    let mut rib = Rib::new([(11, 0), (12, 1), (13, 2)]);
    let via = |link, weight| Via {
        link,
        address: Some(Ipv4Addr::new(10, 9, link as u8, 1).into()),
        weight,
        mtu: None,
        source: None,
    };
    rib.insert(&RibRoute {
        prefix: "10.0.0.0/8".parse().unwrap(),
        origin: Origin::Main,
        metric: 0,
        target: Target::Paths([via(11, 1), via(12, 2), via(13, 5)].into()),
        distinguisher: 0,
    });
    for link in [11, 12, 13] {
        rib.set_neighbour(
            link,
            Ipv4Addr::new(10, 9, link as u8, 1).into(),
            Resolution::Known(mac(link as u8)),
        );
    }
    let mut fib = Fib::default();
    fib.apply(&rib.take_changes());
    let port = |hash: u32| match fib.table.next_hop(Ipv4Addr::new(10, 1, 1, 1).into(), || hash) {
        Some(Hop::Station { port, mac: to }) if to == mac(11 + port) => usize::from(port),
        other => panic!("{other:?}"),
    };
    let mut flows = [0; 3];
    (0..8_000_u32).for_each(|flow| flows[port(flow * (u32::MAX / 8_000))] += 1);
    assert_eq!(flows.map(|n: u32| (n + 4) / 10 * 10), [1_000, 2_000, 5_000]);
    assert_eq!([port(0), port(u32::MAX)], [0, 2]);
}

/// A number of a target is used again for another target.
#[test]
fn the_source_of_a_route_is_gone_with_the_route() {
    let mut rib = Rib::new([(11, 0)]);
    let mut fib = Fib::default();
    let route = |net: &str, source: Option<[u8; 4]>, gateway: Option<[u8; 4]>| {
        let (address, source) = (gateway.map(IpAddr::from), source.map(IpAddr::from));
        let target = Target::paths(vec![Via { link: 11, address, weight: 1, mtu: None, source }]);
        RibRoute { prefix: net.parse().unwrap(), origin: Origin::Main, metric: 0, target, distinguisher: 0 }
    };
    let first = route("10.0.0.0/8", Some([10, 6, 0, 1]), Some([10, 9, 0, 1]));
    let second = route("11.0.0.0/8", None, None);
    let mut hint_of = |rib: &mut Rib, to: [u8; 4]| {
        fib.apply(&rib.take_changes());
        let SourceHint { preferred, via } = fib.table.source_hint(to.into(), 0);
        (preferred, via)
    };
    rib.insert(&first);
    let wanted = (Some([10, 6, 0, 1].into()), Some([10, 9, 0, 1].into()));
    assert_eq!(hint_of(&mut rib, [10, 1, 1, 1]), wanted);
    rib.set_neighbour(11, [10, 9, 0, 1].into(), Resolution::Known(mac(1)));
    assert_eq!(hint_of(&mut rib, [10, 1, 1, 1]), wanted, "also with a known neighbour");
    assert!(rib.remove(&first) && rib.insert(&second));
    assert_eq!(hint_of(&mut rib, [11, 1, 1, 1]), (None, None));
    assert_eq!(hint_of(&mut rib, [10, 1, 1, 1]), (None, None));
}

/// Found: the source of an on-link route was lost as soon as the MAC address of the destination was known.
/// Found by reading: static routes that stayed the same were removed with the next reload if their prefixes had host bits or
/// their only path had a weight.
#[test]
fn a_route_with_host_bits_or_a_weight_of_its_only_path_is_the_same_as_one_without() {
    let target = |weight| Target::Paths([Via::new(7, None).with_weight(weight)].into());
    let route = |prefix: &str, weight| RibRoute {
        prefix: prefix.parse().unwrap(),
        origin: Origin::Static,
        metric: 5,
        target: target(weight),
        distinguisher: 0,
    };
    let (given, known) = (route("10.1.2.3/16", 9), route("10.1.0.0/16", 1));
    let routes = |rib: &Rib| rib.routes().collect::<Vec<_>>();
    let mut rib = Rib::default();
    for _ in 0..3 {
        rib.replace_static([given.clone()]);
        assert_eq!(routes(&rib), std::slice::from_ref(&known));
    }
    let RibRoute { prefix, origin, metric, .. } = given;
    assert_eq!((rib.count_rank(prefix, origin, metric), rib.insert(&given)), (1, false));
    assert!(rib.remove(&given) && rib.is_empty());
    assert!(rib.insert(&given));
    assert_eq!((rib.remove_rank(prefix, origin, metric), rib.len()), (1, 0));
}

#[test]
fn the_source_of_a_link_is_also_that_of_its_known_neighbours() {
    let mut rib = Rib::new([(11, 0)]);
    let mut fib = Fib::default();
    let (source, neighbour) = (Some(IpAddr::from([192, 0, 2, 7])), IpAddr::from([10, 78, 1, 1]));
    let target = Target::paths(vec![Via { link: 11, address: None, weight: 1, mtu: None, source }]);
    let prefix = "10.78.0.0/16".parse().unwrap();
    rib.insert(&RibRoute { prefix, origin: Origin::Main, metric: 0, target, distinguisher: 0 });
    for link in [Resolution::Unknown, Resolution::Known(mac(1)), Resolution::Unknown] {
        rib.set_neighbour(11, neighbour, link);
        fib.apply(&rib.take_changes());
        assert_eq!(fib.table.source_hint(neighbour, 0).preferred, source, "{link:?}");
    }
}

/// Seen: the second of two routers in a row sent all flows that it received over one path by one path, because both
/// used the same hash.
#[test]
fn a_second_router_spreads_the_flows_of_one_path_of_the_first_over_all_of_its_own() {
    let table = |seed: u64| {
        let mut fib = Fib::default();
        let path = |port| Path { port: Some(port), via: None, weight: 1, mtu: None };
        let paths = Change::Paths(HopId(3), [path(0), path(1)].into());
        fib.apply(&[paths, Change::Route("10.0.0.0/8".parse().unwrap(), HopId(3))]);
        fib.table.set_flow_seed(seed);
        fib.table
    };
    let port = |table: &Table, flow: u32| {
        let dst = IpAddr::from([10, 1, 2, 3]);
        let src = IpAddr::from(Ipv4Addr::from_bits(0xc000_0200 + flow));
        match table.next_hop(dst, || table.flows.between(src, dst)) {
            Some(Hop::Unresolved(neighbour)) => usize::from(neighbour.port),
            other => panic!("{other:?}"),
        }
    };
    let split = |first: &Table, second: &Table| {
        let mut flows = [[0; 2]; 2];
        (0..4_000).for_each(|flow| flows[port(first, flow)][port(second, flow)] += 1);
        flows
    };
    let [first, second] = [1, 2].map(table);
    for counts in split(&first, &second) {
        assert!(counts.iter().all(|flows| (900..1_100).contains(flows)), "{counts:?} of 4000 flows");
    }
    let [[one, none], [no, other]] = split(&first, &table(1));
    assert_eq!((none + no, one + other), (0, 4_000), "one seed is one choice");
}

#[test]
fn a_table_that_leads_by_more_paths_takes_more_memory() {
    let bytes = |links: u32| {
        let mut rib = Rib::new((1..=links).map(|link| (link, 0)));
        let via = |link| Via {
            link,
            address: Some(Ipv4Addr::new(10, 9, link as u8, 1).into()),
            weight: 1,
            mtu: None,
            source: None,
        };
        rib.insert(&RibRoute {
            prefix: "10.0.0.0/8".parse().unwrap(),
            origin: Origin::Main,
            metric: 0,
            target: Target::Paths((1..=links).map(via).collect()),
            distinguisher: 0,
        });
        let mut fib = Fib::default();
        fib.apply(&rib.take_changes());
        fib.table.bytes()
    };
    let (few, many) = (bytes(2), bytes(200));
    assert!(many >= few + 198, "{few} and {many}");
}

#[test]
fn a_reader_sees_all_changes_of_a_call_or_none_and_one_that_sleeps_sees_the_table_it_had() {
    let mut first = Fib { interfaces: vec![Interface { mac: mac(1), mtu: 1500 }; 2], ..Fib::default() };
    first.table.insert(route("10.0.0.0/8,0,02:00:00:00:00:07"));
    let (mut control, mut awake) = fib(first);
    let mut asleep = awake.clone();
    let address = Ipv4Addr::new(10, 1, 2, 3);
    let port = |reader: &FibReader| reader.fib().table.lookup(address).map(|hop| hop.port);
    for turn in 0..4_u8 {
        let prefix = "10.1.0.0/16".parse().unwrap();
        let interface = Interface { mac: mac(turn), mtu: 1280 };
        let hop = Change::Hop(HopId(5), FibEntry::station(turn, mac(turn)));
        control.apply(vec![hop, Change::Route(prefix, HopId(5)), Change::Interface(1, interface)]);
        assert!(awake.refresh() && !awake.refresh());
        assert_eq!((port(&awake), awake.fib().interfaces[1]), (Some(turn), interface));
        assert_eq!((port(&asleep), asleep.fib().interfaces[1].mtu), (Some(0), 1500), "turn {turn}");
    }
    assert_eq!(control.held_back(), 1, "only the copy that the sleeper has was given up");
    assert!(asleep.refresh());
    assert_eq!(port(&asleep), Some(3));
    control.apply(vec![Change::Withdraw("10.1.0.0/16".parse().unwrap())]);
    assert_eq!(control.held_back(), 0, "it is let go where routes are changed");
    assert!(asleep.refresh());
    assert_eq!(port(&asleep), Some(0));
    control.apply(Vec::new());
    assert!(!asleep.refresh(), "no change is none");
}

#[test]
fn readers_on_other_threads_never_see_half_a_change() {
    let prefixes: [ipnet::IpNet; 2] = ["10.1.0.0/16".parse().unwrap(), "10.2.0.0/16".parse().unwrap()];
    let (mut control, reader) = fib(Fib::default());
    let over = std::sync::atomic::AtomicBool::new(false);
    let relaxed = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|threads| {
        for _ in 0..2 {
            let (mut reader, over) = (reader.clone(), &over);
            threads.spawn(move || {
                let mut last = 0;
                while !over.load(relaxed) {
                    reader.refresh();
                    let table = &reader.fib().table;
                    let seen = [[10, 1, 0, 1], [10, 2, 0, 1]].map(|to| table.lookup(to.into()).copied());
                    assert_eq!(seen[0], seen[1]);
                    let turn =
                        seen[0].map_or(0, |hop| u32::from_be_bytes(*hop.mac.bytes().last_chunk().unwrap()));
                    assert!(turn >= last, "{turn} after {last}");
                    last = turn;
                }
            });
        }
        for turn in 1..2_000_u32 {
            let [a, b, c, d] = turn.to_be_bytes();
            let hop = FibEntry::station(1, MacAddr::new([2, 0, a, b, c, d]));
            let id = HopId(turn % 3);
            let routes = prefixes.map(|prefix| Change::Route(prefix, id));
            control.apply([vec![Change::Hop(id, hop)], routes.to_vec()].concat());
        }
        over.store(true, relaxed);
    });
}
