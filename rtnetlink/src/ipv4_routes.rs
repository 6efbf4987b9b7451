//! Dumps all IPv4 routes while they change.
//!
//! The kernel has the routes of one network address, of any prefix length, in one leaf of its tree, and dumps the leaves in the
//! order of their addresses. If a datagram has no room for the rest of a leaf, the kernel goes on in that leaf with as many
//! routes as it had passed (`fn_trie_dump_leaf` of Linux). If one of these was removed meanwhile, it passes over one that it has
//! not dumped, without NLM_F_DUMP_INTR. So only a removal from a leaf at the edge of a datagram matters.

use crate::socket::{DumpReply, TRIES};
use crate::translate::Event;
use std::collections::HashSet;
use std::mem;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// No further dump begins after this time, because neighbours are not asked for during dumps.
const AT_LENGTH: Duration = Duration::from_secs(1);

/// Calls `dump` until an answer is whole, a few times at most. `removed` reads the events, and returns the network addresses of
/// the routes that were removed since its last call, or None if there are more events than it reads. If no dump is whole, also
/// returns the addresses at which the answer may miss routes. The answer then has the routes of the dump before at these
/// addresses, behind its own. The last value is false if more events than were read came during the last dump: then it may miss
/// others.
///
/// Lost events need not be noticed here, because they cause a resync.
pub(crate) fn dump_until_whole<E>(
    mut dump: impl FnMut() -> Result<DumpReply, E>,
    mut removed: impl FnMut() -> Result<Option<Vec<u32>>, E>,
) -> Result<(DumpReply, HashSet<u32>, bool), E> {
    let (mut last, mut missed, begun) = (DumpReply::default(), HashSet::new(), Instant::now());
    let mut are_all_read = true;
    // A route that was removed before a dump is not in the tree.
    removed()?;
    for turn in 0..=TRIES {
        let mut reply = dump()?;
        let addresses = removed()?;
        are_all_read = addresses.is_some();
        missed = addresses.into_iter().flatten().filter(|address| reply.edges.may_miss(*address)).collect();
        reply.unread += last.unread;
        reply.forged += last.forged;
        let before = mem::replace(&mut last, reply);
        let is_whole = are_all_read && missed.is_empty() && !last.interrupted;
        if is_whole || turn == TRIES || begun.elapsed() > AT_LENGTH {
            last.events.extend(before.events.into_iter().filter(|event| is_at(event, &missed)));
            break;
        }
    }
    Ok((last, missed, are_all_read))
}

/// Returns true for a route with one of these network addresses.
fn is_at(event: &Event, addresses: &HashSet<u32>) -> bool {
    match event {
        Event::Route(_, route) => has_address(addresses, route.prefix.addr()),
        _ => false,
    }
}

