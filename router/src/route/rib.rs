//! What there is to know about routes, neighbours and links, and which of it counts. COLD.
//!
//! Of all routes for a prefix the best one counts: the first by origin, then by metric, then in the order in which they were
//! added, as in a kernel that asks its local table before its main one. Where that leads to destinations on a link, each neighbour with a known link address gets a
//! route of its own (an *adjacency*), so that workers find it by one lookup.

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

/// Who says that there is a route; of two for one prefix the first here counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    /// A person, on the command line.
    Given,
    /// The kernel's local table: its own addresses and broadcasts.
    Local,
    /// The kernel's main table.
    Main,
}

/// A route, with all that its rank depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RibRoute {
    /// The destinations it is for.
    pub prefix: IpNet,
    /// Who says so.
    pub origin: Origin,
    /// Of routes from one origin the one with the smallest counts.
    pub metric: u32,
    /// Where it leads.
    pub target: Target,
}

impl From<Route> for RibRoute {
    /// A route that a person gives.
    fn from(Route { prefix, port, mac }: Route) -> RibRoute {
        let target = Target::Station { port, mac };
        RibRoute { prefix, origin: Origin::Given, metric: 0, target }
    }
}

/// Where a route leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Target {
    /// Out of a port, to a station there.
    Station {
        /// The egress port.
        port: u8,
        /// The station's link address.
        mac: MacAddr,
    },
    /// Out of one or more links. Without any it leads nowhere; the weight of a single one is 1.
    Paths(Box<[Via]>),
    /// To the router itself.
    Local,
    /// Nowhere, in silence.
    Blackhole,
    /// Nowhere: unreachable.
    Unreachable,
    /// Nowhere: prohibited.
    Prohibit,
}

/// One of a route's ways: over a link, by a router there or straight to the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Via {
    /// The link, by the kernel's interface index.
    pub link: u32,
    /// The next router; None where the destination is on the link.
    pub address: Option<IpAddr>,
    /// Its share of the flows beside the other ways, from 1.
    pub weight: u16,
    /// The route's own MTU, bytes of IP packet; None where the link's counts.
    pub mtu: Option<u16>,
}

impl Target {
    /// By these ways.
    pub fn paths(mut ways: Vec<Via>) -> Target {
        if let [only] = &mut ways[..] {
            only.weight = 1;
        }
        Target::Paths(ways.into())
    }

    /// The same place as it is told apart from others.
    fn normal(&self) -> Cow<'_, Target> {
        match self {
            Target::Paths(ways) if ways.len() == 1 => Cow::Owned(Target::paths(ways.to_vec())),
            other => Cow::Borrowed(other),
        }
    }
}

/// What is known about a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Its link address.
    Known(MacAddr),
    /// It was asked for and did not answer.
    Silent,
    /// Nothing.
    Unknown,
}

/// All routes, neighbours and links, and what changed since somebody asked.
///
/// The sum of all changes taken is what a [`Table`](super::Table) needs to answer for every destination as the best
/// route here does.
#[derive(Debug, Default)]
pub struct Rib {
    entries: Entries,
    targets: Targets,
    neighbours: Neighbours,
    /// Which port is on which link.
    ports: HashMap<u32, u8>,
    /// Routes to single neighbours on a link. Invariant: there is one where `adjacency` says so.
    adjacencies: BTreeMap<IpAddr, HopId>,
    changes: Vec<Change>,
}

impl Rib {
    /// One that knows nothing but which port is on which link (the kernel's interface index).
    pub fn new(ports: impl IntoIterator<Item = (u32, u8)>) -> Rib {
        Rib { ports: ports.into_iter().collect(), ..Rib::default() }
    }

    /// What changed since the last call, in order.
    pub fn take_changes(&mut self) -> Vec<Change> {
        mem::take(&mut self.changes)
    }

