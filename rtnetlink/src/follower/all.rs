//! Resync: asks for the whole state, and changes what differs.

use super::withdrawals::without;
use super::{FollowError, Follower};
use crate::heard::Heard;
use crate::ipv6_routes;
use crate::neighbours::Key;
use crate::socket::{All, Answer, ask, ask_once};
use crate::translate::{Event, NO_LINK, Signal, State};
use netlink_packet_route::AddressFamily;
use netmem_router::route::{Link, Origin, Rib, RibRoute};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

#[cfg(test)]
mod tests;

/// Maximum number of datagrams of events that are read before the whole state is asked for, and after each dump of
/// IPv6 routes.
const BACKLOG: usize = 1 << 16;

/// The kernel's answers.
#[derive(Debug, Default)]
struct Told {
    links: Vec<Event>,
    addresses: Vec<Event>,
    neighbours: Vec<Event>,
    /// Of both families.
    routes: Vec<Event>,
    rules: Vec<Event>,
    /// No IPv6 route can be missing.
    is_whole: bool,
    unread: usize,
    forged: usize,
}

impl Follower {
    /// Asks for the whole state, and changes what differs.
    ///
    /// If IPv6 routes were removed during every dump, the answer may miss some that never changed
    /// ([`ipv6_routes`]). The routes known before are then kept. Routes that an event reported as removed are not
    /// kept, nor paths over links that are down or gone. The whole state is asked for again after the usual pause.
    /// A route whose removal was not received is thus kept until a dump that no removal disturbs.
    pub(super) fn resync(&mut self) -> Result<(), FollowError> {
        let begun = Instant::now();
        self.catch_up()?;
        let mut heard = Heard::default();
        let told = match self.ask_for_all(&mut heard) {
            Ok(told) => told,
            Err(error) => {
                self.note(heard);
                return Err(error);
            }
        };
        self.learn(told, heard, begun);
        Ok(())
    }

    /// Applies the answers, to requests sent since `begun`, and the events received in that time.
    fn learn(&mut self, told: Told, mut heard: Heard, begun: Instant) {
        let (is_whole, unread, forged) = (told.is_whole, told.unread, told.forged);
        let before_loss = heard.take_before_loss();
        self.note(before_loss);
        self.replace(told);
        let mut known = self.known();
        known.counters.resyncs += 1;
        known.counters.unsettled += u64::from(!is_whole);
        known.counters.unread += unread as u64;
        known.counters.forged += forged as u64;
        drop(known);
        self.resync.settle(begun, Instant::now());
        if !is_whole {
            self.resync.request();
        }
        // In order, as if each event had just come. The last event about a route is right even if the answers are
        // newer.
        self.note(heard);
        self.publish();
    }

    /// Applies the events that are in the socket. Events beyond the limit are thrown away: they are older than the
    /// answers will be.
    fn catch_up(&mut self) -> Result<(), FollowError> {
        let mut heard = Heard::default();
        let read = self.hear(&mut heard, BACKLOG);
        let all = heard.all;
        self.note(heard);
        read?;
        if all {
            return Ok(());
        }
        self.withdrawals.forget();
        self.event_socket.discard().map_err(|why| match Errno::from_io_error(&why) {
            Some(Errno::NOBUFS) => FollowError::Ask { what: "news, which do not end", why },
            _ => FollowError::Hear(why),
        })
    }

    /// Returns the kernel's answers. Events received in that time go to `heard`.
    fn ask_for_all(&mut self, heard: &mut Heard) -> Result<Told, FollowError> {
        let (mut unread, mut forged) = (0, 0);
        let mut asked = |what, all| {
            let answer = ask(all).map_err(|why| FollowError::Ask { what, why })?;
            unread += answer.unread;
            forged += answer.forged;
            Ok(answer.said)
        };
        let links = asked("links", All::Links)?;
        let addresses = asked("addresses", All::Addresses)?;
        let mut neighbours = asked("neighbours", All::Neighbours)?;
        // Given up only if two dumps miss it: asked for a neighbour that it has, the kernel reports nothing, and the
        // neighbour would count as silent.
        if misses_any(&self.known().rib, &neighbours) {
            neighbours.append(&mut asked("neighbours", All::Neighbours)?);
        }
        let mut routes = asked("IPv4 routes", All::Routes(AddressFamily::Inet))?;
        let dump = || -> Result<Answer, FollowError> {
            let all = All::Routes(AddressFamily::Inet6);
            ask_once(all).map_err(|why| FollowError::Ask { what: "IPv6 routes", why })
        };
        let mut of_ipv6 = ipv6_routes::ask(dump, || self.hear_between_dumps(heard))?;
        routes.append(&mut of_ipv6.said);
        // A kernel without policy routing rejects the request, and has no rules.
        let rules = [AddressFamily::Inet, AddressFamily::Inet6].map(|family| ask(All::Rules(family)));
        let rules = rules.into_iter().flatten().flat_map(|answer| answer.said).collect();
        unread += of_ipv6.unread;
        forged += of_ipv6.forged;
        Ok(Told {
            links,
            addresses,
            neighbours,
            routes,
            rules,
            is_whole: !of_ipv6.interrupted,
            unread,
            forged,
        })
    }

