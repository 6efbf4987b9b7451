//! Keeps a table in the state of the kernel's.

mod all;
mod withdrawals;

use self::withdrawals::Withdrawals;
use crate::addresses::Addresses;
use crate::attached::Attached;
use crate::heard::Heard;
use crate::known::Known;
use crate::left_out::{LeftOut, Noted};
use crate::listing::Listing;
use crate::neighbours::{Asking, Key};
use crate::resync::Resync;
use crate::socket::{EventSocket, RequestSocket};
use crate::translate::{Event, Signal, State};
use ipnet::IpNet;
use netmem::system::event::sleep_until_readable;
use netmem_router::Wanted;
use netmem_router::route::{Change, Fib, FibControl, FibReader, Link, Origin, RibRoute, fib};
use netmem_router::{Allow, Interface, ReversePath};
use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Maximum number of datagrams that are read before workers are given the changes.
const AT_ONCE: usize = 256;

/// The initial state of a follower.
#[derive(Debug, Default)]
pub struct Setup {
    /// The router's end of each port's link, in the order of the ports, and the kernel's interface there.
    pub ports: Vec<(Interface, Attached)>,
    /// Routes that take precedence over the kernel's.
    pub given: Vec<RibRoute>,
    /// Packets that are forwarded only because the operator allows it.
    pub allow: Allow,
    /// The source check of each port, in the order of the ports. Ports without an entry have no check.
    pub reverse_path: Vec<ReversePath>,
}

