//! Keeps a table in the state of the kernel's.

mod dumps;
mod kept;
mod neighbours;
mod withdrawals;

use self::withdrawals::Withdrawals;
use crate::addresses::Addresses;
use crate::neighbours::NeighbourRequests;
use crate::pending::PendingEvents;
use crate::port_interface::PortInterface;
use crate::resync::Resync;
use crate::socket::{EventSocket, RequestSocket};
use crate::state::FollowerState;
use crate::tables::FollowerTables;
use crate::translate::{Event, LinkState};
use crate::unsupported::{Unsupported, UnsupportedReport};
use ipnet::IpNet;
use netmem::system::errno::{descriptor_remedy_of, descriptor_remedy_or};
use netmem::system::event::sleep_until_readable;
use netmem_router::UnresolvedNeighbours;
use netmem_router::route::{Change, Fib, FibControl, FibReader, Origin, RibRoute, fib};
use netmem_router::{Allow, Interface, ReversePath};
use std::collections::HashMap;
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of datagrams that are read before workers are given the changes.
const AT_ONCE: usize = 256;

/// Maximum number of ports. No port has the number 255.
const PORTS_MAX: usize = u8::MAX as usize;

/// The configuration of a follower.
#[derive(Debug, Clone, Default)]
pub struct FollowerConfig {
    /// The router's interface on each port's link, in the order of the ports, and the kernel's interface behind the port. At most
    /// 255.
    pub ports: Vec<(Interface, PortInterface)>,
    /// Routes that take precedence over the kernel's.
    pub static_routes: Vec<RibRoute>,
    /// Packets that are forwarded only because the operator allows it.
    pub allow: Allow,
    /// The source check of each port, in the order of the ports. Ports without an entry have no check.
    pub reverse_path: Vec<ReversePath>,
}

/// The reason why the kernel cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// There are more ports than numbers for them. Nothing was asked of the kernel.
    #[error("follow the kernel's routes for {ports} ports: give at most {max}")]
    TooManyPorts {
        /// The number of ports that were given.
        ports: usize,
        /// The maximum.
        max: usize,
    },
    /// A socket cannot be made.
    #[error("rtnetlink socket: {0}{remedy}", remedy = socket_remedy(.0))]
    Socket(#[source] io::Error),
    /// The kernel does not answer a request for its tables.
    #[error(
        "rtnetlink: request the kernel's {what}: {why}{}; a follower that runs requests again a second later, otherwise start it again",
        descriptor_remedy_of(.why)
    )]
    Request {
        /// The tables that were asked for.
        what: &'static str,
        /// The kernel's answer.
        #[source]
        why: io::Error,
    },
    /// The event socket does not work any more.
    #[error("rtnetlink: read the kernel's events: {0}; start the follower again")]
    Events(#[source] io::Error),
}

/// Returns what to do about a socket that cannot be made, as the end of a line.
fn socket_remedy(error: &io::Error) -> &'static str {
    let otherwise =
        "; is this Linux, and may this process have such a socket (seccomp, RestrictAddressFamilies)?";
    descriptor_remedy_or(error, otherwise)
}

/// Keeps a table in the state of the kernel's. Belongs to one thread, which calls [`poll`](Self::poll) in a loop.
pub struct Follower {
    state: Arc<Mutex<FollowerState>>,
    control: FibControl,
    event_socket: EventSocket,
    request_socket: RequestSocket,
    ports: Vec<(Interface, PortInterface)>,
    /// The index of each port's interface. A socket stays with that interface, whatever the name of it or of another becomes. None
    /// while no interface has the port's name.
    indices: Vec<Option<u32>>,
    unresolved: Vec<UnresolvedNeighbours>,
    requests: NeighbourRequests,
    /// The state of each link.
    links: HashMap<u32, LinkState>,
    /// The MTU of each link.
    mtus: HashMap<u32, u32>,
    addresses: Addresses,
    /// Own addresses or local routes have changed since the last [`take_own_addresses`](Self::take_own_addresses).
    own_changed: bool,
    /// Workers may not have all changes of addresses, or of the ports that have them.
    unpublished_addresses: bool,
    resync: Resync,
    withdrawals: Withdrawals,
    unsupported: UnsupportedReport,
}

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Follower").field("ports", &self.ports).finish_non_exhaustive()
    }
}

