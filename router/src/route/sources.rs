//! Sources that no received packet may have: the router's own addresses, and the broadcast addresses of its links.

use super::own::broadcast;
use ipnet::IpNet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Number of bits in the filter: one cache line.
const PLACES: u32 = 512;
const WORDS: usize = (PLACES / u64::BITS) as usize;
/// 2^32 divided by the golden ratio. Multiplication by it maps addresses that differ only in their last octet to
/// different bits (Knuth, The Art of Computer Programming 3, §6.4).
const GOLDEN: u32 = 0x9e37_79b1;

/// The router's own addresses, and the broadcast addresses of its networks. None of them may be the source of a
/// received packet (RFC 1812 §4.2.2.11 and §5.3.7).
///
/// Link-local addresses are left out: each link has its own, and none of their packets is forwarded.
#[derive(Debug, Clone, Default)]
pub struct OwnSources {
    /// HOT. Invariant: the bit of each address in `all` is set.
    places: [u64; WORDS],
    /// In ascending order.
    all: Box<[IpAddr]>,
}

impl OwnSources {
    /// Makes the filter of a router with these addresses, each given with its link's network.
    pub fn of(nets: &[IpNet]) -> OwnSources {
        let addresses = nets.iter().flat_map(|net| [Some(net.addr()), broadcast(*net)]).flatten();
        let mut all: Vec<_> = addresses.filter(|address| !is_link_local(*address)).collect();
        all.sort_unstable();
        all.dedup();
        let mut places = [0; WORDS];
        for address in &all {
            let place = match address {
                IpAddr::V4(address) => place(*address),
                IpAddr::V6(address) => place_v6(*address),
            };
            places[place / 64] |= 1 << (place % 64);
        }
        OwnSources { places, all: all.into() }
    }

    /// Returns false if `source` is not in the set. If it returns true, `source` may still not be in the set.
    ///
    /// # Cost
    /// A multiplication and a load. No other host of a 24-bit network is mistaken for the router there.
    #[inline]
    pub fn may_have(&self, source: Ipv4Addr) -> bool {
        self.is_set(place(source))
    }

    /// As [`may_have`](Self::may_have), for IPv6.
    #[inline]
    pub fn may_have_v6(&self, source: Ipv6Addr) -> bool {
        self.is_set(place_v6(source))
    }

    /// Returns true if `source` is in the set.
    ///
    /// # Cost
    /// A binary search.
    pub fn has(&self, source: IpAddr) -> bool {
        self.all.binary_search(&source).is_ok()
    }

    #[inline]
    fn is_set(&self, place: usize) -> bool {
        self.places[place / 64] >> (place % 64) & 1 != 0
    }
}

/// Returns the bit of an address, from its bytes in the order of a packet.
#[inline]
fn place(address: Ipv4Addr) -> usize {
    place_of(u32::from_ne_bytes(address.octets()))
}

#[inline]
fn place_v6(address: Ipv6Addr) -> usize {
    let bits = u128::from_ne_bytes(address.octets());
    let folded = (bits >> 64) as u64 ^ bits as u64;
    place_of((folded >> 32) as u32 ^ folded as u32)
}

#[inline]
fn place_of(bits: u32) -> usize {
    (bits.wrapping_mul(GOLDEN) >> (u32::BITS - PLACES.ilog2())) as usize
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(nets: &[&str]) -> OwnSources {
        OwnSources::of(&nets.iter().map(|net| net.parse().unwrap()).collect::<Vec<_>>())
    }

    fn is_found(sources: &OwnSources, address: &str) -> bool {
        let address = address.parse().unwrap();
        let may_be = match address {
            IpAddr::V4(address) => sources.may_have(address),
            IpAddr::V6(address) => sources.may_have_v6(address),
        };
        assert!(may_be || !sources.has(address), "{address} is there and has no place");
        sources.has(address)
    }

    #[test]
    fn own_and_broadcast_addresses_are_found_and_no_other_addresses() {
        let own = sources(&["10.0.0.254/24", "10.0.0.254/16", "10.1.0.6/31", "10.2.0.1/32", "fd00::fe/64"]);
        for there in ["10.0.0.254", "10.0.0.255", "10.0.255.255", "10.1.0.6", "10.2.0.1", "fd00::fe"] {
            assert!(is_found(&own, there), "{there}");
        }
        for other in
            ["10.0.0.253", "10.0.0.0", "10.1.0.7", "10.2.0.255", "fd00::", "fd00::ff", "::", "0.0.0.0"]
        {
            assert!(!is_found(&own, other), "{other}");
        }
        let none = OwnSources::default();
        assert!(!none.may_have(Ipv4Addr::UNSPECIFIED) && !none.may_have_v6(Ipv6Addr::UNSPECIFIED));
    }

    /// A station on another link may have the same link-local address as the router on this one.
    #[test]
    fn link_local_addresses_are_left_out() {
        let own = sources(&["fe80::1/64", "169.254.0.1/16"]);
        assert!(own.all.is_empty() && own.places == [0; WORDS]);
    }

    #[test]
    fn hosts_of_the_same_24_bit_network_are_distinguished_from_the_router() {
        for net in ["10.0.0.254/24", "192.168.7.1/24", "198.51.100.129/24"] {
            let (own, net): (_, ipnet::Ipv4Net) = (sources(&[net]), net.parse().unwrap());
            let others = net.hosts().filter(|host| *host != net.addr());
            assert_eq!(others.filter(|host| own.may_have(*host)).count(), 0, "{net}");
        }
    }

    /// A thousand addresses set nearly all bits. Then every source costs the search too, and still only own
    /// addresses are found.
    #[test]
    fn only_own_addresses_are_found_when_the_slots_are_full() {
        let nets: Vec<String> = (0..1000).map(|i| format!("10.{}.{}.1/32", i / 250, i % 250)).collect();
        let own = sources(&nets.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(is_found(&own, "10.3.249.1") && !is_found(&own, "10.3.250.1"));
    }
}
