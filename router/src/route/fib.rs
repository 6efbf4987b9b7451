//! The forwarding table that workers read and that may change at any time.
//!
//! There are two copies. Readers hold one. Changes go into the other, then the two are swapped and a counter
//! advances. A reader compares the counter once a round, and takes the new copy if the counter has changed. Both
//! copies get the same changes in turn, so the cost of a change does not depend on the size of the table.

use super::source::{SourceHint, labelled, own_address, suits};
use super::sources::OwnSources;
use super::table::{Change, Table};
use crate::interface::{Allow, Interface, ReversePath};
use ipnet::IpNet;
use std::collections::HashMap;
use std::mem;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

/// The data that a worker needs to forward a packet.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Fib {
    /// The routes.
    pub table: Table,
    /// The router's interface on each port's link, in the order of the ports.
    pub interfaces: Vec<Interface>,
    /// The router's own addresses on each port's link with the link's network, as far as they are known, in the
    /// order of the ports.
    pub addresses: Vec<Box<[IpNet]>>,
    /// The router's own addresses on all its links, whether or not they are ports, with the links' networks. Packets
    /// of the router by ports without an address are from the first that suits them, in IPv6 with the destination's label.
    pub own_addresses: Box<[IpNet]>,
    /// Addresses that no received packet may have as its source, if their routes lead to the router. Empty if
    /// [`Allow::martians`] lets such packets pass.
    pub own_sources: OwnSources,
    /// Packets that are forwarded only because the operator allows it.
    pub allow: Allow,
    /// The source check of each port, in the order of the ports. Ports without an entry have no check. Empty if no
    /// port has a check; then no packet pays for looking it up.
    pub reverse_path: Vec<ReversePath>,
    /// The port on each link, by the kernel's interface index.
    pub(crate) links: HashMap<u32, u8>,
}

impl Fib {
    /// Makes a table without routes for a router with these interfaces, in the order of the ports.
    pub fn new(interfaces: Vec<Interface>) -> Fib {
        Fib { interfaces, ..Fib::default() }
    }

    /// Returns the router's known own addresses on a port's link.
    pub fn addresses_of(&self, port: u8) -> &[IpNet] {
        self.addresses.get(usize::from(port)).map_or(&[], |addresses| addresses)
    }

    /// Returns the source address of a packet of the router to `to` that belongs to the flow with this hash: the route's
    /// preferred source if it is an address of the router, otherwise an address of the first of `ports` that has one,
    /// otherwise an address on any link (RFC 1812 §2.2.7, §4.3.2.4).
    ///
    /// # Cost
    /// A look-up, and a look at every address. Not for the hot path.
    pub(crate) fn source(&self, ports: &[u8], to: IpAddr, flow: u32) -> Option<IpAddr> {
        let on = |port| own_address(self.addresses_of(port), to, None);
        let elsewhere = || labelled(&self.own_addresses, to);
        let on_any_port = || (0..self.addresses.len() as u8).find_map(on);
        let on_ports = || ports.iter().find_map(|port| self.source_on(*port, to, flow));
        on_ports().or_else(elsewhere).or_else(on_any_port)
    }

    /// Returns the route's preferred source if it is an address of the router, otherwise an address of this port.
    pub(crate) fn source_on(&self, port: u8, to: IpAddr, flow: u32) -> Option<IpAddr> {
        let SourceHint { preferred, via } = self.table.source_hint(to, flow);
        let is_good = |own: &IpAddr| suits(*own, to) && self.has_address(*own);
        preferred.filter(is_good).or_else(|| own_address(self.addresses_of(port), to, via))
    }

    /// Returns the source address of a packet of the router to a link-local address on a port's link.
    pub(crate) fn source_on_link(&self, port: u8, to: IpAddr) -> Option<IpAddr> {
        own_address(self.addresses_of(port), to, None)
    }

    /// Returns true if the router has this address on a link.
    ///
    /// # Cost
    /// A look at every address. Not for the hot path.
    pub(crate) fn has_address(&self, address: IpAddr) -> bool {
        self.addresses.iter().flatten().chain(&self.own_addresses).any(|net| net.addr() == address)
    }

    /// Returns the check of the sources of packets that come in on a port.
    #[inline]
    pub fn reverse_path_of(&self, port: u8) -> ReversePath {
        self.reverse_path.get(usize::from(port)).copied().unwrap_or_default()
    }