impl Follower {
    /// Asks for the whole state and follows it from then on. Also returns the reader of the table, one clone for
    /// each worker.
    ///
    /// # Errors
    /// [`FollowError`].
    pub fn start(config: FollowerConfig) -> Result<(Follower, FibReader), FollowError> {
        let ports = config.ports.len();
        if ports > PORTS_MAX {
            return Err(FollowError::TooManyPorts { ports, max: PORTS_MAX });
        }
        // Events are subscribed to before the tables are read, so no event between the two is missed.
        let event_socket = EventSocket::new().map_err(FollowError::Socket)?;
        let request_socket = RequestSocket::new().map_err(FollowError::Socket)?;
        let interfaces = config.ports.iter().map(|(interface, _)| *interface).collect();
        let mut first = Fib::new(interfaces);
        (first.allow, first.reverse_path) = (config.allow, config.reverse_path);
        let (control, mut reader) = fib(first);
        let mut state = FollowerState::default();
        for route in &config.static_routes {
            state.rib.insert(route);
        }
        let mut follower = Follower {
            state: Arc::new(Mutex::new(state)),
            control,
            event_socket,
            request_socket,
            requests: NeighbourRequests::new(config.ports.len()),
            indices: vec![None; config.ports.len()],
            ports: config.ports,
            unresolved: Vec::new(),
            links: HashMap::new(),
            mtus: HashMap::new(),
            addresses: Addresses::default(),
            own_changed: true,
            unpublished_addresses: true,
            resync: Resync::new(Instant::now()),
            withdrawals: Withdrawals::default(),
            unsupported: UnsupportedReport::default(),
        };
        follower.resync()?;
        reader.refresh();
        Ok((follower, reader))
    }

    /// Adds a worker's neighbours: from now on the kernel is asked for those that the worker's frames wait for.
    pub fn add_unresolved(&mut self, unresolved: UnresolvedNeighbours) {
        self.unresolved.push(unresolved);
    }

    /// Returns a view of the tables that other threads may use while the follower runs.
    pub fn tables(&self) -> FollowerTables {
        FollowerTables(Arc::clone(&self.state))
    }

    /// Returns a handle that changes the static routes while the follower runs.
    pub fn static_routes(&self) -> StaticRoutes {
        StaticRoutes(Arc::clone(&self.state))
    }

    /// Returns the destinations whose packets belong to the host, if they have changed since the last call. These
    /// are the addresses of its interfaces, and the prefixes of its table `local`. That table also has the
    /// subnet-router anycast addresses (RFC 4291 §2.6.1) of a host that forwards IPv6.
    ///
    /// # Cost
    /// If they have changed, a look at every route.
    pub fn take_own_addresses(&mut self) -> Option<Vec<IpNet>> {
        if !std::mem::take(&mut self.own_changed) {
            return None;
        }
        let addresses = self.addresses.iter().map(IpNet::from);
        Some(addresses.chain(self.state().rib.local()).collect())
    }

    /// Returns the features by which the kernel forwards packets and that are not supported, unless they were returned
    /// before: each rule while it exists, at most 16 by name in one call, and one route of each kind.
    pub fn take_unsupported(&mut self) -> Vec<Unsupported> {
        self.unsupported.take_new()
    }

    /// Returns true if the kernel accepted requests for neighbours when the follower was started. It refuses those of a
    /// process without CAP_NET_ADMIN: packets to neighbours that it does not know are then dropped, and the requests
    /// count as [`neigh_refused`](crate::FollowerStats::neigh_refused).
    pub fn may_request_neighbours(&self) -> bool {
        self.request_socket.is_permitted()
    }

    fn count_rules(&self) {
        self.state().counters.unsupported_rules = self.unsupported.rules() as u64;
    }

