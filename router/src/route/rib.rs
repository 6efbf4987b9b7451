//! All known routes, neighbours and links, and the selection of the best route for each prefix. COLD.
//!
//! Of all routes for a prefix the best is used. The best is the first by origin, then by metric, then in the order
//! of insertion. The longest prefix comes first, whatever its origin. Linux looks up IPv4 in the same way while it has
//! no rules of its own (fib_rules). With rules, and for IPv6, it takes a local route before any longer prefix of the main
//! table. If the best route leads to destinations on a link, each neighbour with a known MAC address gets a route of
//! its own (an *adjacency*). Workers then find the neighbour with one lookup.

mod entries;
mod neighbours;
mod targets;

use self::entries::{Entries, Entry};
use self::neighbours::Neighbours;
use self::targets::Targets;
use super::hop::Neighbour;
use super::table::{Change, HopId};
use super::text::Route;
use ipnet::IpNet;
use netmem::wire::MacAddr;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::mem;
use std::net::IpAddr;

/// The source of a route. Of two routes for one prefix, the one whose origin is listed first here is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// The operator, on the command line (a static route).
    Static,
    /// The kernel's local table: the kernel's own addresses and broadcast addresses.
    Local,
    /// The kernel's main table.
    Main,
}

/// A route, with all fields that its rank depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RibRoute {
    /// The destinations of the route. The bits behind the prefix do not matter.
    pub prefix: IpNet,
    /// The source of the route.
    pub origin: Origin,
    /// The metric. Of routes with the same origin, the one with the smallest metric is used.
    pub metric: u32,
    /// The target of the route.
    pub target: Target,
    /// Distinguishes routes whose other fields are equal: the kernel may have several that differ only in fields that a
    /// router does not use, as `proto`. 0 for a route that has no such others.
    pub distinguisher: u32,
}

impl From<Route> for RibRoute {
    /// Makes a static route.
    fn from(Route { prefix, port, mac }: Route) -> RibRoute {
        let target = Target::Station { port, mac };
        RibRoute { prefix, origin: Origin::Static, metric: 0, target, distinguisher: 0 }
    }
}

/// The target of a route.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// A station on a port's link.
    Station {
        /// The egress port.
        port: u8,
        /// The station's MAC address.
        mac: MacAddr,
    },
    /// One or more links. An empty list leads to interfaces that are not known. The weight of a single entry is 1.
    Paths(Box<[Via]>),
    /// The router itself.
    Local,
    /// No next hop; silently dropped.
    Blackhole,
    /// No next hop: unreachable.
    Unreachable,
    /// No next hop: prohibited.
    Prohibit,
    /// No route: the lookup continues in the next table of the kernel, and none follows here.
    Throw,
}

/// One of the paths of a route: over a link, to a router there or directly to the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Via {
    /// The kernel's interface index of the link.
    pub link: u32,
    /// The next router, or None if the destination is on the link.
    pub address: Option<IpAddr>,
    /// The path's share of the flows relative to the other paths, from 1.
    pub weight: u16,
    /// The route's own MTU in bytes of IP packet, or None if the link's MTU applies.
    pub mtu: Option<u16>,
    /// The route's preferred source (`src` of ip-route(8)) of packets that the router sends itself. Only that of the first
    /// path of a route is used.
    pub source: Option<IpAddr>,
}

impl Via {
    /// Makes the path over a link by the next router `address`, or to destinations on the link. Its weight is 1, and it
    /// has no MTU and no source of its own.
    pub const fn new(link: u32, address: Option<IpAddr>) -> Via {
        Via { link, address, weight: 1, mtu: None, source: None }
    }

    /// Returns the path with this weight.
    #[must_use]
    pub const fn with_weight(self, weight: u16) -> Via {
        Via { weight, ..self }
    }

    /// Returns the path with this MTU of its own.
    #[must_use]
    pub const fn with_mtu(self, mtu: Option<u16>) -> Via {
        Via { mtu, ..self }
    }

    /// Returns the path with this preferred source.
    #[must_use]
    pub const fn with_source(self, source: Option<IpAddr>) -> Via {
        Via { source, ..self }
    }
}

