//! The table in which packets' destinations are looked up.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use prefix_trie::PrefixMap;

use super::flow_hash::FlowHash;
use super::hop::{FibEntry, Hop, Kind, Neighbour, Path};
use super::line::{Line, PER_LINE};
use super::source::SourceHint;
use super::text::Route;
use crate::interface::Interface;
use netmem::wire::MacAddr;

/// The number of a next hop in a table. Routes refer to a hop by its number. So a neighbour's new MAC address
/// changes one entry, however many routes lead to the neighbour.
///
/// Number the hops densely from 0, and use the number of a hop that no route has any more again. A [`Change`] of a hop
/// makes entries of 24 bytes up to its number in each copy of the table, and one of its source more. The process ends if
/// there is no memory for them: the highest number, `u32::MAX`, needs 96 GiB a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopId(pub u32);

/// The table of routes of both families.
///
/// Most tables hold a few routes, and a scan of those is faster than any tree. With more routes the table uses the
/// tree.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Invariant, once compiled: `first` and `further` hold every route of `v4` with its hop, the longest prefixes
    /// first. If there are more than [`FEW_MAX`] routes, they hold none.
    first: Line,
    further: Vec<Line>,
    v4: PrefixMap<(u32, u8), HopId>,
    v6: PrefixMap<(u128, u8), HopId>,
    /// The hops that routes refer to. Invariant: the number in a hop of kind `Paths` is the hop's own index here
    /// and in `paths`.
    hops: Vec<FibEntry>,
    /// The paths of each hop that has any.
    paths: Vec<Box<[Path]>>,
    /// What the source of the router's own packets by each hop depends on. Hops behind the end have the default.
    hints: Vec<SourceHint>,
    /// Neighbours whose state is known: the MAC address, or None if the neighbour does not answer.
    neighbours: HashMap<Neighbour, Option<MacAddr>>,
    /// The hash by which flows select one of several paths.
    pub(crate) flows: FlowHash,
}

/// Maximum number of routes that are scanned: four cache lines. The worst case of this scan is still faster than
/// the tree's usual case.
pub(super) const FEW_MAX: usize = 4 * PER_LINE;

/// A change of a [`Fib`](super::Fib). A change gives the new state, not a difference, so making it twice is the
/// same as making it once.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// The prefix leads to this hop, regardless of its hop before.
    Route(IpNet, HopId),
    /// There is no route for the prefix any more.
    Withdraw(IpNet),
    /// The hop is replaced by this one.
    Hop(HopId, FibEntry),
    /// The hop leads by these paths. A flow selects one by its hash.
    Paths(HopId, Box<[Path]>),
    /// The source of the router's own packets by this hop depends on this.
    Source(HopId, SourceHint),
    /// The neighbour has this MAC address, or None if it does not answer.
    Neighbour(Neighbour, Option<MacAddr>),
    /// Nothing is known about the neighbour any more.
    Forget(Neighbour),
    /// The router's interface on the link of the port with this number.
    Interface(u8, Interface),
    /// The router's own addresses on the link of the port with this number, with the link's network.
    Addresses(u8, Box<[IpNet]>),
    /// The router's own addresses on all its links, whether or not they are ports, with the links' networks. The one
    /// that is to be used first by ports without an address comes first.
    OwnAddresses(Box<[IpNet]>),
    /// The link with this interface index of the kernel is that of this port, or of none.
    Link(u32, Option<u8>),
}

impl Table {
    /// Makes a table without routes.
    pub fn new() -> Self {
        Table::default()
    }

    /// Sets the seed of the hash by which flows select one of several paths, for tests that need the same paths at
    /// every run. By default the seed is random, and the same for all tables of the process.
    pub fn set_flow_seed(&mut self, seed: u64) {
        self.flows = FlowHash::seeded(seed);
    }

    /// Returns the next hop of the longest prefix that covers `destination`.
    ///
    /// # Cost
    /// One cache line and no branch for every four routes up to 16. With more routes, at most seven tree nodes and
    /// the hop.
    #[inline]
    pub fn lookup(&self, destination: Ipv4Addr) -> Option<&FibEntry> {
        match self.first.find(u32::from_ne_bytes(destination.octets())) {
            None => self.lookup_further(destination),
            found => found,
        }
    }

    #[cold]
    #[inline(never)]
    fn lookup_further(&self, destination: Ipv4Addr) -> Option<&FibEntry> {
        if self.v4.len() > FEW_MAX {
            return self.hop(*self.v4.get_lpm(&(destination.to_bits(), 32))?.1);
        }
        let address = u32::from_ne_bytes(destination.octets());
        self.further.iter().find_map(|line| line.find(address))
    }

    /// Returns the next hop of the longest prefix that covers `destination`.
    ///
    /// # Cost
    /// A walk down the tree, even with few routes.
    #[inline]
    pub fn lookup_v6(&self, destination: Ipv6Addr) -> Option<&FibEntry> {
        self.hop(*self.v6.get_lpm(&(destination.to_bits(), 128))?.1)
    }