    /// Waits for events for at most `at_most`, applies them, and gives workers the changes.
    ///
    /// # Errors
    /// [`FollowError`]. The table then stays the same. After [`FollowError::Request`] the caller may go on to call
    /// this, and the kernel is asked again a second later.
    pub fn poll(&mut self, at_most: Duration) -> Result<(), FollowError> {
        sleep_until_readable(&[self.event_socket.as_fd()], at_most);
        self.process_events()?;
        self.ask_for_neighbours();
        let mut sure = Ok(());
        if self.resync.is_due(Instant::now()) {
            // A resync may take seconds. Workers must not use a link that is down for so long.
            self.publish();
            sure = self.resync();
        }
        if sure.is_err() {
            self.state().counters.failures += 1;
            self.resync.postpone(Instant::now());
        }
        self.publish();
        sure
    }

    fn process_events(&mut self) -> Result<(), FollowError> {
        let mut pending = PendingEvents::default();
        let read = self.read_events(&mut pending, AT_ONCE);
        self.apply_events(pending);
        read.map(drop)
    }

    /// Reads at most `at_most` datagrams of events. Returns true if none is left and none of them may have removed
    /// an IPv6 route.
    fn read_events(&mut self, pending: &mut PendingEvents, at_most: usize) -> Result<bool, FollowError> {
        let read = |events: &mut Vec<_>| self.event_socket.read(|event| events.push(event));
        pending.read(at_most, read).map_err(FollowError::Events)
    }

    /// Applies the events that were read.
    fn apply_events(&mut self, pending: PendingEvents) {
        let mut state = self.state();
        state.counters.malformed += pending.unread;
        state.counters.forged += pending.forged;
        state.counters.overruns += pending.overruns;
        state.counters.events += pending.events.len() as u64;
        drop(state);
        if pending.overruns > 0 {
            self.resync.request();
            self.withdrawals.forget();
        }
        pending.events.into_iter().for_each(|event| self.apply_event(event));
        self.withdraw();
    }

    /// Applies an event.
    fn apply_event(&mut self, event: Event) {
        match event {
            Event::Route(change, route) => {
                self.own_changed |= route.origin == Origin::Local;
                if self.withdrawals.is_pending_before(&route) {
                    self.withdraw();
                }
                self.withdrawals.add(&route);
                self.withdrawals.forget_rank(&route);
                if !change.apply(&mut self.state().rib, &route) {
                    self.resync.request();
                }
            }
            Event::Neighbour { link, address, state } => self.neighbour((link, address), state),
            Event::Link { index, names, state, mac, mtu } => {
                let before = self.links.insert(index, state);
                self.link_changed(index, before, state);
                if let Some(mtu) = mtu {
                    self.mtu_changed(index, mtu);
                }
                let mtu = mtu.or_else(|| self.mtus.get(&index).copied()).map(|mtu| mtu.min(0xffff) as u16);
                self.link(index, names, mac.zip(mtu).map(|(mac, mtu)| Interface { mac, mtu }));
            }
            Event::LinkGone(index) => {
                let before = self.links.remove(&index);
                self.mtus.remove(&index);
                self.link_changed(index, before, LinkState::Down);
                self.withdraw();
                self.withdrawals.gone(index);
                self.link(index, Vec::new(), None);
            }
            Event::Address { link, net, state } => {
                let changed = self.addresses.set(link, net, state);
                self.addresses_changed(changed);
                // The kernel removes routes with this source without an event.
                if state.is_none() {
                    self.resync.request_twice(Instant::now());
                }
            }
            Event::Unsupported(what) => {
                self.unsupported.add(what);
                self.count_rules();
            }
            Event::RuleGone(rule) => {
                self.unsupported.remove_rule(&rule);
                self.count_rules();
            }
            Event::RoutesMayHaveChanged | Event::RouteUnread { .. } => {
                self.resync.request();
                // It may have been about these routes too: their next-hop objects go with the link.
                self.withdraw();
                self.withdrawals.forget();
            }
            Event::Done | Event::Refused(_) => {}
        }
    }

    fn addresses_changed(&mut self, changed: bool) {
        (self.own_changed, self.unpublished_addresses) =
            (self.own_changed | changed, self.unpublished_addresses | changed);
    }