impl Target {
    /// Makes a target with these paths.
    pub fn paths(mut ways: Vec<Via>) -> Target {
        if let [only] = &mut ways[..] {
            only.weight = 1;
        }
        Target::Paths(ways.into())
    }

    /// Returns the target in the form in which equal targets compare equal.
    fn normal(&self) -> Cow<'_, Target> {
        match self {
            Target::Paths(ways) if ways.len() == 1 => Cow::Owned(Target::paths(ways.to_vec())),
            other => Cow::Borrowed(other),
        }
    }
}

/// The state of a neighbour's resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resolution {
    /// The neighbour's MAC address is known.
    Known(MacAddr),
    /// The neighbour was asked for its MAC address and did not answer.
    Failed,
    /// Nothing is known about the neighbour.
    Unknown,
}

/// All routes, neighbours and links, and the changes since the last [`take_changes`](Rib::take_changes).
///
/// A [`Table`](super::Table) with all these changes applied answers for every destination as the best route here
/// does.
#[derive(Debug, Default)]
pub struct Rib {
    entries: Entries,
    targets: Targets,
    neighbours: Neighbours,
    /// The port on each link.
    ports: HashMap<u32, u8>,
    /// Routes to single neighbours on a link. Invariant: an address has one exactly if `adjacency` returns its
    /// target.
    adjacencies: BTreeMap<IpAddr, HopId>,
    changes: Vec<Change>,
}

impl Rib {
    /// Makes a table that knows only the port on each link (by the kernel's interface index).
    pub fn new(ports: impl IntoIterator<Item = (u32, u8)>) -> Rib {
        let ports: HashMap<u32, u8> = ports.into_iter().collect();
        let changes = ports.iter().map(|(link, port)| Change::Link(*link, Some(*port))).collect();
        Rib { ports, changes, ..Rib::default() }
    }

