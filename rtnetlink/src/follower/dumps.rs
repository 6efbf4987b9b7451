//! Resync: asks for the whole state, and changes what differs.

use super::kept::Kept;
use super::withdrawals::{is_without_paths, without_paths_over};
use super::{FollowError, Follower};
use crate::addresses::LinkAddress;
use crate::distinguisher::is_by_object;
use crate::ipv4_routes;
use crate::ipv6_routes;
use crate::neighbours::Key;
use crate::pending::PendingEvents;
use crate::socket::{DumpKind, request_dump, request_dump_once};
use crate::translate::{Event, LinkState, NeighbourState};
use netlink_packet_route::AddressFamily;
use netmem_router::route::{Resolution, Rib, RibRoute};
use rustix::io::Errno;
use std::collections::HashSet;
use std::mem;
use std::time::Instant;

#[cfg(test)]
mod tests;

/// Maximum number of datagrams of events that are read before the whole state is asked for, and after each dump of
/// routes.
const BACKLOG: usize = 1 << 16;

/// The kernel's answers.
#[derive(Debug, Default)]
struct Dumps {
    links: Vec<Event>,
    addresses: Vec<Event>,
    neighbours: Vec<Event>,
    /// Of both families.
    routes: Vec<Event>,
    rules: Vec<Event>,
    /// No IPv6 route can be missing, and no IPv4 route but at `missed_ipv4`.
    is_whole: bool,
    /// The network addresses at which IPv4 routes may be missing.
    missed_ipv4: HashSet<u32>,
    unread: usize,
    forged: usize,
}

impl Follower {
    /// Asks for the whole state, and changes what differs.
    ///
    /// If IPv6 routes were removed during every dump, the answer may miss some that never changed
    /// ([`ipv6_routes`]), and IPv4 routes if some of the same network address were ([`ipv4_routes`]). The routes known before
    /// are then kept. Routes that an event reported as removed are not
    /// kept, nor paths over links that are down or gone. The whole state is asked for again after the usual pause.
    /// A route whose removal was not received is thus kept until a dump that no removal disturbs. Known routes also stay
    /// as they are if the answer has a route of their rank that cannot be read.
    pub(super) fn resync(&mut self) -> Result<(), FollowError> {
        let begun = Instant::now();
        self.catch_up()?;
        let mut pending = PendingEvents::default();
        let dumps = match self.request_dumps(&mut pending) {
            Ok(dumps) => dumps,
            Err(error) => {
                self.apply_events(pending);
                return Err(error);
            }
        };
        self.apply_dumps(dumps, pending, begun);
        Ok(())
    }

    /// Applies the answers, to requests sent since `begun`, and the events received in that time.
    fn apply_dumps(&mut self, dumps: Dumps, mut pending: PendingEvents, begun: Instant) {
        let is_whole = dumps.is_whole && dumps.missed_ipv4.is_empty();
        let (unread, forged) = (dumps.unread, dumps.forged);
        let before_loss = pending.take_before_loss();
        self.apply_events(before_loss);
        self.replace(dumps);
        let mut state = self.state();
        state.counters.resyncs += 1;
        state.counters.unsettled += u64::from(!is_whole);
        state.counters.malformed += unread as u64;
        state.counters.forged += forged as u64;
        drop(state);
        self.resync.settle(begun, Instant::now());
        if !is_whole {
            self.resync.request();
        }
        // In order, as if each event had just come. The last event about a route is right even if the answers are
        // newer.
        self.apply_events(pending);
        self.publish();
    }

    /// Applies the events that are in the socket. Events beyond the limit are thrown away: they are older than the
    /// answers will be.
    fn catch_up(&mut self) -> Result<(), FollowError> {
        let mut pending = PendingEvents::default();
        let read = self.read_events(&mut pending, BACKLOG);
        let is_drained = pending.is_drained;
        self.apply_events(pending);
        read?;
        if is_drained {
            return Ok(());
        }
        self.withdrawals.forget();
        self.event_socket.discard().map_err(|why| match Errno::from_io_error(&why) {
            Some(Errno::NOBUFS) => FollowError::Request { what: "news, which do not end", why },
            _ => FollowError::Events(why),
        })
    }

