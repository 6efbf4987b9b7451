//! Reads any bytes as messages of the kernel. Reading does no harm, and the resulting table equals one that is
//! built from its routes, neighbours and links alone.

use netmem_router::route::{Fib, FibReader, Resolution, Rib, RibRoute, Target, fib};
use netmem_rtnetlink::{Event, NeighbourState, events};
use std::net::IpAddr;

/// Number of ports, on links numbered from 1.
const PORTS: u8 = 8;
/// The shortest message: a header without contents.
const HEADER: usize = 16;

/// The result of reading.
#[derive(Debug, Default)]
pub struct Read {
    pub events: Vec<Event>,
    /// Number of messages that could not be read.
    pub unread: usize,
}

/// Reads `bytes`, applies them to a table, and looks up every address that they mention.
///
/// # Panics
/// If a check fails.
pub fn run(bytes: &[u8]) -> Read {
    let all = read(bytes);
    assert!(all.events.len().max(all.unread) <= bytes.len() / HEADER + 1, "{all:?}");
    let half = read(&bytes[..bytes.len() / 2]);
    let same = half.events.iter().zip(&all.events).take_while(|(cut, whole)| cut == whole).count();
    // The message that the cut goes through could not be read.
    let is_rest = matches!(half.events[same..], [] | [Event::RoutesMayHaveChanged]);
    assert!(is_rest, "what is cut off changes nothing before it: {half:?} of {all:?}");
    let mut rib = Rib::default();
    for event in &all.events {
        apply(&mut rib, event);
    }
    let (followed, rebuilt) = (workers(&mut rib), workers(&mut rebuild(&rib)));
    for address in addresses(&rib) {
        for hash in [0, u32::MAX / 3, u32::MAX] {
            let hops = [&followed, &rebuilt].map(|reader| reader.fib().table.next_hop(address, || hash));
            assert_eq!(hops[0], hops[1], "{address} in {:?}", rib.routes().collect::<Vec<_>>());
        }
    }
    all
}

fn read(bytes: &[u8]) -> Read {
    let mut read = Read::default();
    read.unread = events(bytes, |event| read.events.push(event));
    read
}

/// Applies an event.
fn apply(rib: &mut Rib, event: &Event) {
    match event {
        Event::Route(change, route) => {
            check(route);
            change.apply(rib, route);
        }
        Event::Neighbour { link, address, state } => {
            let known = match state {
                NeighbourState::Reachable(mac) | NeighbourState::Stale(mac) => Resolution::Known(*mac),
                NeighbourState::Failed | NeighbourState::Unusable => Resolution::Failed,
                NeighbourState::Unknown | NeighbourState::Awaited => Resolution::Unknown,
            };
            rib.set_neighbour(*link, *address, known);
        }
        Event::Link { index, names, .. } => {
            assert!(!names.is_empty());
            let port = (*index % u32::from(PORTS)) as u8;
            // A port is on one link only.
            if rib.link(port).is_none() {
                rib.set_port(*index, Some(port));
            }
        }
        Event::LinkGone(index) => rib.set_port(*index, None),
        Event::Address { .. }
        | Event::Unsupported(_)
        | Event::RuleGone(_)
        | Event::RouteUnread { .. }
        | Event::RoutesMayHaveChanged
        | Event::Done
        | Event::Refused(_) => {}
    }
}

/// Asserts that a route is valid for a table.
fn check(route: &RibRoute) {
    assert_eq!(route.prefix, route.prefix.trunc());
    if let Target::Paths(paths) = &route.target {
        assert!(
            paths.iter().all(|path| path.weight > 0) && (paths.len() != 1 || paths[0].weight == 1),
            "{paths:?}"
        );
    }
}

/// Builds a table from the final state at once.
fn rebuild(rib: &Rib) -> Rib {
    let mut rebuilt = Rib::new((0..PORTS).filter_map(|port| Some((rib.link(port)?, port))));
    rib.neighbours().for_each(|(link, address, known)| rebuilt.set_neighbour(link, address, known));
    rebuilt.replace(rib.routes());
    assert!(rebuilt.routes().eq(rib.routes()), "routes keep their order");
    rebuilt
}

/// Returns the table as workers see it.
fn workers(rib: &mut Rib) -> FibReader {
    let (mut control, mut reader) = fib(Fib::default());
    control.apply(rib.take_changes());
    reader.refresh();
    reader
}

/// Returns the ends of every route, every neighbour, and two other addresses.
fn addresses(rib: &Rib) -> Vec<IpAddr> {
    let ends = rib.routes().flat_map(|route| [route.prefix.network(), route.prefix.broadcast()]);
    let neighbours = rib.neighbours().map(|(_, address, _)| address);
    let others = [IpAddr::from([198, 51, 100, 1]), IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])];
    ends.chain(neighbours).chain(others).collect()
}
