//! The router's own addresses, and the part of them that was published to workers.

use ipnet::IpNet;
use netmem_router::route::Change;
use std::net::IpAddr;

/// The kernel's index of the loopback interface in every network namespace.
const LOOPBACK: u32 = 1;

/// The state of an address, on which its use depends. States that are preferred are less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressState {
    /// It may be used for everything.
    Preferred,
    /// It is used for no new flows, if there is another address (`deprecated`, RFC 4862 §5.5.4).
    Deprecated,
    /// The router may not send from it: duplicate address detection is not finished (`tentative`), or found another
    /// station with it (`dadfailed`, RFC 4862 §5.4).
    Unusable,
}

/// An address of the router on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkAddress {
    pub(crate) link: u32,
    /// The address, and the length of the network on the link.
    pub(crate) net: IpNet,
    pub(crate) state: AddressState,
}

/// The router's own addresses.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// In the kernel's order, so that a primary address comes first.
    all: Vec<LinkAddress>,
    /// By port: the addresses that workers have.
    published: Vec<Box<[IpNet]>>,
    /// On all links: the addresses that workers have. Those that are not deprecated come first, and of these the ones
    /// on the loopback interface: the router has them whatever its links do (RFC 1812 §2.2.7, RFC 7404 §2.1).
    published_own: Box<[IpNet]>,
}

impl Addresses {
    /// Adds an address, or removes it if `state` is None. Returns false if nothing changes.
    pub(crate) fn set(&mut self, link: u32, net: IpNet, state: Option<AddressState>) -> bool {
        let at = self.all.iter().position(|its| (its.link, its.net) == (link, net));
        match (at, state) {
            (None, None) => return false,
            (None, Some(state)) => self.all.push(LinkAddress { link, net, state }),
            (Some(at), None) => drop(self.all.remove(at)),
            (Some(at), Some(state)) => {
                return std::mem::replace(&mut self.all[at].state, state) != state;
            }
        }
        true
    }

    /// Replaces all addresses. Returns false if nothing changes.
    pub(crate) fn replace(&mut self, all: Vec<LinkAddress>) -> bool {
        let changed = all != self.all;
        self.all = all;
        changed
    }

