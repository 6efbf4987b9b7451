//! Compares random sequences of changes with a model: a plain list of routes that is searched from end to end.

use super::*;
use ipnet::{IpNet, Ipv6Net};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

const LINKS: [u32; 3] = [4, 7, 9];

/// The operations.
#[derive(Debug, Clone)]
enum Step {
    /// Inserts a route and replaces all others of its rank.
    Insert(RibRoute),
    /// Appends a route behind the others of its rank.
    Append(RibRoute),
    /// Removes the existing route with this number.
    Remove(prop::sample::Index),
    /// Replaces all routes except the given ones.
    Replace(Vec<RibRoute>),
    Neighbour(u32, IpAddr, Resolution),
    Port(u32, Option<u8>),
    /// Publishes the changes to workers, and looks these addresses up with this hash.
    Look(Vec<IpAddr>, u32),
}

/// The state, as lists.
#[derive(Default)]
struct Model {
    routes: Vec<RibRoute>,
    neighbours: BTreeMap<(u32, IpAddr), Resolution>,
    ports: HashMap<u32, u8>,
}

type Rank = (IpNet, Origin, u32);

fn rank(route: &RibRoute) -> Rank {
    (route.prefix, route.origin, route.metric)
}

impl Model {
    fn way(&self, address: IpAddr, hash: u32) -> Option<(Hop, Option<u16>)> {
        let covering = self.routes.iter().filter(|route| route.prefix.contains(&address));
        let longest = covering.clone().map(|route| route.prefix.prefix_len()).max()?;
        let best = covering
            .filter(|route| route.prefix.prefix_len() == longest)
            .min_by_key(|route| (route.origin, route.metric))?;
        let hop = match &best.target {
            Target::Station { port, mac } => Hop::Station { port: *port, mac: *mac },
            Target::Local => Hop::Local,
            Target::Blackhole => Hop::Blackhole,
            Target::Unreachable => Hop::Unreachable,
            Target::Prohibit => Hop::Prohibit,
            Target::Throw => return None,
            Target::Paths(paths) => {
                let shares: Vec<&Via> =
                    paths.iter().flat_map(|via| vec![via; usize::from(via.weight)]).collect();
                match shares.get(((u64::from(hash) * shares.len() as u64) >> 32) as usize) {
                    Some(via) => return Some((self.over(via.link, via.address.unwrap_or(address)), via.mtu)),
                    None => Hop::Elsewhere,
                }
            }
        };
        Some((hop, None))
    }

    fn over(&self, link: u32, address: IpAddr) -> Hop {
        let Some(&port) = self.ports.get(&link) else { return Hop::Elsewhere };
        let neighbour = Neighbour { port, address };
        match self.neighbours.get(&(link, address)) {
            Some(Resolution::Known(mac)) => Hop::Station { port, mac: *mac },
            Some(Resolution::Failed) => Hop::Failed(neighbour),
            _ => Hop::Unresolved(neighbour),
        }
    }
}

/// Few addresses, so that prefixes are nested and cover neighbours.
fn address() -> impl Strategy<Value = IpAddr> {
    (any::<bool>(), 0..4_u8, 0..4_u8).prop_map(|(six, net, host)| match six {
        false => Ipv4Addr::new(10, 0, net, host).into(),
        true => Ipv6Addr::new(0xfd00, 0, 0, u16::from(net), 0, 0, 0, u16::from(host)).into(),
    })
}

fn prefix() -> impl Strategy<Value = IpNet> {
    (address(), 0..6_usize).prop_map(|(address, length)| match address {
        IpAddr::V4(to) => IpNet::V4(Ipv4Net::new_assert(to, [0, 8, 23, 24, 31, 32][length]).trunc()),
        IpAddr::V6(to) => IpNet::V6(Ipv6Net::new_assert(to, [0, 16, 63, 64, 127, 128][length]).trunc()),
    })
}

fn via() -> impl Strategy<Value = Via> {
    let gateway = prop::option::of(address());
    let mtu = prop::option::weighted(0.3, 1300..1303_u16);
    let source = prop::option::weighted(0.3, prop::sample::select(vec![[10, 0, 9, 1], [10, 0, 9, 2]]));
    let source = source.prop_map(|source| source.map(IpAddr::from));
    let parts = (prop::sample::select(&LINKS[..]), gateway, 1..4_u16, mtu, source);
    parts.prop_map(|(link, address, weight, mtu, source)| Via { link, address, weight, mtu, source })
}

fn target() -> impl Strategy<Value = Target> {
    prop_oneof![
        1 => (0..3_u8).prop_map(|port| Target::Station { port, mac: mac(100 + port) }),
        6 => via().prop_map(|via| Target::paths(vec![via])),
        3 => prop::collection::vec(via(), 0..4).prop_map(Target::paths),
        1 => prop::sample::select(vec![Target::Local, Target::Blackhole, Target::Unreachable, Target::Prohibit, Target::Throw]),
    ]
}