    /// Returns the changes since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        mem::take(&mut self.changes)
    }

    /// Iterates over all routes, ordered by prefix and rank.
    pub fn routes(&self) -> impl Iterator<Item = RibRoute> + '_ {
        self.routes_after(None)
    }

    /// Iterates over the routes of all prefixes after this one, ordered by prefix and rank.
    pub fn routes_after(&self, prefix: Option<IpNet>) -> impl Iterator<Item = RibRoute> + '_ {
        self.entries.after(prefix).filter_map(|entry| {
            let target = self.targets.get(entry.hop)?.clone();
            let Entry { prefix, origin, metric, distinguisher, .. } = *entry;
            Some(RibRoute { prefix, origin, metric, target, distinguisher })
        })
    }

    /// Iterates over the prefixes that the kernel's local table routes to the router itself, in order. A prefix
    /// with several such routes is repeated.
    pub fn local(&self) -> impl Iterator<Item = IpNet> + '_ {
        let to_itself = |entry: &&Entry| {
            entry.origin == Origin::Local && matches!(self.targets.get(entry.hop), Some(Target::Local))
        };
        self.entries.iter().filter(to_itself).map(|entry| entry.prefix)
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Iterates over the neighbours whose state is known, with their links.
    pub fn neighbours(&self) -> impl Iterator<Item = (u32, IpAddr, Resolution)> + '_ {
        self.neighbours.after(None)
    }

    /// Iterates over the neighbours whose state is known and whose addresses are after this one, in the order of the
    /// addresses.
    pub fn neighbours_after(
        &self,
        address: Option<IpAddr>,
    ) -> impl Iterator<Item = (u32, IpAddr, Resolution)> + '_ {
        self.neighbours.after(address)
    }

    /// Returns the state of a neighbour on a link.
    pub fn neighbour(&self, link: u32, address: IpAddr) -> Resolution {
        self.neighbours.get(link, address)
    }

    /// Returns the port on a link.
    pub fn port(&self, link: u32) -> Option<u8> {
        self.ports.get(&link).copied()
    }

    /// Returns the link of a port.
    pub fn link(&self, port: u8) -> Option<u32> {
        self.ports.iter().find_map(|(&link, &its)| (its == port).then_some(link))
    }

    /// Adds a route behind those of its prefix, origin and metric. Returns false if the route exists already.
    pub fn insert(&mut self, route: &RibRoute) -> bool {
        let entry = self.entry(route);
        let before = self.entries.best(entry.prefix);
        if !self.entries.insert(entry) {
            self.targets.release(entry.hop);
            return false;
        }
        self.settle(entry.prefix, before);
        true
    }

    /// Removes a route. Returns false if it does not exist.
    pub fn remove(&mut self, route: &RibRoute) -> bool {
        let Some(hop) = self.targets.find(&route.target.normal()) else { return false };
        let is_it = |its: &Entry| (its.hop, its.distinguisher) == (hop, route.distinguisher);
        let found = self.entries.of_rank(route.prefix.trunc(), route.origin, route.metric).find(is_it);
        found.is_some_and(|entry| self.take_out(entry))
    }

    /// Removes all routes of this rank. Returns the number of removed routes.
    pub fn remove_rank(&mut self, prefix: IpNet, origin: Origin, metric: u32) -> usize {
        let all: Vec<_> = self.entries.of_rank(prefix.trunc(), origin, metric).collect();
        all.into_iter().filter(|entry| self.take_out(*entry)).count()
    }

    /// Returns the number of routes of this rank.
    pub fn count_rank(&self, prefix: IpNet, origin: Origin, metric: u32) -> usize {
        self.entries.of_rank(prefix.trunc(), origin, metric).count()
    }

    /// Replaces all routes except the static ones. A route that stays the same is not a change. Of
    /// several routes with the same prefix, origin and metric, the first in `routes` is used.
    pub fn replace(&mut self, routes: impl IntoIterator<Item = RibRoute>) {
        let mut fresh = Entries::default();
        for entry in self.entries.iter().filter(|entry| entry.origin == Origin::Static) {
            self.targets.hold(entry.hop);
            fresh.insert(*entry);
        }
        for route in routes {
            let entry = self.entry(&route);
            if !fresh.insert(entry) {
                self.targets.release(entry.hop);
            }
        }
        let old = mem::replace(&mut self.entries, fresh);
        for prefix in old.prefixes() {
            self.settle(prefix, old.best(prefix));
        }
        let new: Vec<_> = self.entries.prefixes().filter(|prefix| old.best(*prefix).is_none()).collect();
        new.into_iter().for_each(|prefix| self.settle(prefix, None));
        old.iter().for_each(|entry| self.targets.release(entry.hop));
    }

    /// Replaces the static routes.
    pub fn replace_static(&mut self, routes: impl IntoIterator<Item = RibRoute>) {
        let old: Vec<_> = self.routes().filter(|route| route.origin == Origin::Static).collect();
        let normal = |RibRoute { prefix, target, metric, distinguisher, .. }: RibRoute| RibRoute {
            prefix: prefix.trunc(),
            origin: Origin::Static,
            metric,
            target: target.normal().into_owned(),
            distinguisher,
        };
        let new: Vec<_> = routes.into_iter().map(normal).collect();
        // New routes are added first, so that a prefix with a route before and after has a route all the time.
        for route in &new {
            self.insert(route);
        }
        let kept: HashSet<_> = new.iter().collect();
        for route in old.iter().filter(|route| !kept.contains(route)) {
            self.remove(route);
        }
    }

    /// Sets the state of a neighbour on a link.
    pub fn set_neighbour(&mut self, link: u32, address: IpAddr, known: Resolution) {
        if !self.neighbours.set(link, address, known) {
            return;
        }
        let Some(port) = self.port(link) else { return };
        let neighbour = Neighbour { port, address };
        self.changes.push(match known {
            Resolution::Known(mac) => Change::Neighbour(neighbour, Some(mac)),
            Resolution::Failed => Change::Neighbour(neighbour, None),
            Resolution::Unknown => Change::Forget(neighbour),
        });
        self.targets.by_neighbour(link, address).into_iter().for_each(|hop| self.compile(hop));
        self.adjoin(address);
    }

    /// Sets the port of a link, or that it has none any more.
    pub fn set_port(&mut self, link: u32, port: Option<u8>) {
        let before = match port {
            Some(port) => self.ports.insert(link, port),
            None => self.ports.remove(&link),
        };
        if before == port {
            return;
        }
        self.changes.push(Change::Link(link, port));
        let hops: Vec<_> = self.targets.ids().collect();
        hops.into_iter().for_each(|hop| self.compile(hop));
        let neighbours: Vec<_> = self.neighbours.iter().filter(|(its, ..)| *its == link).collect();
        for (_, address, known) in neighbours {
            self.changes.extend(before.map(|port| Change::Forget(Neighbour { port, address })));
            self.neighbours.set(link, address, Resolution::Unknown);
            self.set_neighbour(link, address, known);
            self.neighbours.set(link, address, known);
            self.adjoin(address);
        }
    }

    /// Returns the entry of a route. The entry holds a use of the route's target.
    fn entry(&mut self, route: &RibRoute) -> Entry {
        let (hop, is_new) = self.targets.intern(&route.target.normal());
        if is_new {
            self.introduce(hop);
        }
        let RibRoute { origin, metric, distinguisher, .. } = *route;
        Entry { prefix: route.prefix.trunc(), origin, metric, place: 0, hop, distinguisher }
    }

    fn take_out(&mut self, entry: Entry) -> bool {
        let before = self.entries.best(entry.prefix);
        if !self.entries.remove(&entry) {
            return false;
        }
        self.settle(entry.prefix, before);
        self.targets.release(entry.hop);
        true
    }

    /// Emits the changes that tell workers a new target.
    fn introduce(&mut self, hop: HopId) {
        self.changes.extend(self.targets.new_hint(hop).map(|hint| Change::Source(hop, hint)));
        self.compile(hop);
    }

    /// Emits the changes that tell workers the current meaning of a target.
    fn compile(&mut self, hop: HopId) {
        self.changes.extend(self.targets.compile(hop, &self.ports, &self.neighbours));
    }

    /// Emits the change of a prefix whose best route led by hop `before`.
    fn settle(&mut self, prefix: IpNet, before: Option<HopId>) {
        let best = self.entries.best(prefix);
        if best == before {
            return;
        }
        let host = prefix.prefix_len() == prefix.max_prefix_len();
        let adjacent = if host { self.adjacencies.get(&prefix.addr()).copied() } else { None };
        self.changes.push(match best.or(adjacent) {
            Some(hop) => Change::Route(prefix, hop),
            None => Change::Withdraw(prefix),
        });
        let covered: Vec<_> = self.neighbours.within(prefix).collect();
        covered.into_iter().for_each(|address| self.adjoin(address));
    }

    /// Creates, removes or redirects the adjacency of an address.
    fn adjoin(&mut self, address: IpAddr) {
        let station = self.adjacency(address);
        let hop = station.map(|station| {
            let (hop, is_new) = self.targets.intern(&station);
            if is_new {
                self.introduce(hop);
            }
            hop
        });
        let before = match hop {
            Some(hop) => self.adjacencies.insert(address, hop),
            None => self.adjacencies.remove(&address),
        };
        let host = IpNet::from(address);
        if before != hop && self.entries.best(host).is_none() {
            self.changes.push(hop.map_or(Change::Withdraw(host), |hop| Change::Route(host, hop)));
        }
        if let Some(before) = before {
            self.targets.release(before);
        }
    }

    /// Returns the target of an address's adjacency. It has one if its best route leads to the link itself and its
    /// MAC address is known.
    fn adjacency(&self, address: IpAddr) -> Option<Target> {
        let route = self.entries.longest(address)?;
        let Target::Paths(paths) = self.targets.get(route.hop)? else { return None };
        // With an adjacency the route's own MTU would be lost.
        let [Via { link, address: None, mtu: None, .. }] = paths[..] else { return None };
        let Resolution::Known(mac) = self.neighbours.get(link, address) else { return None };
        (route.prefix != IpNet::from(address)).then_some(Target::Station { port: self.port(link)?, mac })
    }
}