/// Returns true if the network address of a route is one of these.
pub(crate) fn has_address(addresses: &HashSet<u32>, address: IpAddr) -> bool {
    matches!(address, IpAddr::V4(address) if addresses.contains(&address.to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::RTM_NEWROUTE;
    use crate::translate::events;
    use std::convert::Infallible;
    use std::net::Ipv4Addr;

    fn bits(text: &str) -> u32 {
        text.parse::<Ipv4Addr>().expect("an address").to_bits()
    }

    /// A datagram with unicast routes of the main table for these networks, each of 16 bits.
    fn datagram(routes: &[(&str, u32)]) -> Vec<u8> {
        let route = |(destination, metric): &(&str, u32)| {
            let mut bytes = vec![44, 0, 0, 0, RTM_NEWROUTE as u8, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            bytes.extend([2, 16, 0, 0, 254, 3, 0, 6, 0, 0, 0, 0, 8, 0, 1, 0]);
            bytes.extend(bits(destination).to_be_bytes());
            bytes.extend([8, 0, 6, 0]);
            bytes.extend(metric.to_ne_bytes());
            bytes
        };
        routes.iter().flat_map(route).collect()
    }

    /// Found in a review: the MTU of a path to one host, behind each route of its next hop, made nearly every address one of an edge.
    #[test]
    fn exceptions_of_routes_are_no_edges() {
        let mut exception = datagram(&[("8.8.8.8", 1)]);
        exception[16 + 8..16 + 12].copy_from_slice(&0x200_u32.to_ne_bytes());
        let mut edges = crate::edges::Edges::default();
        edges.add(&[datagram(&[("10.0.0.0", 1), ("10.1.0.0", 1)]), exception.clone()].concat());
        edges.add(&[exception, datagram(&[("10.2.0.0", 1)])].concat());
        assert!(edges.may_miss(bits("10.1.0.0")) && edges.may_miss(bits("10.2.0.0")));
        assert!(!edges.may_miss(bits("9.0.0.0")) && !edges.may_miss(bits("8.8.8.8")));
    }

    /// Found in a review: a dump counted as whole while more events waited than are read at once.
    #[test]
    fn a_dump_during_which_more_events_came_than_are_read_is_made_again() {
        let mut answers = [Some(vec![]), None, None, Some(vec![])].into_iter();
        let mut dumps = 0;
        let dump = || {
            dumps += 1;
            Ok::<_, Infallible>(reply(&[&[("10.0.0.0", 1)]]))
        };
        let Ok((_, missed, are_all_read)) = dump_until_whole(dump, || Ok(answers.next().flatten()));
        assert_eq!((dumps, missed.len(), are_all_read), (3, 0, true));
        let Ok((_, _, are_all_read)) = dump_until_whole(|| Ok::<_, Infallible>(reply(&[])), || Ok(None));
        assert!(!are_all_read);
    }

    fn reply(datagrams: &[&[(&str, u32)]]) -> DumpReply {
        let mut reply = DumpReply::default();
        for routes in datagrams {
            let datagram = datagram(routes);
            reply.edges.add(&datagram);
            assert_eq!(events(&datagram, |event| reply.events.push(event)), 0);
        }
        reply
    }

    #[test]
    fn only_routes_of_the_leaves_at_the_edges_of_the_datagrams_may_be_missing() {
        let edges = reply(&[
            &[("10.0.0.0", 1), ("10.1.0.0", 1), ("10.1.0.0", 2)],
            &[],
            &[("10.1.0.0", 4), ("10.3.0.0", 1), ("10.5.0.0", 1)],
            &[("10.7.0.0", 1), ("200.0.0.0", 1)],
            &[("10.2.0.0", 1), ("127.0.0.0", 1)],
        ])
        .edges;
        let may = [
            "10.1.0.0",
            "10.5.0.0",
            "10.6.0.0",
            "10.7.0.0",
            "200.0.0.0",
            "201.0.0.0",
            "9.0.0.0",
            "127.0.0.0",
        ];
        let may_not = ["10.2.128.0", "10.3.0.0", "11.0.0.0", "126.0.0.0", "128.0.0.0"];
        assert!(may.iter().all(|address| edges.may_miss(bits(address))));
        for address in may_not {
            assert!(!edges.may_miss(bits(address)), "{address}");
        }
    }

    /// Dumps a table that never changes, of which the dumps of these numbers miss a route, and reads that these routes were removed
    /// during each dump. Returns the number of dumps, the metrics of the routes for 10.1.0.0 in the answer, and the addresses.
    fn dumped(missing: &[usize], removed: &[&str]) -> (usize, Vec<u32>, Vec<u32>) {
        let (mut dumps, mut is_first) = (0, true);
        let dump = || {
            let second: &[_] = if missing.contains(&dumps) {
                &[("10.9.0.0", 1)]
            } else {
                &[("10.1.0.0", 2), ("10.9.0.0", 1)]
            };
            dumps += 1;
            Ok::<_, Infallible>(reply(&[&[("10.0.0.0", 1), ("10.1.0.0", 1)], second, &[("10.10.0.0", 1)]]))
        };
        let read = || {
            // Before the first dump.
            let is_quiet = std::mem::take(&mut is_first);
            Ok(Some(if is_quiet { vec![] } else { removed.iter().map(|address| bits(address)).collect() }))
        };
        let Ok((reply, missed, _)) = dump_until_whole(dump, read);
        let metric = |event: Event| match event {
            Event::Route(_, route) if route.prefix.addr() == Ipv4Addr::new(10, 1, 0, 0) => Some(route.metric),
            _ => None,
        };
        (dumps, reply.events.into_iter().filter_map(metric).collect(), missed.into_iter().collect())
    }

    /// Seen in a namespace: of a thousand routes for one prefix two were removed between two parts of a dump, and the dump lacked two
    /// others.
    #[test]
    fn a_dump_during_which_a_route_was_removed_from_a_leaf_at_an_edge_is_not_whole() {
        assert_eq!(dumped(&[], &[]), (1, vec![1, 2], vec![]));
        assert_eq!(dumped(&[], &["10.0.0.0"]), (1, vec![1, 2], vec![]));
        let always = dumped(&[TRIES], &["10.1.0.0"]);
        assert_eq!(always, (TRIES + 1, vec![1, 1, 2], vec![bits("10.1.0.0")]), "the last dump misses one");
    }
}
