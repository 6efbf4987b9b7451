//! Networks to whose addresses no packet is forwarded, as the checks of each packet have it. COLD.

use crate::Allow;
use ipnet::IpNet;

/// Networks to which no packet is forwarded, and what their addresses are.
const NEVER: [(&str, &str); 7] = [
    ("224.0.0.0/4", "multicast"),
    ("169.254.0.0/16", "link-local"),
    ("255.255.255.255/32", "broadcast"),
    ("ff00::/8", "multicast"),
    ("fe80::/10", "link-local"),
    ("::/127", "unspecified and loopback"),
    ("::ffff:0.0.0.0/96", "IPv4-mapped"),
];

/// Networks to which packets are forwarded only with [`Allow::martians`].
const SWITCHED: [&str; 3] = ["0.0.0.0/8", "127.0.0.0/8", "240.0.0.0/4"];

/// Why no packet to a network is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unforwarded {
    /// Its addresses are all of this kind, such as multicast.
    #[error("packets to {0} addresses are not forwarded")]
    Never(&'static str),
    /// It is within this network, to which packets are forwarded only with [`Allow::martians`].
    #[error("packets to {0} are not forwarded")]
    Switched(&'static str),
}

impl Allow {
    /// Returns why no packet to any address of `net` is forwarded, so that a route to it has no effect. Returns None if some
    /// packet may be.
    ///
    /// # Examples
    /// ```
    /// use netmem_router::{Allow, Unforwarded};
    ///
    /// let why = |net: &str| Allow::default().unforwarded(net.parse().expect("a network"));
    /// assert_eq!(why("239.1.0.0/16"), Some(Unforwarded::Never("multicast")));
    /// assert_eq!(why("127.0.0.1/32"), Some(Unforwarded::Switched("127.0.0.0/8")));
    /// assert_eq!(why("0.0.0.0/0"), None);
    /// ```
    #[must_use]
    pub fn unforwarded(self, net: IpNet) -> Option<Unforwarded> {
        let is_within = |wider: &str| wider.parse().is_ok_and(|wider: IpNet| wider.contains(&net));
        if let Some((_, what)) = NEVER.iter().find(|(never, _)| is_within(never)) {
            return Some(Unforwarded::Never(what));
        }
        let switched = SWITCHED.iter().find(|switched| !self.martians && is_within(switched));
        switched.map(|net| Unforwarded::Switched(net))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ip::{is_martian, is_switched, v6};
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

    fn why(address: IpAddr, martians: bool) -> Option<Unforwarded> {
        Allow { martians, ..Allow::default() }.unforwarded(address.into())
    }

    #[test]
    fn the_addresses_of_these_networks_are_those_that_the_checks_of_packets_refuse() {
        for number in 0..=u16::MAX {
            let [first, second] = number.to_be_bytes();
            for last in [0, 1, 255] {
                let address = Ipv4Addr::new(first, second, last, last);
                let refused = [false, true].map(|martians| why(address.into(), martians).is_some());
                let martian = is_martian(address);
                assert_eq!(refused, [martian, martian && !is_switched(address)], "{address}");
            }
        }
        let prefixes = (0..=u16::MAX).map(|first| Ipv6Addr::new(first, 0, 0, 0, 0, 0, 0, 9));
        let others = ["::", "::1", "::2", "::ffff:10.0.0.1", "::fffe:10.0.0.1", "64:ff9b::10.0.0.1"];
        for address in prefixes.chain(others.map(|text| text.parse().expect("an address"))) {
            for martians in [false, true] {
                assert_eq!(why(address.into(), martians).is_some(), v6::is_martian(address), "{address}");
            }
        }
    }

    #[test]
    fn a_network_with_an_address_to_which_packets_are_forwarded_is_not_refused() {
        let is_refused = |net: &str, martians| {
            Allow { martians, ..Allow::default() }.unforwarded(net.parse().expect("a network")).is_some()
        };
        assert!(!is_refused("240.0.0.0/4", true) && is_refused("240.0.0.0/4", false));
        assert!(is_refused("255.255.255.255/32", true) && is_refused("224.0.0.0/4", true));
        assert!(!["::/0", "0.0.0.0/0", "0.0.0.0/1", "fd00::/8"].iter().any(|net| is_refused(net, false)));
    }
}
