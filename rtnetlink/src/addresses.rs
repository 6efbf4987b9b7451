//! The router's own addresses, and the part of them that workers have been given.

use ipnet::IpNet;
use netmem_router::route::Change;
use std::net::IpAddr;

/// The kernel's index of the loopback interface in every network namespace.
const LOOPBACK: u32 = 1;

/// The use that may be made of an address. The better one is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Every use.
    Preferred,
    /// No new flows, if there is another address (RFC 4862 §5.5.4).
    Deprecated,
    /// The router may not send from it: duplicate address detection is not finished, or found another station with
    /// it (RFC 4862 §5.4).
    Unfit,
}

/// The router's own addresses.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// With their links, in the kernel's order, so that a primary address comes first.
    all: Vec<(u32, IpNet, Standing)>,
    /// By port: the addresses that workers have.
    shown: Vec<Box<[IpNet]>>,
    /// On all links: the addresses that workers have. Those that are not deprecated come first, and of these the ones
    /// on the loopback interface: the router has them whatever its links do (RFC 1812 §2.2.7, RFC 7404 §2.1).
    own: Box<[IpNet]>,
}

impl Addresses {
    /// Adds an address, or removes it if `standing` is None. Returns false if nothing changes.
    pub(crate) fn set(&mut self, link: u32, net: IpNet, standing: Option<Standing>) -> bool {
        let at = self.all.iter().position(|its| (its.0, its.1) == (link, net));
        match (at, standing) {
            (None, None) => return false,
            (None, Some(standing)) => self.all.push((link, net, standing)),
            (Some(at), None) => drop(self.all.remove(at)),
            (Some(at), Some(standing)) => {
                return std::mem::replace(&mut self.all[at].2, standing) != standing;
            }
        }
        true
    }

    /// Replaces all addresses. Returns false if nothing changes.
    pub(crate) fn replace(&mut self, all: Vec<(u32, IpNet, Standing)>) -> bool {
        let changed = all != self.all;
        self.all = all;
        changed
    }