    /// Returns the kernel's answers. Events received in that time go to `pending`.
    fn request_dumps(&mut self, pending: &mut PendingEvents) -> Result<Dumps, FollowError> {
        let (mut unread, mut forged) = (0, 0);
        let mut dumped = |what, kind| {
            let answer = request_dump(kind).map_err(|why| FollowError::Request { what, why })?;
            unread += answer.unread;
            forged += answer.forged;
            Ok(answer.events)
        };
        let links = dumped("links", DumpKind::Links)?;
        let addresses = dumped("addresses", DumpKind::Addresses)?;
        let mut neighbours = dumped("neighbours", DumpKind::Neighbours)?;
        // Given up only if two dumps miss it: asked for a neighbour that it has, the kernel reports nothing, and the
        // neighbour would count as silent. An entry that belongs to others would be asked for, which changes it.
        let lacks_one = lacks_known_neighbour(&self.state().rib, &neighbours)
            || !self.requests.foreign.is_subset(&keys(&neighbours));
        if lacks_one {
            neighbours.append(&mut dumped("neighbours", DumpKind::Neighbours)?);
        }
        let dump = |what, family| {
            let reply = request_dump_once(DumpKind::Routes(family));
            reply.map_err(|why| FollowError::Request { what, why })
        };
        let removed = || {
            self.read_between_dumps(pending)?;
            Ok(pending.is_drained.then(|| mem::take(&mut pending.removed_ipv4)))
        };
        let of_ipv4 = || dump("IPv4 routes", AddressFamily::Inet);
        let (mut of_ipv4, missed_ipv4, are_all_read) = ipv4_routes::dump_until_whole(of_ipv4, removed)?;
        let of_ipv6 = || dump("IPv6 routes", AddressFamily::Inet6);
        let mut of_ipv6 = ipv6_routes::dump_until_whole(of_ipv6, || self.read_between_dumps(pending))?;
        let mut routes = mem::take(&mut of_ipv4.events);
        routes.append(&mut of_ipv6.events);
        // A kernel without policy routing rejects the request, and has no rules.
        let rules =
            [AddressFamily::Inet, AddressFamily::Inet6].map(|family| request_dump(DumpKind::Rules(family)));
        let rules = rules.into_iter().flatten().flat_map(|answer| answer.events).collect();
        unread += of_ipv4.unread + of_ipv6.unread;
        forged += of_ipv4.forged + of_ipv6.forged;
        Ok(Dumps {
            links,
            addresses,
            neighbours,
            routes,
            rules,
            is_whole: !of_ipv6.interrupted && are_all_read,
            missed_ipv4,
            unread,
            forged,
        })
    }

    /// Reads events between dumps of routes, each of which may take seconds, and does what cannot wait for the last
    /// dump: it asks for neighbours, and applies their events and those of links that went down or came up. All events
    /// are applied again after the answers, some of which are older. Returns the same as [`read_events`](Follower::read_events).
    fn read_between_dumps(&mut self, pending: &mut PendingEvents) -> Result<bool, FollowError> {
        let first = pending.events.len();
        let is_quiet = self.read_events(pending, BACKLOG)?;
        self.apply_urgent(&mut pending.events[first..]);
        // During the first resync no neighbour is known or wanted.
        if !self.unresolved.is_empty() {
            self.ask_for_neighbours();
        }
        self.publish();
        Ok(is_quiet)
    }

    /// Applies what cannot wait of these events, which are applied again after the answers.
    fn apply_urgent(&mut self, events: &mut [Event]) {
        for event in events {
            match event {
                Event::Neighbour { link, address, state } => {
                    self.neighbour((*link, *address), *state);
                    without_failure(event);
                }
                Event::Link { index, state: LinkState::Down, .. } | Event::LinkGone(index) => {
                    self.withdrawals.down(*index);
                }
                // Its routes of before stay until the answers: those of now are not known yet.
                Event::Link { index, state, .. } => {
                    self.withdrawals.up(*index);
                    match state {
                        LinkState::Up => self.restore(*index, true),
                        _ => self.withdrawals.no_carrier(*index),
                    }
                }
                _ => {}
            }
        }
        self.withdraw();
    }