fn rib_route() -> impl Strategy<Value = RibRoute> {
    let origin = prop::sample::select(vec![Origin::Static, Origin::Local, Origin::Main]);
    (prefix(), origin, 0..2_u32, target(), 0..2_u32).prop_map(
        |(prefix, origin, metric, target, distinguisher)| RibRoute {
            prefix,
            origin,
            metric,
            target,
            distinguisher,
        },
    )
}

fn link() -> impl Strategy<Value = Resolution> {
    prop_oneof![3 => (0..3_u8).prop_map(|last| Resolution::Known(mac(last))), 1 => Just(Resolution::Failed), 1 => Just(Resolution::Unknown)]
}

fn step() -> impl Strategy<Value = Step> {
    let on = || prop::sample::select(&LINKS[..]);
    prop_oneof![
        6 => rib_route().prop_map(Step::Insert),
        4 => rib_route().prop_map(Step::Append),
        3 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => prop::collection::vec(rib_route(), 0..40).prop_map(Step::Replace),
        5 => (on(), address(), link()).prop_map(|(on, address, link)| Step::Neighbour(on, address, link)),
        1 => (on(), prop::option::of(0..3_u8)).prop_map(|(on, port)| Step::Port(on, port)),
        4 => (prop::collection::vec(address(), 1..12), any::<u32>()).prop_map(|(to, hash)| Step::Look(to, hash)),
    ]
}

/// Puts a route into the model and replaces those of its rank.
fn put(routes: &mut Vec<RibRoute>, route: RibRoute) {
    routes.retain(|other| rank(other) != rank(&route));
    routes.push(route);
}

/// Appends a route to the model, unless it exists.
fn append(routes: &mut Vec<RibRoute>, route: &RibRoute) -> bool {
    let is_new = !routes.contains(route);
    routes.extend(is_new.then(|| route.clone()));
    is_new
}

fn take(rib: &mut Rib, model: &mut Model, step: Step) {
    match step {
        Step::Insert(route) => {
            let had = model.routes.iter().filter(|other| rank(other) == rank(&route)).count();
            assert_eq!(rib.remove_rank(route.prefix, route.origin, route.metric), had);
            assert!(rib.insert(&route) && !rib.insert(&route));
            put(&mut model.routes, route);
        }
        Step::Append(route) => {
            let is_new = append(&mut model.routes, &route);
            assert_eq!(rib.insert(&route), is_new);
        }
        Step::Remove(at) if !model.routes.is_empty() => {
            let route = model.routes.remove(at.index(model.routes.len()));
            assert!(rib.remove(&route) && !rib.remove(&route));
        }
        Step::Remove(_) => {}
        Step::Replace(routes) => {
            model.routes.retain(|route| route.origin == Origin::Static);
            let mut fresh = Vec::new();
            for route in routes.iter().filter(|route| route.origin != Origin::Static) {
                append(&mut fresh, route);
            }
            rib.replace(fresh.iter().cloned());
            model.routes.append(&mut fresh);
        }
        Step::Neighbour(link, address, known) => {
            rib.set_neighbour(link, address, known);
            model.neighbours.insert((link, address), known);
        }
        Step::Port(link, port) => {
            // A port is on one link only.
            if port.is_none_or(|port| !model.ports.values().any(|other| *other == port)) {
                rib.set_port(link, port);
                match port {
                    Some(port) => drop(model.ports.insert(link, port)),
                    None => drop(model.ports.remove(&link)),
                }
            }
        }
        Step::Look(..) => unreachable!("workers look, not the table of routes"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: steps() / 100, ..ProptestConfig::default() })]

    #[test]
    fn what_workers_look_up_is_what_a_list_of_all_routes_says(
        steps in prop::collection::vec(step(), 1..200),
    ) {
        let (mut rib, mut model) = (Rib::new([(LINKS[0], 0)]), Model::default());
        model.ports.insert(LINKS[0], 0);
        let (mut control, mut reader) = fib(Fib::default());
        for step in steps {
            let Step::Look(addresses, hash) = step else {
                take(&mut rib, &mut model, step);
                continue;
            };
            control.apply(rib.take_changes());
            // Sometimes a reader does not refresh, and a copy of the table must be made.
            if hash & 7 > 0 {
                reader.refresh();
                for address in addresses {
                    let seen = reader.fib().table.next_hop_and_mtu(address, || hash);
                    prop_assert_eq!(seen, model.way(address, hash), "{}", address);
                }
            }
            let mut routes = model.routes.clone();
            routes.sort_by_key(rank);
            prop_assert_eq!(rib.routes().collect::<Vec<_>>(), routes);
        }
    }
}

/// `NETMEM_STEPS` sets the number of steps. The default is about 20,000.
fn steps() -> u32 {
    std::env::var("NETMEM_STEPS").map_or(20_000, |n| n.parse().expect("a number of steps"))
}