    /// Iterates over all addresses, regardless of standing.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.all.iter().map(|(_, net, _)| net.addr())
    }

    /// Returns the changes that workers do not have yet. `links` are the links of the ports, in their order.
    /// `opposite` returns true for a link on which the router and the host are at opposite ends. The host sends
    /// from its own addresses there.
    ///
    /// There are usually no changes: links that are not ports come and go, and each change of a table costs every
    /// worker a look at it.
    pub(crate) fn unshown(
        &mut self,
        links: impl Iterator<Item = Option<u32>>,
        opposite: impl Fn(u32) -> bool,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (port, link) in links.enumerate() {
            let addresses = self.on(link);
            if port >= self.shown.len() {
                self.shown.resize(port + 1, Box::default());
            }
            if self.shown[port] != addresses {
                self.shown[port] = addresses.clone();
                changes.push(Change::Addresses(port as u8, addresses));
            }
        }
        let mut own: Vec<_> = self.fit().filter(|(link, ..)| !opposite(*link)).collect();
        own.sort_by_key(|(link, _, standing)| (*standing, *link != LOOPBACK));
        let own: Box<[_]> = own.into_iter().map(|(_, net, _)| *net).collect();
        if self.own != own {
            self.own = own.clone();
            changes.push(Change::Own(own));
        }
        changes
    }

    /// Returns the usable addresses of a link, the deprecated ones last. A deprecated IPv6 address is left out if there is
    /// another one of its scope (RFC 6724 §5, rule 3).
    fn on(&self, link: Option<u32>) -> Box<[IpNet]> {
        let mut there: Vec<_> = self.fit().filter(|(its, ..)| Some(*its) == link).collect();
        there.sort_by_key(|(.., standing)| *standing);
        let is_local = |net: &IpNet| matches!(net, IpNet::V6(net) if net.addr().is_unicast_link_local());
        let preferred: Vec<_> = there.iter().filter(|its| its.2 == Standing::Preferred).copied().collect();
        let has_better = |net: &IpNet| {
            let is_like = |other: &IpNet| other.addr().is_ipv6() && is_local(other) == is_local(net);
            net.addr().is_ipv6() && preferred.iter().any(|(_, other, _)| is_like(other))
        };
        there.retain(|(_, net, standing)| *standing == Standing::Preferred || !has_better(net));
        there.into_iter().map(|(_, net, _)| *net).collect()
    }

    /// Iterates over the addresses that belong to the router, as far as it knows, and to no other station.
    fn fit(&self) -> impl Iterator<Item = &(u32, IpNet, Standing)> {
        self.all.iter().filter(|(.., standing)| *standing != Standing::Unfit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(text: &str) -> IpNet {
        text.parse().expect("a network")
    }

    fn shown(port: u8, nets: &[&str]) -> Change {
        Change::Addresses(port, nets.iter().map(|text| net(text)).collect())
    }

    fn own(nets: &[&str]) -> Change {
        Change::Own(nets.iter().map(|text| net(text)).collect())
    }

    fn none(_: u32) -> bool {
        false
    }

    /// Seen: each event of any link of the machine made every worker look at its table again.
    #[test]
    fn what_workers_know_is_no_change() {
        let mut addresses = Addresses::default();
        let links = || [Some(3), None, Some(7)].into_iter();
        assert_eq!(addresses.unshown(links(), none), []);
        assert!(addresses.set(3, net("10.0.0.1/24"), Some(Standing::Preferred)));
        assert!(addresses.set(9, net("10.9.0.1/24"), Some(Standing::Preferred)));
        let all = own(&["10.0.0.1/24", "10.9.0.1/24"]);
        assert_eq!(addresses.unshown(links(), none), [shown(0, &["10.0.0.1/24"]), all]);
        assert_eq!(addresses.unshown(links(), none), []);
        assert!(!addresses.set(3, net("10.0.0.1/24"), Some(Standing::Preferred)));
        assert!(!addresses.set(3, net("10.0.0.2/24"), None));
        let moved = [None, Some(3), Some(9)].into_iter();
        let wanted = [shown(0, &[]), shown(1, &["10.0.0.1/24"]), shown(2, &["10.9.0.1/24"])];
        assert_eq!(addresses.unshown(moved, none), wanted);
    }

    #[test]
    fn addresses_at_the_other_end_of_a_link_are_the_hosts() {
        let mut addresses = Addresses::default();
        addresses.set(3, net("10.0.0.1/24"), Some(Standing::Preferred));
        addresses.set(7, net("10.7.0.1/24"), Some(Standing::Preferred));
        let changes = addresses.unshown([Some(3), None].into_iter(), |link| link == 7);
        assert_eq!(changes, [shown(0, &["10.0.0.1/24"]), own(&["10.0.0.1/24"])]);
        assert_eq!(addresses.unshown([Some(3)].into_iter(), none), [own(&["10.0.0.1/24", "10.7.0.1/24"])]);
    }

    /// Seen: workers were not told which addresses to send from by ports without addresses.
    #[test]
    fn addresses_on_the_loopback_interface_come_first_and_deprecated_ones_last() {
        let mut addresses = Addresses::default();
        addresses.set(3, net("10.0.0.1/24"), Some(Standing::Preferred));
        addresses.set(LOOPBACK, net("10.255.0.2/32"), Some(Standing::Deprecated));
        addresses.set(LOOPBACK, net("10.255.0.1/32"), Some(Standing::Preferred));
        let changes = addresses.unshown([].into_iter(), none);
        assert_eq!(changes, [own(&["10.255.0.1/32", "10.0.0.1/24", "10.255.0.2/32"])]);
    }

    /// Seen: errors had source addresses that were not the router's yet, or belonged to another station.
    #[test]
    fn an_unfit_address_is_not_shown_until_it_is_fit_and_a_deprecated_one_comes_last() {
        let mut addresses = Addresses::default();
        let links = || [Some(3)].into_iter();
        let (first, second) = (net("fd00::1/64"), net("fd00::2/64"));
        addresses.set(3, first, Some(Standing::Unfit));
        assert_eq!(addresses.unshown(links(), none), []);
        assert_eq!(addresses.iter().collect::<Vec<_>>(), [first.addr()], "it is there all the same");
        assert!(addresses.set(3, first, Some(Standing::Preferred)));
        addresses.set(3, second, Some(Standing::Preferred));
        let both = ["fd00::1/64", "fd00::2/64"];
        assert_eq!(addresses.unshown(links(), none), [shown(0, &both), own(&both)]);
        addresses.set(3, first, Some(Standing::Deprecated));
        // Beside an address that is not deprecated, a deprecated one is used for nothing new.
        let both = ["fd00::2/64", "fd00::1/64"];
        assert_eq!(addresses.unshown(links(), none), [shown(0, &both[..1]), own(&both)]);
        let older = [("10.0.0.1/24", Standing::Deprecated), ("10.0.0.2/24", Standing::Preferred)];
        for (text, standing) in older {
            addresses.set(3, net(text), Some(standing));
        }
        let shown_now = ["fd00::2/64", "10.0.0.2/24", "10.0.0.1/24"];
        assert_eq!(addresses.unshown(links(), none)[0], shown(0, &shown_now), "of IPv4 it comes last");
        assert!(addresses.set(3, net("10.0.0.1/24"), None) && addresses.set(3, net("10.0.0.2/24"), None));
        addresses.unshown(links(), none);
        assert!(addresses.replace(vec![(3, first, Standing::Unfit)]));
        assert!(!addresses.replace(vec![(3, first, Standing::Unfit)]));
        assert_eq!(addresses.unshown(links(), none), [shown(0, &[]), own(&[])]);
    }
}