    /// Reads events between dumps of routes, each of which may take seconds, and does what cannot wait for the last
    /// dump: it asks for neighbours, and applies their events and those of links that went down or came up. All events
    /// are applied again after the answers, some of which are older. Returns the same as [`hear`](Follower::hear).
    fn hear_between_dumps(&mut self, heard: &mut Heard) -> Result<bool, FollowError> {
        let first = heard.events.len();
        let is_quiet = self.hear(heard, BACKLOG)?;
        self.take_at_once(&mut heard.events[first..]);
        // During the first resync no neighbour is known or wanted.
        if !self.wanted.is_empty() {
            self.ask_for_neighbours();
        }
        self.publish();
        Ok(is_quiet)
    }

    /// Applies what cannot wait of these events, which are applied again after the answers.
    fn take_at_once(&mut self, events: &mut [Event]) {
        for event in events {
            match event {
                Event::Neighbour { link, address, state } => {
                    self.neighbour((*link, *address), *state);
                    // A failure ends the request for its neighbour. Later it must not end a newer one.
                    if matches!(state, State::Failed) {
                        *state = State::Unknown;
                    }
                }
                Event::Link { index, signal: Signal::Down, .. } | Event::LinkGone(index) => {
                    self.withdrawals.down(*index);
                }
                // Its routes of before stay until the answers: those of now are not known yet.
                Event::Link { index, signal, .. } => {
                    self.withdrawals.up(*index);
                    if *signal == Signal::Up {
                        self.restore(*index, true);
                    }
                }
                _ => {}
            }
        }
        self.withdraw();
    }

    /// Replaces the known state by the answers.
    fn replace(&mut self, told: Told) {
        self.forget_but(&told.links, &told.neighbours);
        told.links.into_iter().for_each(|event| self.take(event));
        let addresses = told.addresses.iter().filter_map(|event| match event {
            Event::Address { link, net, standing: Some(standing) } => Some((*link, *net, *standing)),
            _ => None,
        });
        let changed = self.addresses.replace(addresses.collect());
        self.addresses_changed(changed);
        told.rules.into_iter().for_each(|event| self.take(event));
        let left_out = &mut self.left_out;
        let links = &self.links;
        // Since Linux 6.9 a dump may have routes that are about to be removed because their link is down.
        let is_down = |link: u32| links.get(&link) == Some(&Signal::Down);
        let mut routes: Vec<_> = told
            .routes
            .into_iter()
            .filter_map(|event| match event {
                Event::Route(_, route) => without(route, is_down),
                Event::LeftOut(what) => {
                    left_out.note(what);
                    None
                }
                _ => None,
            })
            .collect();
        if !told.is_whole {
            routes.extend(kept(&self.known().rib, &self.links));
        }
        self.withdrawals.replace(&routes);
        self.known().rib.replace(routes);
        self.new_own = true;
        told.neighbours.into_iter().for_each(|event| self.take(event));
    }

    /// Forgets all links and neighbours except those in the answers.
    fn forget_but(&mut self, links: &[Event], neighbours: &[Event]) {
        let told = keys(neighbours);
        let there = |index: &u32| {
            links.iter().any(|event| matches!(event, Event::Link { index: its, .. } if its == index))
        };
        let known = self.known();
        let links: Vec<_> = known.names.keys().copied().filter(|index| !there(index)).collect();
        // The kernel has forgotten the lost ones already, and they are asked for again.
        let is_gone = |key: &Key| !told.contains(key) && !self.asking.has_lost(key);
        let gone: Vec<_> =
            known.rib.neighbours().map(|(link, address, _)| (link, address)).filter(is_gone).collect();
        drop(known);
        links.into_iter().for_each(|index| self.take(Event::LinkGone(index)));
        gone.into_iter().for_each(|key| self.neighbour(key, State::Unknown));
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
fn misses_any(rib: &Rib, neighbours: &[Event]) -> bool {
    let told = keys(neighbours);
    rib.neighbours().any(|(link, address, its)| {
        matches!(its, Link::Known(_)) && rib.port(link).is_some() && !told.contains(&(link, address))
    })
}

/// Returns the known IPv6 routes of the kernel, without their paths over links that are down or gone. The kernel has no
/// route that has no other path.
pub(super) fn kept(rib: &Rib, links: &HashMap<u32, Signal>) -> Vec<RibRoute> {
    // An encapsulating path is on no link here.
    let is_down =
        |link: u32| link != NO_LINK && links.get(&link).is_none_or(|signal| *signal == Signal::Down);
    let of_ipv6 = |route: &RibRoute| route.origin != Origin::Given && route.prefix.addr().is_ipv6();
    rib.routes().filter(of_ipv6).filter_map(|route| without(route, is_down)).collect()
}
