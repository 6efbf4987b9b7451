//! The next hops of destinations, for a server that shares its address with the kernel. No answer of ARP or neighbour
//! discovery comes to such a server's port. So a packet is sent to the station from which the last packet of its
//! destination came.

use crate::wire::MacAddr;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

/// Maximum number of known destinations. Beyond it, each new one replaces one.
const KNOWN_MAX: usize = 16_384;

/// The source and destination MAC addresses of a packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The MAC address of the port's interface.
    pub src_mac: MacAddr,
    /// The MAC address of the destination or of its router.
    pub dst_mac: MacAddr,
}

/// The next hops of destinations, given by a function or learned from received packets. At most 16,384 are known.
/// Beyond that number, each new destination replaces the oldest one that was not looked up since it was last passed
/// over. So a flood of false source addresses leaves those that are in use. A destination that was replaced is reached
/// by the station from which most of those that were replaced came, which is the router of a server with many clients.
/// Give a function ([`NextHops::set_ask`]) if that is not enough, as with several routers.
///
/// A packet with a false source address teaches a false next hop for that address, until the next packet from the true
/// one comes. A station on the link can do the same to ARP.
///
/// ```
/// use netmem::port::{NextHop, NextHops};
/// use netmem::wire::MacAddr;
///
/// let (own, router) = (MacAddr::new([2, 0, 0, 0, 0, 1]), MacAddr::new([2, 0, 0, 0, 0, 2]));
/// let (client, other) = ("192.0.2.7".parse()?, "192.0.2.8".parse()?);
/// let mut next_hops = NextHops::default();
/// assert_eq!(next_hops.get(client), None);
/// next_hops.learn(client, NextHop { src_mac: own, dst_mac: router }); // a packet of the client came by the router
/// assert_eq!(next_hops.get(client).map(|hop| hop.dst_mac), Some(router));
///
/// // A default route. Hosts of the link itself have no answer here, and are reached where they were learned.
/// let is_on_link = |of: std::net::IpAddr| of.to_string().starts_with("192.0.2.");
/// next_hops.set_ask(move |of| (!is_on_link(of)).then_some(NextHop { src_mac: own, dst_mac: router }));
/// assert_eq!(next_hops.get("198.51.100.1".parse()?).map(|hop| hop.dst_mac), Some(router));
/// assert_eq!(next_hops.get(other), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct NextHops {
    /// At most [`KNOWN_MAX`], in the order in which they were learned, from `oldest` on and round to it.
    known: Vec<Known>,
    /// The index in `known` of each destination.
    places: HashMap<IpAddr, usize>,
    /// The index in `known` of the destination that is replaced next, unless it was looked up.
    oldest: usize,
    replaced: Majority,
    ask: Option<Box<dyn FnMut(IpAddr) -> Option<NextHop> + Send>>,
}

/// The next hop of most destinations that were replaced, found by a majority vote of constant size (Boyer and Moore).
#[derive(Debug, Default)]
struct Majority {
    hop: Option<NextHop>,
    /// The votes for `hop` less those for others since it was chosen, at most [`KNOWN_MAX`]: so a router that is replaced
    /// loses its majority.
    lead: usize,
}

impl Majority {
    fn vote(&mut self, hop: NextHop) {
        if self.lead == 0 {
            (self.hop, self.lead) = (Some(hop), 1);
        } else if self.hop == Some(hop) {
            self.lead = (self.lead + 1).min(KNOWN_MAX);
        } else {
            self.lead -= 1;
        }
    }
}

/// A known destination.
#[derive(Debug)]
struct Known {
    destination: IpAddr,
    hop: NextHop,
    /// It was looked up since it was learned or last passed over.
    is_used: bool,
}

impl NextHops {
    /// Sets the function that returns the next hop of a destination. Its answer is used in place of what was learned, so
    /// that a router which is replaced is left at once. If it returns None, the learned next hop is used.
    pub fn set_ask(&mut self, ask: impl FnMut(IpAddr) -> Option<NextHop> + Send + 'static) {
        self.ask = Some(Box::new(ask));
    }

    /// Stores `hop` as the next hop for packets to `of`, since a packet from `of` came by it. Hops with a multicast or
    /// broadcast source or destination are not stored.
    pub fn learn(&mut self, of: IpAddr, hop: NextHop) {
        if hop.src_mac.is_multicast() || hop.dst_mac.is_multicast() {
            return;
        }
        if let Some(place) = self.places.get(&of) {
            self.known[*place].hop = hop;
            return;
        }
        let known = Known { destination: of, hop, is_used: false };
        let place = if self.known.len() < KNOWN_MAX {
            self.known.push(known);
            self.known.len() - 1
        } else {
            self.replace_oldest(known)
        };
        self.places.insert(of, place);
    }

    /// Replaces the oldest destination that was not looked up since it was last passed over. Returns its place.
    ///
    /// # Cost
    /// One step, and one for each destination that was looked up since.
    fn replace_oldest(&mut self, known: Known) -> usize {
        while std::mem::take(&mut self.known[self.oldest].is_used) {
            self.oldest = (self.oldest + 1) % KNOWN_MAX;
        }
        let place = self.oldest;
        self.oldest = (place + 1) % KNOWN_MAX;
        let forgotten = std::mem::replace(&mut self.known[place], known);
        self.places.remove(&forgotten.destination);
        self.replaced.vote(forgotten.hop);
        place
    }