    /// Returns the next hop of a packet for `destination` that belongs to the flow with this hash, or None without
    /// a route.
    ///
    /// # Cost
    /// The lookup, and one lookup in a hash map if the route's own hop does not hold the MAC address.
    pub fn next_hop(&self, destination: IpAddr, flow: impl FnOnce() -> u32) -> Option<Hop> {
        self.next_hop_and_mtu(destination, flow).map(|(hop, _)| hop)
    }

    /// As [`next_hop`](Self::next_hop), and also returns the route's own MTU, if it has one.
    pub fn next_hop_and_mtu(
        &self,
        destination: IpAddr,
        flow: impl FnOnce() -> u32,
    ) -> Option<(Hop, Option<u16>)> {
        let hop = match destination {
            IpAddr::V4(address) => self.lookup(address)?,
            IpAddr::V6(address) => self.lookup_v6(address)?,
        };
        let hop = match hop.kind() {
            Kind::Paths => return Some(self.by_path(hop.number(), destination, flow)),
            Kind::Station => Hop::Station { port: hop.port, mac: hop.mac },
            Kind::OnLink => self.neighbour(Neighbour { port: hop.number() as u8, address: destination }),
            Kind::Local => Hop::Local,
            Kind::Blackhole => Hop::Blackhole,
            Kind::Unreachable => Hop::Unreachable,
            Kind::Prohibit => Hop::Prohibit,
            Kind::Elsewhere => Hop::Elsewhere,
            Kind::Throw => return None,
        };
        Some((hop, None))
    }

    /// Selects the path by the flow's hash. Each path has a share of the hash values by its weight (hash-threshold,
    /// RFC 2992).
    fn by_path(&self, number: u32, destination: IpAddr, flow: impl FnOnce() -> u32) -> (Hop, Option<u16>) {
        let paths: &[Path] = self.paths.get(number as usize).map_or(&[], |paths| paths);
        let path = match paths {
            [] => return (Hop::Elsewhere, None),
            [one] => one,
            several => share_of(several, flow()),
        };
        let hop = path.port.map_or(Hop::Elsewhere, |port| {
            self.neighbour(Neighbour { port, address: path.via.unwrap_or(destination) })
        });
        (hop, path.mtu)
    }

    /// Returns true if packets can reach `address`: by `port` if `must_be_port`, and otherwise by any interface. `is_own`
    /// says whether a route to the router itself counts. It is called only for such a route.
    pub(crate) fn leads_to(
        &self,
        address: IpAddr,
        port: u8,
        must_be_port: bool,
        is_own: impl FnOnce() -> bool,
    ) -> bool {
        let hop = match address {
            IpAddr::V4(address) => self.lookup(address),
            IpAddr::V6(address) => self.lookup_v6(address),
        };
        let Some(hop) = hop else { return false };
        match hop.kind() {
            Kind::Blackhole | Kind::Unreachable | Kind::Prohibit | Kind::Throw => false,
            Kind::Local => is_own(),
            _ if !must_be_port => true,
            Kind::Station => hop.port == port,
            Kind::OnLink => hop.number() == u32::from(port),
            Kind::Paths => {
                let paths = self.paths.get(hop.number() as usize);
                paths.is_some_and(|paths| paths.iter().any(|path| path.port == Some(port)))
            }
            Kind::Elsewhere => false,
        }
    }

    /// Returns what the source of a packet of the router to `destination` depends on, if the packet belongs to the flow
    /// with this hash.
    ///
    /// # Cost
    /// A walk down the tree. Not for the hot path.
    pub(super) fn source_hint(&self, destination: IpAddr, flow: u32) -> SourceHint {
        let hint_of = |id: HopId| self.hints.get(id.0 as usize).copied().unwrap_or_default();
        let Some(mut id) = self.covering(destination, 0) else { return SourceHint::default() };
        // A neighbour whose MAC address is known has a route of its own. Its source is that of the route to its link.
        if self.hop(id).map(FibEntry::kind) == Some(Kind::Station) && hint_of(id) == SourceHint::default() {
            id = self.covering(destination, 1).unwrap_or(id);
        }
        let hint = hint_of(id);
        match (self.hop(id).map(FibEntry::kind), self.paths.get(id.0 as usize)) {
            (Some(Kind::Paths), Some(paths)) if paths.len() > 1 => {
                SourceHint { via: share_of(paths, flow).via, ..hint }
            }
            _ => hint,
        }
    }

    /// Returns the hop of the longest prefix that contains the addresses which differ from `address` in the last `bits`
    /// bits only.
    fn covering(&self, address: IpAddr, bits: u8) -> Option<HopId> {
        match address {
            IpAddr::V4(address) => {
                self.v4.get_lpm(&(address.to_bits() >> bits << bits, 32 - bits)).map(|(_, id)| *id)
            }
            IpAddr::V6(address) => {
                self.v6.get_lpm(&(address.to_bits() >> bits << bits, 128 - bits)).map(|(_, id)| *id)
            }
        }
    }

