//! The router's own addresses, and what of them workers know.

use ipnet::IpNet;
use netmem_router::route::Change;
use std::net::IpAddr;

/// What an address is good for; the better one is less.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// For everything.
    Preferred,
    /// Not for what begins anew, where there is another one (RFC 4862 §5.5.4).
    Deprecated,
    /// The router may not speak with it: nobody knows yet whether another station on the link has it, or one does (RFC 4862 §5.4).
    Unfit,
}

/// The router's own addresses.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    /// By link, in the order in which the kernel has them, so that a primary one comes first.
    all: Vec<(u32, IpNet, Standing)>,
    /// By port: what workers know.
    shown: Vec<Box<[IpNet]>>,
    /// On all links: what workers know.
    own: Box<[IpNet]>,
}

impl Addresses {
    /// Notes an address, or that it is gone; false if that was known.
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

    /// Notes that these are all there are; false if that was known.
    pub(crate) fn replace(&mut self, all: Vec<(u32, IpNet, Standing)>) -> bool {
        let changed = all != self.all;
        self.all = all;
        changed
    }

    /// All of them, whatever they are good for.
    pub(crate) fn iter(&self) -> impl Iterator<Item = IpAddr> + '_ {
        self.all.iter().map(|(_, net, _)| net.addr())
    }

    /// What workers do not know yet, where the ports are on these links, and the host is at the other end of a router's link where
    /// `opposite` says so: it speaks from its addresses there.
    ///
    /// Nothing, as a rule: links of others come and go, and each change of a table costs every worker a look at it.
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
        let own: Box<[_]> =
            self.fit().filter(|(link, ..)| !opposite(*link)).map(|(_, net, _)| *net).collect();
        if self.own != own {
            self.own = own.clone();
            changes.push(Change::Own(own));
        }
        changes
    }

    /// Those on a link that the router may speak with, the deprecated ones last.
    fn on(&self, link: Option<u32>) -> Box<[IpNet]> {
        let mut there: Vec<_> = self.fit().filter(|(its, ..)| Some(*its) == link).collect();
        there.sort_by_key(|(.., standing)| *standing);
        there.into_iter().map(|(_, net, _)| *net).collect()
    }

    /// Those that are the router's, as far as anybody knows, and nobody else's.
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

    /// Seen: each event of any link of the machine had every worker look at its table anew.
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

    /// Seen: errors came from addresses that were not the router's yet, and from those that another station has.
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
        assert_eq!(addresses.unshown(links(), none), [shown(0, &["fd00::2/64", "fd00::1/64"])]);
        assert!(addresses.replace(vec![(3, first, Standing::Unfit)]));
        assert!(!addresses.replace(vec![(3, first, Standing::Unfit)]));
        assert_eq!(addresses.unshown(links(), none), [shown(0, &[]), own(&[])]);
    }
}
