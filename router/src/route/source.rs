//! The source address of packets that the router sends itself. COLD.

use ipnet::{IpNet, Ipv6Net};
use std::net::{IpAddr, Ipv6Addr};

/// What the source of the router's own packets by a hop depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct SourceHint {
    /// The route's preferred source.
    pub preferred: Option<IpAddr>,
    /// The next router, or None if the destination itself is on the link.
    pub via: Option<IpAddr>,
}

impl SourceHint {
    /// Makes the hint of a route with this preferred source, by this next router.
    pub const fn new(preferred: Option<IpAddr>, via: Option<IpAddr>) -> SourceHint {
        SourceHint { preferred, via }
    }
}

/// Returns the address of an interface that suits packets to `to` by the next router `via`, or by none if `to` is on the
/// link. It is the one whose network contains the next hop, otherwise the first. In IPv6 addresses with the label of `to`
/// come before that, and behind it those with the longest matching prefix (RFC 6724 §5, rules 6 and 8).
pub(crate) fn own_address(addresses: &[IpNet], to: IpAddr, via: Option<IpAddr>) -> Option<IpAddr> {
    let next = via.unwrap_or(to);
    let rank = |net: &&IpNet| match (net, to) {
        (IpNet::V6(own), IpAddr::V6(to)) => {
            (label(own.addr()) == label(to), net.contains(&next), matching(*own, to))
        }
        _ => (true, net.contains(&next), 0),
    };
    let good = addresses.iter().filter(|net| suits(net.addr(), to));
    // Of several with one rank, `max_by_key` returns the last.
    good.rev().max_by_key(rank).map(IpNet::addr)
}

/// Returns the first of these addresses that suits packets to `to`; in IPv6 the first with the label of `to`, if there is
/// one.
pub(super) fn labelled(addresses: &[IpNet], to: IpAddr) -> Option<IpAddr> {
    let good = || addresses.iter().map(IpNet::addr).filter(|own| suits(*own, to));
    let is_same = |own: &IpAddr| match (own, to) {
        (IpAddr::V6(own), IpAddr::V6(to)) => label(*own) == label(to),
        _ => true,
    };
    good().find(is_same).or_else(|| good().next())
}

/// Returns true if a packet to `to` may have this source: it is valid where `to` is (RFC 4007, RFC 3927 §2.7).
pub(super) fn suits(own: IpAddr, to: IpAddr) -> bool {
    let reaches = match (own, to) {
        (IpAddr::V4(own), IpAddr::V4(to)) => !own.is_link_local() || to.is_link_local(),
        (IpAddr::V6(own), IpAddr::V6(to)) => !own.is_unicast_link_local() || to.is_unicast_link_local(),
        _ => false,
    };
    reaches && !own.is_loopback()
}

/// The label of each prefix, the longest prefixes first (RFC 6724 §2.1). Hosts of one label can usually reach each other:
/// a filter at a site's edge drops packets from unique local addresses.
const LABELS: [(Ipv6Addr, u8, u8); 8] = [
    (Ipv6Addr::new(0, 0, 0, 0, 0, 0xffff, 0, 0), 96, 4),
    (Ipv6Addr::UNSPECIFIED, 96, 3),
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 32, 5),
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16, 2),
    (Ipv6Addr::new(0x3ffe, 0, 0, 0, 0, 0, 0, 0), 16, 12),
    (Ipv6Addr::new(0xfec0, 0, 0, 0, 0, 0, 0, 0), 10, 11),
    (Ipv6Addr::new(0xfc00, 0, 0, 0, 0, 0, 0, 0), 7, 13),
    (Ipv6Addr::UNSPECIFIED, 0, 1),
];

fn label(address: Ipv6Addr) -> u8 {
    let has = |(prefix, bits, _): &&(Ipv6Addr, u8, u8)| common(*prefix, address) >= *bits;
    LABELS.iter().find(has).map_or(0, |(.., label)| *label)
}

/// Returns the number of bits of the address's prefix that are the same in `to` (RFC 6724 §2.2).
fn matching(own: Ipv6Net, to: Ipv6Addr) -> u8 {
    common(own.addr(), to).min(own.prefix_len())
}

/// Returns the number of first bits that are the same.
fn common(one: Ipv6Addr, other: Ipv6Addr) -> u8 {
    (one.to_bits() ^ other.to_bits()).leading_zeros() as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(addresses: &[&str], to: &str, via: Option<&str>) -> Option<String> {
        let nets: Vec<IpNet> = addresses.iter().map(|net| net.parse().unwrap()).collect();
        let via = via.map(|via| via.parse().unwrap());
        own_address(&nets, to.parse().unwrap(), via).map(|own| own.to_string())
    }

    /// Seen: the source was the first address of the interface, often one that the far side filters.
    #[test]
    fn the_address_beside_the_next_router_is_used_and_not_the_first() {
        let own = ["192.168.1.1/24", "203.0.113.2/30"];
        let of = |via| chosen(&own, "8.8.8.8", via);
        assert_eq!(of(Some("203.0.113.1")).as_deref(), Some("203.0.113.2"));
        assert_eq!(of(Some("10.0.0.1")).as_deref(), Some("192.168.1.1"));
        assert_eq!(of(None).as_deref(), Some("192.168.1.1"));
        assert_eq!(chosen(&own, "203.0.113.1", None).as_deref(), Some("203.0.113.2"));
    }

    /// Seen: errors to the Internet were sent from a unique local address, and dropped at the site's edge.
    #[test]
    fn a_global_destination_gets_a_global_source_and_the_one_with_the_longest_matching_prefix() {
        let own = ["fe80::1/64", "fd00:1::1/64", "2001:db8:1::1/64", "2001:db8:ff00::1/64"];
        for (to, wanted) in [
            ("2600::1", "2001:db8:1::1"),
            ("2001:db8:ff01::9", "2001:db8:ff00::1"),
            ("fd00:7::1", "fd00:1::1"),
            ("fe80::9", "fe80::1"),
        ] {
            assert_eq!(
                chosen(&own, to, Some("fe80::2")).as_deref(),
                Some(if to == "fe80::9" { "fe80::1" } else { wanted })
            );
        }
        let beside = ["fd00:1::2/64", "2001:db8:1::1/64"];
        let of = |to| chosen(&beside, to, Some("fd00:1::1"));
        assert_eq!(
            of("2600::1").as_deref(),
            Some("2001:db8:1::1"),
            "the next router's prefix is a local one"
        );
        assert_eq!(of("fd00:9::1").as_deref(), Some("fd00:1::2"));
        assert_eq!(chosen(&["fe80::1/64", "::1/128"], "2600::1", None), None);
        assert_eq!(
            chosen(&["fd00:1::1/64"], "2600::1", None).as_deref(),
            Some("fd00:1::1"),
            "there is no other"
        );
    }

    #[test]
    fn labels_are_those_of_rfc_6724() {
        let of = |text: &str| label(text.parse().unwrap());
        let all =
            ["2600::1", "2002::1", "2001::1", "fd00::1", "::ffff:1.2.3.4", "::1.2.3.4", "fec0::1", "3ffe::1"];
        assert_eq!(all.map(of), [1, 2, 5, 13, 4, 3, 11, 12]);
    }
}
