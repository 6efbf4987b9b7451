//! The next hops of destinations, for a server that shares its address with the kernel. No answer of ARP or neighbour
//! discovery comes to such a server's port. So a packet is sent to the station from which the last packet of its
//! destination came.

use crate::wire::MacAddr;
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;

/// Maximum number of known destinations. Beyond it, one is forgotten for each new one.
const KNOWN_MAX: usize = 16_384;

/// The source and destination MAC addresses of a packet to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NextHop {
    /// The MAC address of the port's interface.
    pub src_mac: MacAddr,
    /// The MAC address of the destination or of its router.
    pub dst_mac: MacAddr,
}

/// The next hops of destinations, learned from received packets or given by a function. At most 16,384 are known.
/// Beyond that number, one is forgotten for each new one.
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
/// next_hops.set_ask(move |_| Some(NextHop { src_mac: own, dst_mac: router })); // a default route
/// assert_eq!(next_hops.get(other).map(|hop| hop.dst_mac), Some(router));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Default)]
pub struct NextHops {
    known: HashMap<IpAddr, NextHop>,
    ask: Option<Box<dyn FnMut(IpAddr) -> Option<NextHop> + Send>>,
}

impl NextHops {
    /// Sets the function that returns the next hop of a destination that has sent no packet.
    pub fn set_ask(&mut self, ask: impl FnMut(IpAddr) -> Option<NextHop> + Send + 'static) {
        self.ask = Some(Box::new(ask));
    }

    /// Stores `hop` as the next hop for packets to `of`, since a packet from `of` came by it. Hops with a multicast or
    /// broadcast source or destination are not stored.
    pub fn learn(&mut self, of: IpAddr, hop: NextHop) {
        if hop.src_mac.is_group() || hop.dst_mac.is_group() {
            return;
        }
        if self.known.len() >= KNOWN_MAX && !self.known.contains_key(&of) {
            let forgotten = self.known.keys().next().copied();
            forgotten.map(|forgotten| self.known.remove(&forgotten));
        }
        self.known.insert(of, hop);
    }

    /// Returns the next hop of a destination, or None if it is not known.
    pub fn get(&mut self, of: IpAddr) -> Option<NextHop> {
        match self.known.get(&of) {
            Some(hop) => Some(*hop),
            None => self.ask.as_mut()?(of),
        }
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

    #[test]
    fn destinations_beyond_the_most_that_are_known_push_others_out() {
        let hop = NextHop { src_mac: MacAddr::new([2; 6]), dst_mac: MacAddr::new([4; 6]) };
        let mut next_hops = NextHops::default();
        (0..2 * KNOWN_MAX).for_each(|n| next_hops.learn(address(n), hop));
        assert_eq!(next_hops.known.len(), KNOWN_MAX);
        assert_eq!(next_hops.get(address(2 * KNOWN_MAX - 1)), Some(hop), "the newest is among them");
        next_hops.learn(address(7), NextHop { src_mac: hop.src_mac, dst_mac: MacAddr::new([1; 6]) });
        assert!(next_hops.get(address(7)).is_none_or(|known| known == hop), "a group is nobody's next hop");
    }
}