    /// Handles a link's change from the state `before`, or None if the link was not known. The kernel removes the
    /// link's routes, or omits routes over it, without events. It also uses the paths over a link that is up again
    /// without events. The paths over a link that went down are taken out by [`withdraw`](Self::withdraw).
    fn link_changed(&mut self, index: u32, before: Option<LinkState>, now: LinkState) {
        if before.unwrap_or(LinkState::Down) == now {
            return;
        }
        if now == LinkState::Down {
            self.withdrawals.down(index);
            self.resync.request_twice(Instant::now());
            return;
        }
        // The events that follow may be about its new routes, which stay.
        if self.withdrawals.is_pending(index) {
            self.withdraw();
        }
        if now == LinkState::NoCarrier {
            self.withdrawals.no_carrier(index);
        }
        // Another link may have the number of one that is gone.
        if now == LinkState::Up && before.is_some() {
            self.restore(index, false);
        }
        // The kernel reports a link as up before it uses the paths over it.
        if before == Some(LinkState::Down) {
            self.resync.request_twice(Instant::now());
        } else {
            self.resync.request();
        }
    }

    /// Takes the paths over links that went down or lost their carrier out of the known routes.
    fn withdraw(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.withdrawals.apply(&mut state.rib);
    }

    /// Puts the paths over a link that is up again back into the known routes that stayed without them. `again`: the event
    /// will be applied once more, behind the answers.
    fn restore(&mut self, index: u32, again: bool) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.withdrawals.restore(&mut state.rib, index, again);
    }

    /// Handles a link's MTU. If it has changed, the kernel changes the MTU of the link's IPv6 routes without events, and
    /// removes these routes if it is less than 1,280 bytes.
    fn mtu_changed(&mut self, index: u32, mtu: u32) {
        if self.mtus.insert(index, mtu).is_some_and(|before| before != mtu) {
            self.resync.request_twice(Instant::now());
        }
    }

    /// Records a link's names, its own first, and the router's end of the link, which is None if the link is gone.
    fn link(&mut self, index: u32, names: Vec<String>, interface: Option<Interface>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        let mut own = None;
        // The numbers come last, because of 255 ports the number after the last one does not exist.
        let each = self.ports.iter_mut().zip(&mut self.indices).zip(0..);
        for (((its, port_interface), at), port) in each {
            let is_named = port_interface.name().is_some_and(|its| names.iter().any(|name| name == its));
            match *at {
                None if is_named => *at = Some(index),
                Some(before) if before == index && names.is_empty() => *at = None,
                _ => {}
            }
            if *at != Some(index) {
                continue;
            }
            if port_interface.router_end().is_some() {
                own = own.or(Some(port));
            }
            let now = interface.map(|kernel| port_interface.router_interface(*its, kernel));
            if let Some(now) = now.filter(|now| now != its) {
                *its = now;
                changes.push(Change::Interface(port, now));
            }
        }
        state.rib.set_port(index, own);
        match names.into_iter().next() {
            Some(name) => drop(state.names.insert(index, name)),
            None => drop(state.names.remove(&index)),
        }
        drop(state);
        self.control.apply(changes);
        self.unpublished_addresses = true;
    }

    /// Gives workers the changes.
    fn publish(&mut self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = state.rib.take_changes();
        if std::mem::take(&mut self.unpublished_addresses) {
            let links = (0..self.ports.len()).map(|port| state.rib.link(port as u8));
            let opposite = |link| {
                let mut ports = self.ports.iter().zip(&self.indices);
                ports.any(|((_, its), at)| its.router_end().is_none() && *at == Some(link))
            };
            changes.extend(self.addresses.take_changes(links, opposite));
        }
        drop(state);
        self.control.apply(changes);
    }

    fn state(&self) -> MutexGuard<'_, FollowerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes the routes that take precedence over the kernel's. Usable from any thread.
#[derive(Debug, Clone)]
pub struct StaticRoutes(Arc<Mutex<FollowerState>>);

impl StaticRoutes {
    /// Replaces the static routes. Workers get the change with the follower's next poll.
    pub fn replace(&self, routes: impl IntoIterator<Item = RibRoute>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rib.replace_static(routes);
    }
}