    /// Returns the next hop of a destination: the function's, or else the learned one. If it is not known, the next hop of
    /// most destinations that were replaced, and None as long as none was.
    ///
    /// # Cost
    /// A call of the function, if there is one. Without an answer, a look into the table.
    pub fn get(&mut self, of: IpAddr) -> Option<NextHop> {
        if let Some(hop) = self.ask.as_mut().and_then(|ask| ask(of)) {
            return Some(hop);
        }
        let Some(place) = self.places.get(&of) else { return self.replaced.hop };
        let known = &mut self.known[*place];
        known.is_used = true;
        Some(known.hop)
    }
}

impl fmt::Debug for NextHops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NextHops").field("known", &self.known.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(n: usize) -> IpAddr {
        std::net::Ipv6Addr::from(n as u128).into()
    }

    const HOP: NextHop = NextHop { src_mac: MacAddr::new([2; 6]), dst_mac: MacAddr::new([4; 6]) };

    #[test]
    fn destinations_beyond_the_most_that_are_known_push_others_out() {
        let mut next_hops = NextHops::default();
        (0..2 * KNOWN_MAX).for_each(|n| next_hops.learn(address(n), HOP));
        assert_eq!((next_hops.known.len(), next_hops.places.len()), (KNOWN_MAX, KNOWN_MAX));
        assert_eq!(next_hops.get(address(2 * KNOWN_MAX - 1)), Some(HOP), "the newest is among them");
        assert!(!next_hops.places.contains_key(&address(KNOWN_MAX - 1)), "the oldest are not");
        next_hops.learn(address(7), NextHop { src_mac: HOP.src_mac, dst_mac: MacAddr::new([1; 6]) });
        assert!(next_hops.get(address(7)).is_none_or(|known| known == HOP), "a group is nobody's next hop");
    }

    /// Seen: after some 35,000 distinct sources, each new destination took the place of the newest one.
    #[test]
    fn after_a_hundred_thousand_sources_what_is_learned_stays_and_what_is_used_stays_longer() {
        let mut next_hops = NextHops::default();
        let (used, moved) = (address(7), NextHop { dst_mac: MacAddr::new([6; 6]), ..HOP });
        next_hops.learn(used, HOP);
        for n in 1000..101_000 {
            next_hops.learn(address(n), HOP);
            if n % 1000 == 0 {
                assert_eq!(next_hops.get(used), Some(HOP), "it is in use, after {n} others");
            }
        }
        let new = 200_000..200_100;
        new.clone().for_each(|n| next_hops.learn(address(n), HOP));
        next_hops.learn(address(200_000), moved);
        (300_000..301_000).for_each(|n| next_hops.learn(address(n), HOP));
        assert_eq!(next_hops.get(address(200_000)), Some(moved));
        let known = new.filter(|n| next_hops.places.contains_key(&address(*n))).count();
        assert_eq!((known, next_hops.known.len()), (100, KNOWN_MAX));
    }

    /// Seen: the router of a client was replaced. The function named the new one, and each packet went to the old one, from
    /// which the last packet of the server had come.
    #[test]
    fn the_functions_next_hop_is_used_in_place_of_a_learned_one() {
        let mut next_hops = NextHops::default();
        next_hops.learn(address(1), HOP);
        next_hops.learn(address(2), HOP);
        let replaced = NextHop { dst_mac: MacAddr::new([6; 6]), ..HOP };
        next_hops.set_ask(move |of| (of == address(1)).then_some(replaced));
        assert_eq!(next_hops.get(address(1)), Some(replaced));
        assert_eq!(next_hops.get(address(2)), Some(HOP), "the function knows none");
        assert_eq!(next_hops.get(address(3)), None);
    }

    #[test]
    fn if_all_known_destinations_are_in_use_a_new_one_replaces_the_oldest() {
        let mut next_hops = NextHops::default();
        (0..KNOWN_MAX).for_each(|n| next_hops.learn(address(n), HOP));
        assert!((0..KNOWN_MAX).all(|n| next_hops.get(address(n)).is_some()));
        next_hops.learn(address(KNOWN_MAX), HOP);
        let is_known = |n| next_hops.places.contains_key(&address(n));
        assert_eq!((is_known(0), is_known(1), is_known(KNOWN_MAX)), (false, true, true));
    }

    /// Seen: one datagram came from each of 40,000 addresses while a client waited, and its answer had no next hop.
    #[test]
    fn a_quiet_client_behind_the_router_is_reached_after_a_flood_and_a_router_that_was_replaced_is_left() {
        let mut next_hops = NextHops::default();
        let (client, neighbour) = (address(7), NextHop { dst_mac: MacAddr::new([6; 6]), ..HOP });
        next_hops.learn(client, HOP);
        (0..100).for_each(|n| next_hops.learn(address(1000 + n), neighbour));
        (10_000..50_000).for_each(|n| next_hops.learn(address(n), HOP));
        assert!(!next_hops.places.contains_key(&client));
        assert_eq!(next_hops.get(client), Some(HOP));

        let replaced = NextHop { dst_mac: MacAddr::new([8; 6]), ..HOP };
        (100_000..100_000 + 4 * KNOWN_MAX).for_each(|n| next_hops.learn(address(n), replaced));
        assert_eq!(next_hops.get(client), Some(replaced));
    }
}
