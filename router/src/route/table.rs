//! The table that packets are looked up in.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use prefix_trie::PrefixMap;

use super::flow_hash::FlowHash;
use super::hop::{Hop, Kind, Neighbour, NextHop, Path};
use super::line::{Line, PER_LINE};
use super::text::Route;
use crate::interface::Interface;
use netmem::wire::MacAddr;

/// The number of a next hop in a table: routes name it, so that a neighbour's new link address changes one place however
/// many routes lead there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HopId(pub u32);

/// The table of routes, of both families.
///
/// Most tables here hold a few routes, and for those a scan beats any tree; the tree takes over
/// when they become many.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Invariant, once compiled: `first` and `further` hold every route of `v4`, the longest prefixes first, each with its
    /// hop, or, when they are more than [`FEW_MAX`], none.
    first: Line,
    further: Vec<Line>,
    v4: PrefixMap<(u32, u8), HopId>,
    v6: PrefixMap<(u128, u8), HopId>,
    /// What routes name. Invariant: the number with a hop of kind `Paths` is its own place here and in `paths`.
    hops: Vec<NextHop>,
    /// The ways out of each hop that has any.
    paths: Vec<Box<[Path]>>,
    /// Neighbours that are known: by their link address, or by their silence.
    neighbours: HashMap<Neighbour, Option<MacAddr>>,
    /// By which flows choose among several paths.
    pub(crate) flows: FlowHash,
}

/// Routes that are scanned at most: four cache lines of them, and the scan's worst case still beats
/// the tree's usual one.
pub(super) const FEW_MAX: usize = 4 * PER_LINE;

/// A change of a [`Fib`](super::Fib). It says what is then, not what differs: made twice, it is as made once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// The prefix leads to this hop, whatever it did before.
    Route(IpNet, HopId),
    /// There is no route for the prefix any more.
    Withdraw(IpNet),
    /// The hop is this one.
    Hop(HopId, NextHop),
    /// The hop leads by these paths, of which flows choose one by their hash.
    Paths(HopId, Box<[Path]>),
    /// The neighbour has this link address, or none that it tells.
    Neighbour(Neighbour, Option<MacAddr>),
    /// Nothing is known about the neighbour.
    Forget(Neighbour),
    /// The router's end of the link of the port with this number is this one.
    Interface(u8, Interface),
    /// The router's own addresses on the link of the port with this number are these, with the link's network.
    Addresses(u8, Box<[IpNet]>),
    /// The router's own addresses on all its links, of ports and of others, are these, with the links' networks.
    Own(Box<[IpNet]>),
}

impl Table {
    /// A table without routes.
    pub fn new() -> Self {
        Table::default()
    }

    /// Has flows choose among several paths by a hash under this seed, for tests that want the same paths at every run. Without it the seed
    /// is a random one, the same for all tables of the process.
    pub fn set_flow_seed(&mut self, seed: u64) {
        self.flows = FlowHash::seeded(seed);
    }

