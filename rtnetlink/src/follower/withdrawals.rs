//! Routes over links that are down. The kernel stops using them at once and sends no event about IPv4 routes, while a
//! resync may be due only seconds later. So their paths are taken out as soon as the link's event is read.

use netmem_router::route::{Origin, Rib, RibRoute, Target};
use std::collections::HashSet;
use std::mem;
use std::net::IpAddr;

/// The links that routes may lead over, and those of them that went down and whose paths are still to be taken out.
#[derive(Debug, Default)]
pub(super) struct Withdrawals {
    /// Links without any route are not here, so that most links that come and go cost no look at the routes.
    used: HashSet<u32>,
    down: HashSet<u32>,
}

impl Withdrawals {
    /// Records that these are all routes. They have no path over a link that is down ([`without`]).
    pub(super) fn replace(&mut self, routes: &[RibRoute]) {
        self.used.clear();
        self.down.clear();
        routes.iter().for_each(|route| self.add(route));
    }

    /// Records a further route.
    pub(super) fn add(&mut self, route: &RibRoute) {
        // Each link with IPv6 has a link-local route, whose end the kernel reports.
        let is_link_local = matches!(route.prefix.addr(), IpAddr::V6(net) if net.is_unicast_link_local());
        if let Target::Paths(ways) = &route.target
            && !is_link_local
        {
            self.used.extend(ways.iter().map(|way| way.link));
        }
    }

    /// Records that a link went down.
    pub(super) fn down(&mut self, link: u32) {
        if self.used.contains(&link) {
            self.down.insert(link);
        }
    }

    /// Records that a link is not down any more, and that its paths of before stay.
    pub(super) fn up(&mut self, link: u32) {
        self.down.remove(&link);
    }

    /// Returns true if paths over the link are still to be taken out.
    pub(super) fn is_pending(&self, link: u32) -> bool {
        self.down.contains(&link)
    }

    /// Takes the paths over links that went down out of the kernel's routes, and removes routes without another path.
    ///
    /// # Cost
    /// If a link went down, a look at every route.
    pub(super) fn apply(&mut self, rib: &mut Rib) {
        let down = mem::take(&mut self.down);
        if down.is_empty() {
            return;
        }
        let is_down = |link: u32| down.contains(&link);
        let uses = |route: &RibRoute| match &route.target {
            Target::Paths(ways) => ways.iter().any(|way| is_down(way.link)),
            _ => false,
        };
        let old: Vec<_> = rib.routes().filter(|route| route.origin != Origin::Given && uses(route)).collect();
        for route in old {
            // It comes behind the others of its rank, which are rare, until the resync.
            if let Some(rest) = without(route.clone(), is_down) {
                rib.insert(&rest);
            }
            rib.remove(&route);
        }
    }
}

/// Returns a route without its paths over links that are down, or None if it has no other path.
pub(super) fn without(mut route: RibRoute, is_down: impl Fn(u32) -> bool) -> Option<RibRoute> {
    if let Target::Paths(ways) = &route.target
        && ways.iter().any(|way| is_down(way.link))
    {
        let rest: Vec<_> = ways.iter().filter(|way| !is_down(way.link)).copied().collect();
        if rest.is_empty() {
            return None;
        }
        route.target = Target::paths(rest);
    }
    Some(route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem_router::route::Via;

    fn route(prefix: &str, metric: u32, links: &[u32]) -> RibRoute {
        let via = |link: &u32| Via { link: *link, address: None, weight: 1, mtu: None };
        let target = Target::paths(links.iter().map(via).collect());
        let prefix = prefix.parse().expect("a prefix");
        RibRoute { prefix, origin: Origin::Main, metric, target, distinguisher: 5 }
    }

    #[test]
    fn a_link_that_went_down_is_no_path_of_the_kernels_routes_and_of_given_ones_it_stays_one() {
        let given = RibRoute { origin: Origin::Given, ..route("10.9.0.0/16", 0, &[7]) };
        let backup = route("10.1.0.0/16", 100, &[8]);
        let empty = route("10.3.0.0/16", 0, &[]);
        let all = [
            route("10.1.0.0/16", 0, &[7]),
            backup.clone(),
            route("10.2.0.0/16", 0, &[7, 8, 9]),
            empty.clone(),
            route("fd01::/32", 1024, &[7]),
            given.clone(),
        ];
        let (mut rib, mut withdrawals) = (Rib::default(), Withdrawals::default());
        withdrawals.replace(&all);
        all.iter().for_each(|route| assert!(rib.insert(route)));
        withdrawals.down(7);
        withdrawals.apply(&mut rib);
        let left = [backup, route("10.2.0.0/16", 0, &[8, 9]), empty, given];
        assert_eq!(rib.routes().collect::<Vec<_>>(), left);
        withdrawals.down(9);
        withdrawals.apply(&mut rib);
        assert!(rib.routes().any(|its| its == route("10.2.0.0/16", 0, &[8])), "one path is left");
    }

    #[test]
    fn a_link_without_routes_but_its_link_local_one_costs_no_look_at_the_routes() {
        let mut withdrawals = Withdrawals::default();
        withdrawals.replace(&[route("fe80::/64", 256, &[7]), route("10.1.0.0/16", 0, &[8])]);
        [7, 8, 9].into_iter().for_each(|link| withdrawals.down(link));
        assert_eq!(withdrawals.down, HashSet::from([8]));
        withdrawals.add(&route("10.2.0.0/16", 0, &[9]));
        withdrawals.down(9);
        assert_eq!(withdrawals.down, HashSet::from([8, 9]));
    }
}