    /// Every route, ordered by prefix and rank.
    pub fn routes(&self) -> impl Iterator<Item = RibRoute> + '_ {
        self.entries.iter().filter_map(|entry| {
            let target = self.targets.get(entry.hop)?.clone();
            Some(RibRoute { prefix: entry.prefix, origin: entry.origin, metric: entry.metric, target })
        })
    }

    /// The prefixes whose packets the kernel's local table leads to the router itself, in order, each as often as it has them.
    pub fn local(&self) -> impl Iterator<Item = IpNet> + '_ {
        let to_itself = |entry: &&Entry| {
            entry.origin == Origin::Local && matches!(self.targets.get(entry.hop), Some(Target::Local))
        };
        self.entries.iter().filter(to_itself).map(|entry| entry.prefix)
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every neighbour that something is known about, by its link.
    pub fn neighbours(&self) -> impl Iterator<Item = (u32, IpAddr, Link)> + '_ {
        self.neighbours.iter()
    }

    /// What is known about a neighbour on a link.
    pub fn neighbour(&self, link: u32, address: IpAddr) -> Link {
        self.neighbours.get(link, address)
    }

    /// The port on a link.
    pub fn port(&self, link: u32) -> Option<u8> {
        self.ports.get(&link).copied()
    }

    /// The link of a port.
    pub fn link(&self, port: u8) -> Option<u32> {
        self.ports.iter().find_map(|(&link, &its)| (its == port).then_some(link))
    }

    /// Adds a route, behind those of its prefix, origin and metric; false if it is there already.
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

    /// Takes a route out; false if there is none.
    pub fn remove(&mut self, route: &RibRoute) -> bool {
        let Some(hop) = self.targets.find(&route.target.normal()) else { return false };
        let found = self.entries.of_rank(route.prefix, route.origin, route.metric).find(|its| its.hop == hop);
        found.is_some_and(|entry| self.take_out(entry))
    }

    /// Takes all routes of this rank out; returns how many.
    pub fn remove_rank(&mut self, prefix: IpNet, origin: Origin, metric: u32) -> usize {
        let all: Vec<_> = self.entries.of_rank(prefix, origin, metric).collect();
        all.into_iter().filter(|entry| self.take_out(*entry)).count()
    }

    /// How many routes of this rank there are.
    pub fn count_rank(&self, prefix: IpNet, origin: Origin, metric: u32) -> usize {
        self.entries.of_rank(prefix, origin, metric).count()
    }

    /// Puts `routes` in place of all routes but the given ones; what stays the same is no change. Of several for one prefix,
    /// origin and metric the first here counts.
    pub fn replace(&mut self, routes: impl IntoIterator<Item = RibRoute>) {
        let mut fresh = Entries::default();
        for entry in self.entries.iter().filter(|entry| entry.origin == Origin::Given) {
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

    /// Puts `routes`, which a person gives, in place of those given before.
    pub fn replace_given(&mut self, routes: impl IntoIterator<Item = RibRoute>) {
        let old: Vec<_> = self.routes().filter(|route| route.origin == Origin::Given).collect();
        let new: Vec<_> =
            routes.into_iter().map(|route| RibRoute { origin: Origin::Given, ..route }).collect();
        // New ones first: a prefix that has one before and after has one all the time.
        for route in &new {
            self.insert(route);
        }
        let kept: HashSet<_> = new.iter().collect();
        for route in old.iter().filter(|route| !kept.contains(route)) {
            self.remove(route);
        }
    }

    /// Notes what is known about a neighbour on a link.
    pub fn set_neighbour(&mut self, link: u32, address: IpAddr, known: Link) {
        if !self.neighbours.set(link, address, known) {
            return;
        }
        let Some(port) = self.port(link) else { return };
        let neighbour = Neighbour { port, address };
        self.changes.push(match known {
            Link::Known(mac) => Change::Neighbour(neighbour, Some(mac)),
            Link::Silent => Change::Neighbour(neighbour, None),
            Link::Unknown => Change::Forget(neighbour),
        });
        let by = Target::Paths([Via { link, address: Some(address), weight: 1, mtu: None }].into());
        if let Some(hop) = self.targets.find(&by) {
            self.compile(hop);
        }
        self.adjoin(address);
    }

    /// Notes that a link's port is another one, or that it has none any more.
    pub fn set_port(&mut self, link: u32, port: Option<u8>) {
        let before = match port {
            Some(port) => self.ports.insert(link, port),
            None => self.ports.remove(&link),
        };
        if before == port {
            return;
        }
        let hops: Vec<_> = self.targets.ids().collect();
        hops.into_iter().for_each(|hop| self.compile(hop));
        let neighbours: Vec<_> = self.neighbours.iter().filter(|(its, ..)| *its == link).collect();
        for (_, address, known) in neighbours {
            self.changes.extend(before.map(|port| Change::Forget(Neighbour { port, address })));
            self.neighbours.set(link, address, Link::Unknown);
            self.set_neighbour(link, address, known);
            self.neighbours.set(link, address, known);
            self.adjoin(address);
        }
    }

    /// The entry of a route, which holds its target.
    fn entry(&mut self, route: &RibRoute) -> Entry {
        let (hop, is_new) = self.targets.intern(&route.target.normal());
        if is_new {
            self.compile(hop);
        }
        Entry { prefix: route.prefix.trunc(), origin: route.origin, metric: route.metric, place: 0, hop }
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

    /// Says what a target has become for workers.
    fn compile(&mut self, hop: HopId) {
        self.changes.extend(self.targets.compile(hop, &self.ports, &self.neighbours));
    }

    /// Says what has become of a prefix whose best route led by hop `before`.
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

    /// Makes or ends the adjacency of an address, or leads it elsewhere.
    fn adjoin(&mut self, address: IpAddr) {
        let station = self.adjacency(address);
        let hop = station.map(|station| {
            let (hop, is_new) = self.targets.intern(&station);
            if is_new {
                self.compile(hop);
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

    /// Where an address leads by an adjacency: where its best route leads to the link itself, and it is known there.
    fn adjacency(&self, address: IpAddr) -> Option<Target> {
        let route = self.entries.longest(address)?;
        let Target::Paths(paths) = self.targets.get(route.hop)? else { return None };
        // By way of an adjacency the route's own MTU would be lost.
        let [Via { link, address: None, mtu: None, .. }] = paths[..] else { return None };
        let Link::Known(mac) = self.neighbours.get(link, address) else { return None };
        (route.prefix != IpNet::from(address)).then_some(Target::Station { port: self.port(link)?, mac })
    }
}