    /// Iterates over all addresses, regardless of state.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.all.iter().map(|its| its.net.addr())
    }

    /// Returns the changes that workers do not have yet. `links` are the links of the ports, in their order.
    /// `opposite` returns true for a link on which the router and the host are at opposite ends. The host sends
    /// from its own addresses there.
    ///
    /// There are usually no changes: links that are not ports come and go, and each change of a table costs every
    /// worker a look at it.
    pub(crate) fn take_changes(
        &mut self,
        links: impl Iterator<Item = Option<u32>>,
        opposite: impl Fn(u32) -> bool,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (port, link) in links.enumerate() {
            let addresses = self.usable_on(link);
            if port >= self.published.len() {
                self.published.resize(port + 1, Box::default());
            }
            if self.published[port] != addresses {
                self.published[port] = addresses.clone();
                changes.push(Change::Addresses(port as u8, addresses));
            }
        }
        let mut own: Vec<_> = self.usable().filter(|its| !opposite(its.link)).collect();
        own.sort_by_key(|its| (its.state, its.link != LOOPBACK));
        let own: Box<[_]> = own.into_iter().map(|its| its.net).collect();
        if self.published_own != own {
            self.published_own = own.clone();
            changes.push(Change::OwnAddresses(own));
        }
        changes
    }

    /// Returns the usable addresses of a link, the deprecated ones last. A deprecated IPv6 address is left out if there is
    /// another one of its scope (RFC 6724 §5, rule 3).
    fn usable_on(&self, link: Option<u32>) -> Box<[IpNet]> {
        let mut usable: Vec<_> = self.usable().filter(|its| Some(its.link) == link).collect();
        usable.sort_by_key(|its| its.state);
        let is_local = |net: &IpNet| matches!(net, IpNet::V6(net) if net.addr().is_unicast_link_local());
        let is_preferred = |its: &LinkAddress| its.state == AddressState::Preferred;
        let preferred: Vec<_> = usable.iter().filter(|its| is_preferred(its)).copied().collect();
        let has_better = |net: &IpNet| {
            let is_like = |other: &IpNet| other.addr().is_ipv6() && is_local(other) == is_local(net);
            net.addr().is_ipv6() && preferred.iter().any(|other| is_like(&other.net))
        };
        usable.retain(|its| is_preferred(its) || !has_better(&its.net));
        usable.into_iter().map(|its| its.net).collect()
    }

    /// Iterates over the addresses that belong to the router, as far as it knows, and to no other station.
    fn usable(&self) -> impl Iterator<Item = &LinkAddress> {
        self.all.iter().filter(|its| its.state != AddressState::Unusable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().expect("a network")
    }

    fn on_port(port: u8, nets: &[&str]) -> Change {
        Change::Addresses(port, nets.iter().map(|text| net(text)).collect())
    }

    fn own(nets: &[&str]) -> Change {
        Change::OwnAddresses(nets.iter().map(|text| net(text)).collect())
    }

    fn none(_: u32) -> bool {
        false
    }

    /// Seen: each event of any link of the machine made every worker look at its table again.
    #[test]
    fn an_address_that_workers_have_already_is_not_published_again() {
        let mut addresses = Addresses::default();
        let links = || [Some(3), None, Some(7)].into_iter();
        assert_eq!(addresses.take_changes(links(), none), []);
        assert!(addresses.set(3, net("10.0.0.1/24"), Some(AddressState::Preferred)));
        assert!(addresses.set(9, net("10.9.0.1/24"), Some(AddressState::Preferred)));
        let all = own(&["10.0.0.1/24", "10.9.0.1/24"]);
        assert_eq!(addresses.take_changes(links(), none), [on_port(0, &["10.0.0.1/24"]), all]);
        assert_eq!(addresses.take_changes(links(), none), []);
        assert!(!addresses.set(3, net("10.0.0.1/24"), Some(AddressState::Preferred)));
        assert!(!addresses.set(3, net("10.0.0.2/24"), None));
        let moved = [None, Some(3), Some(9)].into_iter();
        let wanted = [on_port(0, &[]), on_port(1, &["10.0.0.1/24"]), on_port(2, &["10.9.0.1/24"])];
        assert_eq!(addresses.take_changes(moved, none), wanted);
    }

    #[test]
    fn an_address_of_the_hosts_end_of_a_link_is_not_the_routers() {
        let mut addresses = Addresses::default();
        addresses.set(3, net("10.0.0.1/24"), Some(AddressState::Preferred));
        addresses.set(7, net("10.7.0.1/24"), Some(AddressState::Preferred));
        let changes = addresses.take_changes([Some(3), None].into_iter(), |link| link == 7);
        assert_eq!(changes, [on_port(0, &["10.0.0.1/24"]), own(&["10.0.0.1/24"])]);
        assert_eq!(
            addresses.take_changes([Some(3)].into_iter(), none),
            [own(&["10.0.0.1/24", "10.7.0.1/24"])]
        );
    }

    /// Seen: workers did not know which addresses to send from by ports without addresses.
    #[test]
    fn addresses_on_the_loopback_interface_come_first_and_deprecated_ones_last() {
        let mut addresses = Addresses::default();
        addresses.set(3, net("10.0.0.1/24"), Some(AddressState::Preferred));
        addresses.set(LOOPBACK, net("10.255.0.2/32"), Some(AddressState::Deprecated));
        addresses.set(LOOPBACK, net("10.255.0.1/32"), Some(AddressState::Preferred));
        let changes = addresses.take_changes([].into_iter(), none);
        assert_eq!(changes, [own(&["10.255.0.1/32", "10.0.0.1/24", "10.255.0.2/32"])]);
    }

    /// Seen: errors had source addresses that were not the router's yet, or belonged to another station.
    #[test]
    fn an_unusable_address_is_not_published_until_it_is_usable_and_a_deprecated_one_comes_last() {
        let mut addresses = Addresses::default();
        let links = || [Some(3)].into_iter();
        let (first, second) = (net("fd00::1/64"), net("fd00::2/64"));
        addresses.set(3, first, Some(AddressState::Unusable));
        assert_eq!(addresses.take_changes(links(), none), []);
        assert_eq!(addresses.iter().collect::<Vec<_>>(), [first.addr()], "it is there all the same");
        assert!(addresses.set(3, first, Some(AddressState::Preferred)));
        addresses.set(3, second, Some(AddressState::Preferred));
        let both = ["fd00::1/64", "fd00::2/64"];
        assert_eq!(addresses.take_changes(links(), none), [on_port(0, &both), own(&both)]);
        addresses.set(3, first, Some(AddressState::Deprecated));
        // Beside an address that is not deprecated, a deprecated one is used for nothing new.
        let both = ["fd00::2/64", "fd00::1/64"];
        assert_eq!(addresses.take_changes(links(), none), [on_port(0, &both[..1]), own(&both)]);
        let older = [("10.0.0.1/24", AddressState::Deprecated), ("10.0.0.2/24", AddressState::Preferred)];
        for (text, state) in older {
            addresses.set(3, net(text), Some(state));
        }
        let on_port_now = ["fd00::2/64", "10.0.0.2/24", "10.0.0.1/24"];
        assert_eq!(
            addresses.take_changes(links(), none)[0],
            on_port(0, &on_port_now),
            "of IPv4 it comes last"
        );
        assert!(addresses.set(3, net("10.0.0.1/24"), None) && addresses.set(3, net("10.0.0.2/24"), None));
        addresses.take_changes(links(), none);
        let unusable = LinkAddress { link: 3, net: first, state: AddressState::Unusable };
        assert!(addresses.replace(vec![unusable]));
        assert!(!addresses.replace(vec![unusable]));
        assert_eq!(addresses.take_changes(links(), none), [on_port(0, &[]), own(&[])]);
    }
}