    /// Replaces the known state by the answers.
    fn replace(&mut self, dumps: Dumps) {
        self.forget_except(&dumps.links, &dumps.neighbours);
        dumps.links.into_iter().for_each(|event| self.apply_event(event));
        let addresses = dumps.addresses.iter().filter_map(|event| match event {
            Event::Address { link, net, state: Some(state) } => {
                Some(LinkAddress { link: *link, net: *net, state: *state })
            }
            _ => None,
        });
        let changed = self.addresses.replace(addresses.collect());
        self.addresses_changed(changed);
        self.unsupported.replace_rules(dumps.rules.into_iter().filter_map(|event| match event {
            Event::Unsupported(rule) => Some(rule),
            _ => None,
        }));
        self.count_rules();
        let mut kept = Kept { ipv6: !dumps.is_whole, ipv4: dumps.missed_ipv4, ..Kept::default() };
        kept.add_unread(&dumps.routes);
        let unsupported = &mut self.unsupported;
        let links = &self.links;
        // Since Linux 6.9 a dump may have routes that are about to be removed because their link is down.
        let without_lost_paths = |route: RibRoute| {
            let by_object = is_by_object(&route);
            let is_lost = |state: &LinkState| is_without_paths(*state, by_object);
            without_paths_over(route, |link| links.get(&link).is_some_and(is_lost))
        };
        let mut routes: Vec<_> = dumps
            .routes
            .into_iter()
            .filter_map(|event| match event {
                Event::Route(_, route) => without_lost_paths(route),
                Event::Unsupported(what) => {
                    unsupported.add(what);
                    None
                }
                _ => None,
            })
            .collect();
        routes.extend(kept.routes(&self.state().rib, &self.links));
        self.withdrawals.replace(&routes);
        self.state().rib.replace(routes);
        self.own_changed = true;
        for mut event in dumps.neighbours {
            without_failure(&mut event);
            self.apply_event(event);
        }
    }

    /// Forgets all links and neighbours except those in the answers.
    fn forget_except(&mut self, links: &[Event], neighbours: &[Event]) {
        let dumped = keys(neighbours);
        let index = |event: &Event| match event {
            Event::Link { index, .. } => Some(*index),
            _ => None,
        };
        let there: HashSet<u32> = links.iter().filter_map(index).collect();
        let state = self.state();
        let links: Vec<_> = state.names.keys().copied().filter(|index| !there.contains(index)).collect();
        // The kernel has forgotten the lost ones already, and they are asked for again.
        let is_gone = |key: &Key| !dumped.contains(key) && !self.requests.is_lost(key);
        let gone: Vec<_> =
            state.rib.neighbours().map(|(link, address, _)| (link, address)).filter(is_gone).collect();
        drop(state);
        self.requests.foreign.retain(|key| dumped.contains(key));
        links.into_iter().for_each(|index| self.apply_event(Event::LinkGone(index)));
        gone.into_iter().for_each(|key| self.neighbour(key, NeighbourState::Unknown));
    }
}

/// Makes a neighbour's failure in a dump, or in an event that was applied already, an unknown state. A failure ends the request
/// for its neighbour, and an old one must not end a newer request.
fn without_failure(event: &mut Event) {
    if let Event::Neighbour { state, .. } = event
        && *state == NeighbourState::Failed
    {
        *state = NeighbourState::Unknown;
    }
}

/// Returns the neighbours in an answer.
fn keys(neighbours: &[Event]) -> HashSet<Key> {
    let key = |event: &Event| match event {
        Event::Neighbour { link, address, .. } => Some((*link, *address)),
        _ => None,
    };
    neighbours.iter().filter_map(key).collect()
}

/// Returns true if the answer lacks a neighbour behind a port whose MAC address is known. The kernel has none any more,
/// or passed over it: it dumps its table in pieces, and skips entries if others are removed between two pieces.
fn lacks_known_neighbour(rib: &Rib, neighbours: &[Event]) -> bool {
    let dumped = keys(neighbours);
    rib.neighbours().any(|(link, address, its)| {
        matches!(its, Resolution::Known(_)) && rib.port(link).is_some() && !dumped.contains(&(link, address))
    })
}