    pub(crate) fn neighbour(&self, neighbour: Neighbour) -> Hop {
        match self.neighbours.get(&neighbour) {
            Some(Some(mac)) => Hop::Station { port: neighbour.port, mac: *mac },
            Some(None) => Hop::Failed(neighbour),
            None => Hop::Unresolved(neighbour),
        }
    }

    fn hop(&self, id: HopId) -> Option<&FibEntry> {
        self.hops.get(id.0 as usize)
    }

    /// Makes one change. [`compile`](Self::compile) must be called after the last change.
    pub(super) fn change(&mut self, change: &Change) {
        match change {
            Change::Route(IpNet::V4(net), id) => {
                self.v4.insert((net.network().to_bits(), net.prefix_len()), *id);
            }
            Change::Route(IpNet::V6(net), id) => {
                self.v6.insert((net.network().to_bits(), net.prefix_len()), *id);
            }
            Change::Withdraw(IpNet::V4(net)) => {
                self.v4.remove(&(net.network().to_bits(), net.prefix_len()));
            }
            Change::Withdraw(IpNet::V6(net)) => {
                self.v6.remove(&(net.network().to_bits(), net.prefix_len()));
            }
            Change::Hop(id, hop) => *self.place(*id).0 = *hop,
            Change::Paths(id, paths) => {
                let (hop, place) = self.place(*id);
                (*hop, *place) = (FibEntry::paths(id.0), paths.clone());
            }
            Change::Source(id, hint) => {
                let at = id.0 as usize;
                if at >= self.hints.len() {
                    self.hints.resize(at + 1, SourceHint::default());
                }
                self.hints[at] = *hint;
            }
            Change::Neighbour(neighbour, mac) => drop(self.neighbours.insert(*neighbour, *mac)),
            Change::Forget(neighbour) => drop(self.neighbours.remove(neighbour)),
            // The table does not hold these.
            Change::Interface(..) | Change::Addresses(..) | Change::OwnAddresses(_) | Change::Link(..) => {}
        }
    }

    /// Returns the entries of a hop, and makes them if they do not exist.
    fn place(&mut self, id: HopId) -> (&mut FibEntry, &mut Box<[Path]>) {
        let at = id.0 as usize;
        if at >= self.hops.len() {
            self.hops.resize(at + 1, FibEntry::ELSEWHERE);
            self.paths.resize(at + 1, Box::default());
        }
        (&mut self.hops[at], &mut self.paths[at])
    }

    /// Builds the lines for the scan.
    pub(super) fn compile(&mut self) {
        let mut routes = Vec::new();
        if self.v4.len() <= FEW_MAX {
            let mask = |length: u8| u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let hop = |id: &HopId| self.hop(*id).copied().unwrap_or(FibEntry::ELSEWHERE);
            routes.extend(self.v4.iter().map(|((network, length), id)| (mask(length), network, hop(id))));
            routes.sort_by_key(|(mask, ..)| Reverse(*mask));
        }
        let mut lines = routes.chunks(PER_LINE).map(Line::new);
        self.first = lines.next().unwrap_or_default();
        self.further = lines.collect();
    }

    /// Adds a route in text form. Returns the next hop that its prefix had before.
    ///
    /// # Cost
    /// Allocates memory and scans the hops. Not for the hot path, nor for full tables.
    pub fn insert(&mut self, route: Route) -> Option<FibEntry> {
        let Route { prefix, port, mac } = route;
        let before = match prefix {
            IpNet::V4(net) => self.v4.get(&(net.network().to_bits(), net.prefix_len())),
            IpNet::V6(net) => self.v6.get(&(net.network().to_bits(), net.prefix_len())),
        };
        let before = before.and_then(|id| self.hop(*id).copied());
        let hop = FibEntry::station(port, mac);
        let id = self.hops.iter().position(|other| *other == hop).unwrap_or(self.hops.len());
        let id = HopId(id as u32);
        self.change(&Change::Hop(id, hop));
        self.change(&Change::Route(prefix, id));
        self.compile();
        before
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns the memory that the table takes, in bytes.
    pub fn bytes(&self) -> usize {
        let lines = size_of::<Line>() * self.further.capacity();
        let paths = self.paths.iter().map(|paths| size_of_val(&**paths)).sum::<usize>();
        let hops =
            size_of::<FibEntry>() * self.hops.capacity() + size_of::<Box<[Path]>>() * self.paths.capacity();
        let neighbours = size_of::<(Neighbour, Option<MacAddr>)>() * self.neighbours.capacity();
        let hints = size_of::<SourceHint>() * self.hints.capacity();
        self.v4.mem_size() + self.v6.mem_size() + lines + paths + hops + hints + neighbours
    }

    /// Returns true if there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns the path of `paths` for a flow with this hash.
fn share_of(paths: &[Path], hash: u32) -> &Path {
    let all: u64 = paths.iter().map(|path| u64::from(path.weight)).sum();
    let mut point = (u64::from(hash) * all) >> 32;
    let mut last = &paths[0];
    for path in paths {
        last = path;
        match point.checked_sub(u64::from(path.weight)) {
            Some(rest) => point = rest,
            None => break,
        }
    }
    last
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