    /// The next hop of the longest prefix that covers `destination`.
    ///
    /// # Cost
    /// One cache line and no branch for every four routes up to 16; above, at most seven tree nodes and the hop.
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
        if self.v4.len() > FEW_MAX {
            return self.hop(*self.v4.get_lpm(&(destination.to_bits(), 32))?.1);
        }
        let address = u32::from_ne_bytes(destination.octets());
        self.further.iter().find_map(|line| line.find(address))
    }

    /// The next hop of the longest prefix that covers `destination`.
    ///
    /// # Cost
    /// A walk down the tree, however few routes there are.
    #[inline]
    pub fn lookup_v6(&self, destination: Ipv6Addr) -> Option<&NextHop> {
        self.hop(*self.v6.get_lpm(&(destination.to_bits(), 128))?.1)
    }

    /// Where a packet for `destination` goes that belongs to the flow with this hash; None without a route.
    ///
    /// # Cost
    /// Beside the lookup, one in a hash map where the link address does not lie in the route's own hop.
    pub fn next_hop(&self, destination: IpAddr, flow: impl FnOnce() -> u32) -> Option<Hop> {
        self.next_hop_and_mtu(destination, flow).map(|(hop, _)| hop)
    }

    /// As [`next_hop`](Self::next_hop), and the route's own MTU, where it has one.
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
        };
        Some((hop, None))
    }

    /// By the path that the flow's hash falls to: each has a share of the hashes by its weight (hash-threshold, RFC 2992).
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

    /// Whether packets can go to `address` by some way: out of `port`, or, where that need not be, anywhere.
    pub(crate) fn leads_to(&self, address: IpAddr, port: u8, must_be_port: bool) -> bool {
        let hop = match address {
            IpAddr::V4(address) => self.lookup(address),
            IpAddr::V6(address) => self.lookup_v6(address),
        };
        let Some(hop) = hop else { return false };
        match hop.kind() {
            Kind::Blackhole | Kind::Unreachable | Kind::Prohibit => false,
            // The router's own addresses are no others' sources, unless somebody wants that (`Allow::martians`).
            Kind::Local => true,
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

    fn neighbour(&self, neighbour: Neighbour) -> Hop {
        match self.neighbours.get(&neighbour) {
            Some(Some(mac)) => Hop::Station { port: neighbour.port, mac: *mac },
            Some(None) => Hop::Silent(neighbour),
            None => Hop::Unresolved(neighbour),
        }
    }

    fn hop(&self, id: HopId) -> Option<&NextHop> {
        self.hops.get(id.0 as usize)
    }

    /// Makes one change; [`compile`](Self::compile) has to follow the last one.
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
                (*hop, *place) = (NextHop::paths(id.0), paths.clone());
            }
            Change::Neighbour(neighbour, mac) => drop(self.neighbours.insert(*neighbour, *mac)),
            Change::Forget(neighbour) => drop(self.neighbours.remove(neighbour)),
            // The table has none.
            Change::Interface(..) | Change::Addresses(..) | Change::Own(_) => {}
        }
    }

    /// A hop's places, made if they are not there.
    fn place(&mut self, id: HopId) -> (&mut NextHop, &mut Box<[Path]>) {
        let at = id.0 as usize;
        if at >= self.hops.len() {
            self.hops.resize(at + 1, NextHop::ELSEWHERE);
            self.paths.resize(at + 1, Box::default());
        }
        (&mut self.hops[at], &mut self.paths[at])
    }

    /// Lays the routes out for the scan.
    pub(super) fn compile(&mut self) {
        let mut routes = Vec::new();
        if self.v4.len() <= FEW_MAX {
            let mask = |length: u8| u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let hop = |id: &HopId| self.hop(*id).copied().unwrap_or(NextHop::ELSEWHERE);
            routes.extend(self.v4.iter().map(|((network, length), id)| (mask(length), network, hop(id))));
            routes.sort_by_key(|(mask, ..)| Reverse(*mask));
        }
        let mut lines = routes.chunks(PER_LINE).map(Line::new);
        self.first = lines.next().unwrap_or_default();
        self.further = lines.collect();
    }

    /// Adds a route that a person wrote, and gives the next hop that its prefix had before.
    ///
    /// # Cost
    /// Allocates, and scans the hops; not for the hot path, nor for full tables.
    pub fn insert(&mut self, route: Route) -> Option<NextHop> {
        let Route { prefix, port, mac } = route;
        let before = match prefix {
            IpNet::V4(net) => self.v4.get(&(net.network().to_bits(), net.prefix_len())),
            IpNet::V6(net) => self.v6.get(&(net.network().to_bits(), net.prefix_len())),
        };
        let before = before.and_then(|id| self.hop(*id).copied());
        let hop = NextHop::station(port, mac);
        let id = self.hops.iter().position(|other| *other == hop).unwrap_or(self.hops.len());
        let id = HopId(id as u32);
        self.change(&Change::Hop(id, hop));
        self.change(&Change::Route(prefix, id));
        self.compile();
        before
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        let lines = size_of::<Line>() * self.further.capacity();
        let paths = self.paths.iter().map(|paths| size_of_val(&**paths)).sum::<usize>();
        let hops =
            size_of::<NextHop>() * self.hops.capacity() + size_of::<Box<[Path]>>() * self.paths.capacity();
        let neighbours = size_of::<(Neighbour, Option<MacAddr>)>() * self.neighbours.capacity();
        self.v4.mem_size() + self.v6.mem_size() + lines + paths + hops + neighbours
    }

    /// Whether there is no route at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The path of `paths` that a flow of this hash takes.
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