    /// Makes changes, in order.
    ///
    /// # Cost
    /// Allocates memory. Not for the hot path.
    pub fn apply<'a>(&mut self, changes: impl IntoIterator<Item = &'a Change>) {
        for change in changes {
            match change {
                Change::Interface(port, interface) => {
                    if let Some(place) = self.interfaces.get_mut(usize::from(*port)) {
                        *place = *interface;
                    }
                }
                Change::Addresses(port, addresses) => {
                    let at = usize::from(*port);
                    if at >= self.addresses.len() {
                        self.addresses.resize(at + 1, Box::default());
                    }
                    self.addresses[at] = addresses.clone();
                }
                Change::OwnAddresses(nets) => {
                    self.own_sources =
                        if self.allow.martians { OwnSources::default() } else { OwnSources::of(nets) };
                    self.own_addresses = nets.clone();
                }
                Change::Link(link, Some(port)) => drop(self.links.insert(*link, *port)),
                Change::Link(link, None) => drop(self.links.remove(link)),
                route => self.table.change(route),
            }
        }
        self.table.compile();
    }
}

#[derive(Debug)]
struct Shared {
    /// Number of changes of `current` so far.
    changes: AtomicU64,
    current: Mutex<Arc<Fib>>,
}

/// A worker's end, which reads the table.
#[derive(Debug, Clone)]
pub struct FibReader {
    shared: Arc<Shared>,
    fib: Arc<Fib>,
    /// The value of `changes` that belongs to `fib`.
    seen: u64,
}

/// The control end, which changes the table for all readers.
#[derive(Debug)]
pub struct FibControl {
    shared: Arc<Shared>,
    /// The copy in which changes are made. It equals the current copy without the changes in `behind`.
    standby: Arc<Fib>,
    behind: Vec<Change>,
    /// Copies that a reader still held when they were needed. They are freed here, so that no reader has to free a
    /// full table.
    retired: Vec<Arc<Fib>>,
}

/// Returns a control end and a reader of a table. Each worker gets a clone of the reader.
#[cold]
pub fn fib(first: Fib) -> (FibControl, FibReader) {
    let (first, standby) = (Arc::new(first.clone()), Arc::new(first));
    let shared = Arc::new(Shared { changes: AtomicU64::new(0), current: Mutex::new(Arc::clone(&first)) });
    let reader = FibReader { shared: Arc::clone(&shared), fib: first, seen: 0 };
    (FibControl { shared, standby, behind: Vec::new(), retired: Vec::new() }, reader)
}

impl From<Fib> for FibReader {
    /// Returns a reader of a table that never changes.
    fn from(fib: Fib) -> FibReader {
        self::fib(fib).1
    }
}

impl FibReader {
    /// Returns the table as the last [`refresh`](Self::refresh) found it.
    #[inline]
    pub fn fib(&self) -> &Fib {
        &self.fib
    }

    /// Takes the newest table, unless another thread holds the lock at this moment. Returns true if the table is a
    /// new one.
    ///
    /// # Cost
    /// One load if nothing has changed.
    #[inline]
    pub fn refresh(&mut self) -> bool {
        // Relaxed: the lock orders the table itself.
        self.shared.changes.load(Relaxed) != self.seen && self.renew()
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self) -> bool {
        let Ok(current) = self.shared.current.try_lock() else { return false };
        self.fib = Arc::clone(&current);
        self.seen = self.shared.changes.load(Relaxed);
        true
    }
}

impl FibControl {
    /// Publishes `changes` to all readers at once. Each reader sees them at its next
    /// [`refresh`](FibReader::refresh).
    ///
    /// # Cost
    /// The changes are made twice. If a reader has not refreshed since the last call, a copy of the whole table is
    /// made.
    pub fn apply(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        let behind = mem::take(&mut self.behind);
        self.alter(|fib| fib.apply(behind.iter().chain(&changes)));
        self.behind = changes;
    }

    /// Returns the number of copies that readers held when they were needed, and still hold.
    pub fn held_back(&self) -> usize {
        self.retired.len()
    }

    /// Changes the standby copy and makes it the current one.
    fn alter(&mut self, change: impl FnOnce(&mut Fib)) {
        self.retired.retain(|old| Arc::strong_count(old) > 1);
        if Arc::get_mut(&mut self.standby).is_none() {
            let copy = Arc::new(Fib::clone(&self.standby));
            self.retired.push(mem::replace(&mut self.standby, copy));
        }
        if let Some(fib) = Arc::get_mut(&mut self.standby) {
            change(fib);
        }
        let mut current = self.shared.current.lock().unwrap_or_else(PoisonError::into_inner);
        mem::swap(&mut *current, &mut self.standby);
        self.shared.changes.fetch_add(1, Relaxed);
    }
}