/// The reason why the kernel cannot be followed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// A socket cannot be made.
    #[error("rtnetlink socket: {0}; is this Linux, and are there file descriptors left?")]
    Socket(#[source] io::Error),
    /// The kernel does not answer a request for its state.
    #[error("rtnetlink: the kernel's {what}: {why}")]
    Ask {
        /// The kind of state that was asked for.
        what: &'static str,
        /// The kernel's answer.
        why: io::Error,
    },
    /// The event socket does not work any more.
    #[error("rtnetlink: {0}")]
    Hear(#[source] io::Error),
}

/// Keeps a table in the state of the kernel's. Belongs to one thread, which calls [`turn`](Self::turn) in a loop.
pub struct Follower {
    known: Arc<Mutex<Known>>,
    control: FibControl,
    event_socket: EventSocket,
    request_socket: RequestSocket,
    ports: Vec<(Interface, Attached)>,
    /// The index of each port's interface. A socket stays with that interface, whatever the name of it or of another becomes. None
    /// while no interface has the port's name.
    indices: Vec<Option<u32>>,
    wanted: Vec<Wanted>,
    asking: Asking,
    /// The signal of each link.
    links: HashMap<u32, Signal>,
    /// The MTU of each link.
    mtus: HashMap<u32, u32>,
    addresses: Addresses,
    /// Own addresses or local routes have changed since the last [`take_own`](Self::take_own).
    new_own: bool,
    /// Workers may not have all changes of addresses, or of the ports that have them.
    unshown: bool,
    resync: Resync,
    withdrawals: Withdrawals,
    left_out: Noted,
}

impl Follower {
    /// Asks for the whole state and follows it from then on. Also returns the reader of the table, one clone for
    /// each worker.
    ///
    /// # Errors
    /// [`FollowError`].
    pub fn start(setup: Setup) -> Result<(Follower, FibReader), FollowError> {
        // Events are subscribed to before the tables are read, so no event between the two is missed.
        let event_socket = EventSocket::new().map_err(FollowError::Socket)?;
        let request_socket = RequestSocket::new().map_err(FollowError::Socket)?;
        let interfaces = setup.ports.iter().map(|(interface, _)| *interface).collect();
        let Setup { allow, reverse_path, .. } = setup;
        let (control, mut reader) = fib(Fib { interfaces, allow, reverse_path, ..Fib::default() });
        let mut known = Known::default();
        for route in &setup.given {
            known.rib.insert(route);
        }
        let mut follower = Follower {
            known: Arc::new(Mutex::new(known)),
            control,
            event_socket,
            request_socket,
            asking: Asking::new(setup.ports.len()),
            indices: vec![None; setup.ports.len()],
            ports: setup.ports,
            wanted: Vec::new(),
            links: HashMap::new(),
            mtus: HashMap::new(),
            addresses: Addresses::default(),
            new_own: true,
            unshown: true,
            resync: Resync::new(Instant::now()),
            withdrawals: Withdrawals::default(),
            left_out: Noted::default(),
        };
        follower.resync()?;
        reader.refresh();
        Ok((follower, reader))
    }

    /// Adds a worker's neighbours: from now on the kernel is asked for those that the worker's frames wait for.
    pub fn add_wanted(&mut self, wanted: Wanted) {
        self.wanted.push(wanted);
    }

    /// Returns a listing that other threads may use while the follower runs.
    pub fn listing(&self) -> Listing {
        Listing(Arc::clone(&self.known))
    }

    /// Returns a handle that changes the given routes while the follower runs.
    pub fn given(&self) -> Given {
        Given(Arc::clone(&self.known))
    }

    /// Returns the destinations whose packets belong to the host, if they have changed since the last call. These
    /// are the addresses of its interfaces, and the prefixes of its table `local`. That table also has the
    /// subnet-router anycast addresses (RFC 4291 §2.6.1) of a host that forwards IPv6.
    ///
    /// # Cost
    /// If they have changed, a look at every route.
    pub fn take_own(&mut self) -> Option<Vec<IpNet>> {
        if !std::mem::take(&mut self.new_own) {
            return None;
        }
        let addresses = self.addresses.iter().map(IpNet::from);
        Some(addresses.chain(self.known().rib.local()).collect())
    }

    /// Returns what the kernel decides by and the follower does not, unless it was returned before: each rule, up
    /// to 16, and one route of each kind.
    pub fn take_left_out(&mut self) -> Vec<LeftOut> {
        self.left_out.take()
    }

    /// Waits for events for at most `at_most`, and gives workers the changes.
    ///
    /// # Errors
    /// [`FollowError`]. The table then stays the same. After [`FollowError::Ask`] the caller may go on with further
    /// turns, and the kernel is asked again a second later.
    pub fn turn(&mut self, at_most: Duration) -> Result<(), FollowError> {
        sleep_until_readable(&[self.event_socket.as_fd()], at_most);
        self.read_events()?;
        self.ask_for_neighbours();
        let mut sure = Ok(());
        if self.resync.is_due(Instant::now()) {
            // A resync may take seconds. Workers must not use a link that is down for so long.
            self.publish();
            sure = self.resync();
        }
        if sure.is_err() {
            self.known().counters.failures += 1;
            self.resync.postpone(Instant::now());
        }
        self.publish();
        sure
    }

    fn read_events(&mut self) -> Result<(), FollowError> {
        let mut heard = Heard::default();
        let read = self.hear(&mut heard, AT_ONCE);
        self.note(heard);
        read.map(drop)
    }

    /// Reads at most `at_most` datagrams of events. Returns true if none is left and none of them may have removed
    /// an IPv6 route.
    fn hear(&mut self, heard: &mut Heard, at_most: usize) -> Result<bool, FollowError> {
        let read = |events: &mut Vec<_>| self.event_socket.read(|event| events.push(event));
        heard.read(at_most, read).map_err(FollowError::Hear)
    }

    /// Applies the events that were read.
    fn note(&mut self, heard: Heard) {
        let mut known = self.known();
        known.counters.unread += heard.unread;
        known.counters.forged += heard.forged;
        known.counters.overruns += heard.overruns;
        known.counters.events += heard.events.len() as u64;
        drop(known);
        if heard.overruns > 0 {
            self.resync.request();
            self.withdrawals.forget();
        }
        heard.events.into_iter().for_each(|event| self.take(event));
        self.withdraw();
    }

    /// Applies an event.
    fn take(&mut self, event: Event) {
        match event {
            Event::Route(change, route) => {
                self.new_own |= route.origin == Origin::Local;
                self.withdrawals.add(&route);
                self.withdrawals.forget_rank(&route);
                if !change.apply(&mut self.known().rib, &route) {
                    self.resync.request();
                }
            }
            Event::Neighbour { link, address, state } => self.neighbour((link, address), state),
            Event::Link { index, names, signal, mac, mtu } => {
                let before = self.links.insert(index, signal);
                self.link_changed(index, before, signal);
                self.mtu_changed(index, mtu);
                let mtu = mtu.min(0xffff) as u16;
                self.link(index, names, mac.map(|mac| Interface { mac, mtu }));
            }
            Event::LinkGone(index) => {
                let before = self.links.remove(&index);
                self.mtus.remove(&index);
                self.link_changed(index, before, Signal::Down);
                self.withdraw();
                self.withdrawals.gone(index);
                self.link(index, Vec::new(), None);
            }
            Event::Address { link, net, standing } => {
                let changed = self.addresses.set(link, net, standing);
                self.addresses_changed(changed);
                // The kernel removes routes with this source without an event.
                if standing.is_none() {
                    self.resync.request_twice(Instant::now());
                }
            }
            Event::LeftOut(what) => self.left_out.note(what),
            Event::Unsaid => {
                self.resync.request();
                // It may have been about these routes too: their next-hop objects go with the link.
                self.withdraw();
                self.withdrawals.forget();
            }
            Event::Done(_) | Event::Refused(_) => {}
        }
    }

    fn addresses_changed(&mut self, changed: bool) {
        (self.new_own, self.unshown) = (self.new_own | changed, self.unshown | changed);
    }

    /// Handles a link's change from the signal `before`, or None if the link was not known. The kernel removes the
    /// link's routes, or omits routes over it, without events. It also uses the paths over a link that is up again
    /// without events. The paths over a link that went down are taken out by [`withdraw`](Self::withdraw).
    fn link_changed(&mut self, index: u32, before: Option<Signal>, now: Signal) {
        if before.unwrap_or(Signal::Down) == now {
            return;
        }
        if now == Signal::Down {
            self.withdrawals.down(index);
            self.resync.request_twice(Instant::now());
            return;
        }
        // The events that follow may be about its new routes, which stay.
        if self.withdrawals.is_pending(index) {
            self.withdraw();
        }
        // Another link may have the number of one that is gone.
        if now == Signal::Up && before.is_some() {
            self.restore(index, false);
        }
        // The kernel reports a link as up before it uses the paths over it.
        if before == Some(Signal::Down) {
            self.resync.request_twice(Instant::now());
        } else {
            self.resync.request();
        }
    }

    /// Takes the paths over links that went down out of the known routes.
    fn withdraw(&mut self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.withdrawals.apply(&mut known.rib);
    }

    /// Puts the paths over a link that is up again back into the known routes that stayed without them. `again`: the event
    /// will be applied once more, behind the answers.
    fn restore(&mut self, index: u32, again: bool) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.withdrawals.restore(&mut known.rib, index, again);
    }

    /// Handles a link's MTU. If it has changed, the kernel changes the MTU of the link's IPv6 routes without events, and
    /// removes these routes if it is less than 1,280 bytes.
    fn mtu_changed(&mut self, index: u32, mtu: u32) {
        if self.mtus.insert(index, mtu).is_some_and(|before| before != mtu) {
            self.resync.request_twice(Instant::now());
        }
    }

    fn neighbour(&mut self, key: Key, state: State) {
        let link = match state {
            State::Fresh(mac) | State::Stale(mac) => {
                self.asking.known(key, matches!(state, State::Stale(_)));
                Link::Known(mac)
            }
            State::Failed if self.asking.failed(key, Instant::now()) => {
                self.known().counters.failed_neighbours += 1;
                Link::Silent
            }
            State::Failed | State::Unknown if self.asking.unknown(key) => Link::Silent,
            // Frames go on to the old address until the neighbour answers or fails to answer.
            State::Unknown if self.is_known_behind_a_port(key) && self.asking.lose(key) => return,
            State::Failed | State::Unknown => Link::Unknown,
        };
        self.known().rib.set_neighbour(key.0, key.1, link);
    }

    fn is_known_behind_a_port(&self, (link, address): Key) -> bool {
        let rib = &self.known().rib;
        rib.port(link).is_some() && matches!(rib.neighbour(link, address), Link::Known(_))
    }

    /// Records a link's names, its own first, and the router's end of the link, which is None if the link is gone.
    fn link(&mut self, index: u32, names: Vec<String>, interface: Option<Interface>) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = Vec::new();
        let mut own = None;
        let each = (0..).zip(self.ports.iter_mut().zip(&mut self.indices));
        for (port, ((its, attached), at)) in each {
            let is_named = attached.name().is_some_and(|its| names.iter().any(|name| name == its));
            match *at {
                None if is_named => *at = Some(index),
                Some(before) if before == index && names.is_empty() => *at = None,
                _ => {}
            }
            if *at != Some(index) {
                continue;
            }
            if attached.own().is_some() {
                own = own.or(Some(port));
            }
            let now = interface.map(|kernel| attached.end(*its, kernel));
            if let Some(now) = now.filter(|now| now != its) {
                *its = now;
                changes.push(Change::Interface(port, now));
            }
        }
        known.rib.set_port(index, own);
        match names.into_iter().next() {
            Some(name) => drop(known.names.insert(index, name)),
            None => drop(known.names.remove(&index)),
        }
        drop(known);
        self.control.apply(changes);
        self.unshown = true;
    }

    /// Asks for the neighbours that frames wait for, gives up on those that do not answer, and refreshes stale
    /// ones.
    fn ask_for_neighbours(&mut self) {
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut to_ask = Vec::new();
        for wanted in &mut self.wanted {
            wanted.read(|neighbour| {
                let key = known.rib.link(neighbour.port).map(|link| (link, neighbour.address));
                // The worker may not have the known address yet. The kernel would report nothing new, as if the
                // neighbour did not answer.
                let key = key.filter(|key| !matches!(known.rib.neighbour(key.0, key.1), Link::Known(_)));
                to_ask.extend(key.filter(|key| self.asking.want(*key, now)));
            });
        }
        let is_up = |link: u32| self.links.get(&link) == Some(&Signal::Up) && known.rib.port(link).is_some();
        let lost = self.asking.lost(now, is_up);
        lost.gone.iter().for_each(|key| known.rib.set_neighbour(key.0, key.1, Link::Unknown));
        known.counters.forgotten += (lost.ask.len() - lost.again) as u64;
        to_ask.extend(lost.ask);
        let due = self.asking.due(now, |link| known.rib.port(link).is_some());
        known.counters.unanswered += (lost.again + due.silent.len()) as u64;
        known.counters.failed_neighbours += due.silent.len() as u64;
        due.silent.iter().for_each(|key| known.rib.set_neighbour(key.0, key.1, Link::Silent));
        due.forgotten.iter().for_each(|key| known.rib.set_neighbour(key.0, key.1, Link::Unknown));
        to_ask.extend(due.ask.into_iter().chain(due.freshen));
        known.counters.asked += to_ask.len() as u64;
        drop(known);
        for (link, address) in &to_ask {
            // The error does not matter: a request that the kernel does not carry out is recognised by its silence.
            let _ = self.request_socket.use_neighbour(*link, *address);
        }
        self.request_socket.forget_answers();
    }

    /// Gives workers the changes.
    fn publish(&mut self) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changes = known.rib.take_changes();
        if std::mem::take(&mut self.unshown) {
            let links = (0..self.ports.len()).map(|port| known.rib.link(port as u8));
            let opposite = |link| {
                let mut ports = self.ports.iter().zip(&self.indices);
                ports.any(|((_, its), at)| its.own().is_none() && *at == Some(link))
            };
            changes.extend(self.addresses.unshown(links, opposite));
        }
        drop(known);
        self.control.apply(changes);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes the routes that take precedence over the kernel's. Usable from any thread.
#[derive(Debug, Clone)]
pub struct Given(Arc<Mutex<Known>>);

impl Given {
    /// Replaces the given routes. Workers get the change with the follower's next turn.
    pub fn replace(&self, routes: impl IntoIterator<Item = RibRoute>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rib.replace_given(routes);
    }
}
