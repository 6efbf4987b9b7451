//! Routes over links that are down. The kernel stops using them at once and sends no event about IPv4 routes, while a
//! resync may be due only seconds later. So their paths are taken out as soon as the link's event is read.
//!
//! A route with another path stays. When the link is up again, the kernel uses all paths of such a route, and sends no
//! event about this either. So the route is remembered as it was, and its paths are put back as soon as the link's
//! event is read. Otherwise the whole route would be lost if the link of its other path went down before the next
//! resync.
//!
//! A next-hop object goes with its link for good, and also when the link has only lost its carrier. So a path of a route by
//! such objects is taken out in both cases, and is not put back.

use crate::distinguisher::is_by_object;
use crate::translate::LinkState;
use ipnet::IpNet;
use netmem_router::route::{Origin, Rib, RibRoute, Target};
use std::collections::{HashMap, HashSet};
use std::mem;
use std::net::IpAddr;

/// The fields of a route that its rank depends on.
pub(super) type Rank = (IpNet, Origin, u32);

/// A route that lacks its paths over links that are down.
#[derive(Debug)]
struct Partial {
    /// The route as it is known.
    rest: RibRoute,
    /// The route with all of its paths.
    whole: RibRoute,
}

/// The links that routes may lead over, and those of them that went down.
#[derive(Debug, Default)]
pub(super) struct Withdrawals {
    /// Links without any route are not here, so that most links that come and go cost no look at the routes.
    used: HashSet<u32>,
    /// Those of them that routes by next-hop objects may lead over.
    used_by_objects: HashSet<u32>,
    /// Links that went down and whose paths are still to be taken out.
    down: HashSet<u32>,
    /// Links that lost their carrier, and whose paths by next-hop objects are still to be taken out.
    without_carrier: HashSet<u32>,
    /// Links whose paths were taken out and not put back.
    withdrawn: HashSet<u32>,
    /// The routes that lack some of their paths.
    partial: HashMap<Rank, Vec<Partial>>,
}

impl Withdrawals {
    /// Records that these are all routes. They have no path over a link that is down ([`without_paths_over`]). A route that is not
    /// among them as it was known is forgotten.
    pub(super) fn replace(&mut self, routes: &[RibRoute]) {
        self.used.clear();
        self.used_by_objects.clear();
        self.down.clear();
        self.without_carrier.clear();
        let mut before = mem::take(&mut self.partial);
        for route in routes {
            self.add(route);
            if let Some(partial) = take(&mut before, route) {
                self.remember(partial);
            }
        }
        if self.partial.is_empty() {
            self.withdrawn.clear();
        }
    }

    /// Records a further route.
    pub(super) fn add(&mut self, route: &RibRoute) {
        // Each link with IPv6 has a link-local route, whose end the kernel reports.
        let is_link_local = matches!(route.prefix.addr(), IpAddr::V6(net) if net.is_unicast_link_local());
        if let Target::Paths(paths) = &route.target
            && !is_link_local
        {
            let links = paths.iter().map(|path| path.link);
            self.used.extend(links.clone());
            if is_by_object(route) {
                self.used_by_objects.extend(links);
            }
        }
    }

    /// Records that a link went down.
    pub(super) fn down(&mut self, link: u32) {
        if self.used.contains(&link) {
            self.down.insert(link);
        }
    }

    /// Records that a link has no carrier.
    pub(super) fn no_carrier(&mut self, link: u32) {
        if self.used_by_objects.contains(&link) {
            self.without_carrier.insert(link);
        }
    }

    /// Records that a link is not down any more, and that its paths of before stay.
    pub(super) fn up(&mut self, link: u32) {
        self.down.remove(&link);
    }

    /// Returns true if paths over the link are still to be taken out.
    pub(super) fn is_pending(&self, link: u32) -> bool {
        self.down.contains(&link) || self.without_carrier.contains(&link)
    }

    /// Returns true if paths by next-hop objects over a link of this route are still to be taken out. The kernel may report a
    /// new route over a link before it reports that the link has a carrier again.
    pub(super) fn is_pending_before(&self, route: &RibRoute) -> bool {
        is_by_object(route) && self.without_carrier.iter().any(|link| leads_over(route, *link))
    }

    /// Takes the paths over links that went down or lost their carrier out of the kernel's routes, and removes routes without
    /// another path.
    ///
    /// # Cost
    /// If a link went down or lost its carrier, a look at every route.
    pub(super) fn apply(&mut self, rib: &mut Rib) {
        let (down, without_carrier) = (mem::take(&mut self.down), mem::take(&mut self.without_carrier));
        if down.is_empty() && without_carrier.is_empty() {
            return;
        }
        let is_down =
            |link: u32, by_object: bool| down.contains(&link) || by_object && without_carrier.contains(&link);
        let uses = |route: &RibRoute| match &route.target {
            Target::Paths(paths) => paths.iter().any(|path| is_down(path.link, is_by_object(route))),
            _ => false,
        };
        let old: Vec<_> =
            rib.routes().filter(|route| route.origin != Origin::Static && uses(route)).collect();
        for route in old {
            // It may lack paths already.
            let before = take(&mut self.partial, &route);
            // It comes behind the others of its rank, which are rare, until the resync.
            let by_object = is_by_object(&route);
            if let Some(rest) = without_paths_over(route.clone(), |link| is_down(link, by_object)) {
                rib.insert(&rest);
                if !by_object {
                    let whole = before.map_or_else(|| route.clone(), |partial| partial.whole);
                    self.remember(Partial { rest, whole });
                }
            }
            rib.remove(&route);
        }
        self.withdrawn.extend(down);
    }

    /// Puts the paths over a link that is up again back into the routes that stayed without them. With `again`, the same
    /// event will be applied once more, behind the answers of a dump that may have the link as down.
    ///
    /// # Cost
    /// If there are such paths, a look at every route that lacks some.
    pub(super) fn restore(&mut self, rib: &mut Rib, link: u32, again: bool) {
        let was_withdrawn = if again { self.withdrawn.contains(&link) } else { self.withdrawn.remove(&link) };
        if !was_withdrawn {
            return;
        }
        let mut back = Vec::new();
        for of_rank in self.partial.values_mut() {
            back.extend(of_rank.extract_if(.., |partial| leads_over(&partial.whole, link)));
        }
        for Partial { rest, whole } in back {
            if again {
                self.remember(Partial { rest: rest.clone(), whole: whole.clone() });
            }
            let is_withdrawn =
                |other: u32| other != link && self.withdrawn.contains(&other) && !leads_over(&rest, other);
            let Some(now) = without_paths_over(whole.clone(), is_withdrawn) else { continue };
            if now != rest {
                let is_new = rib.insert(&now);
                if !rib.remove(&rest) {
                    // The route is gone.
                    if is_new {
                        rib.remove(&now);
                    }
                    continue;
                }
                self.add(&now);
            }
            if now != whole {
                self.remember(Partial { rest: now, whole });
            }
        }
    }

    /// Records that a link is gone. Its paths do not come back, also if another link gets its number.
    pub(super) fn gone(&mut self, link: u32) {
        self.withdrawn.remove(&link);
        for of_rank in self.partial.values_mut() {
            of_rank.retain(|partial| !leads_over(&partial.whole, link));
        }
    }

    /// Forgets the other paths of routes with the rank of this one, which has changed.
    pub(super) fn forget_rank(&mut self, route: &RibRoute) {
        self.partial.remove(&rank(route));
    }

    /// Forgets the other paths of all routes: some may have changed, and it is not known which.
    pub(super) fn forget(&mut self) {
        self.partial.clear();
    }

    fn remember(&mut self, partial: Partial) {
        self.partial.entry(rank(&partial.rest)).or_default().push(partial);
    }
}

pub(super) fn rank(route: &RibRoute) -> Rank {
    (route.prefix, route.origin, route.metric)
}

/// Takes out what is remembered of a route that lacks some of its paths.
fn take(partial: &mut HashMap<Rank, Vec<Partial>>, rest: &RibRoute) -> Option<Partial> {
    let of_rank = partial.get_mut(&rank(rest))?;
    let at = of_rank.iter().position(|partial| partial.rest == *rest)?;
    Some(of_rank.swap_remove(at))
}

fn leads_over(route: &RibRoute, link: u32) -> bool {
    matches!(&route.target, Target::Paths(paths) if paths.iter().any(|path| path.link == link))
}

/// Returns true if the kernel has no path over a link in this state. `by_object`: of a route by next-hop objects.
pub(super) fn is_without_paths(state: LinkState, by_object: bool) -> bool {
    match state {
        LinkState::Down => true,
        LinkState::NoCarrier => by_object,
        LinkState::Up => false,
    }
}

/// Returns a route without its paths over links that are down, or None if it has no other path.
pub(super) fn without_paths_over(mut route: RibRoute, is_down: impl Fn(u32) -> bool) -> Option<RibRoute> {
    if let Target::Paths(paths) = &route.target
        && paths.iter().any(|path| is_down(path.link))
    {
        let rest: Vec<_> = paths.iter().filter(|path| !is_down(path.link)).copied().collect();
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
        let via = |link: &u32| Via::new(*link, None);
        let target = Target::paths(links.iter().map(via).collect());
        let prefix = prefix.parse().expect("a prefix");
        RibRoute { prefix, origin: Origin::Main, metric, target, distinguisher: 4 }
    }

    #[test]
    fn paths_over_a_link_that_went_down_are_taken_out_of_the_kernels_routes_and_stay_in_static_ones() {
        let static_route = RibRoute { origin: Origin::Static, ..route("10.9.0.0/16", 0, &[7]) };
        let backup = route("10.1.0.0/16", 100, &[8]);
        let empty = route("10.3.0.0/16", 0, &[]);
        let all = [
            route("10.1.0.0/16", 0, &[7]),
            backup.clone(),
            route("10.2.0.0/16", 0, &[7, 8, 9]),
            empty.clone(),
            route("fd01::/32", 1024, &[7]),
            static_route.clone(),
        ];
        let (mut rib, mut withdrawals) = (Rib::default(), Withdrawals::default());
        withdrawals.replace(&all);
        all.iter().for_each(|route| assert!(rib.insert(route)));
        withdrawals.down(7);
        withdrawals.apply(&mut rib);
        let left = [backup, route("10.2.0.0/16", 0, &[8, 9]), empty, static_route];
        assert_eq!(rib.routes().collect::<Vec<_>>(), left);
        withdrawals.down(9);
        withdrawals.apply(&mut rib);
        assert!(rib.routes().any(|its| its == route("10.2.0.0/16", 0, &[8])), "one path is left");
    }

    /// Puts the paths over `link` back, and returns the only route.
    fn restored(rib: &mut Rib, withdrawals: &mut Withdrawals, link: u32) -> RibRoute {
        withdrawals.restore(rib, link, false);
        assert_eq!(rib.len(), 1);
        rib.routes().next().expect("a route")
    }

    #[test]
    fn a_route_with_another_path_gets_its_paths_back_in_whatever_order_their_links_come_up() {
        let whole = route("10.2.0.0/16", 0, &[7, 8, 9]);
        for order in [[7, 8], [8, 7]] {
            let (mut rib, mut withdrawals) = (Rib::default(), Withdrawals::default());
            withdrawals.replace(std::slice::from_ref(&whole));
            assert!(rib.insert(&whole));
            for link in [7, 8] {
                withdrawals.down(link);
                withdrawals.apply(&mut rib);
            }
            let rest = route("10.2.0.0/16", 0, &[9]);
            assert_eq!(restored(&mut rib, &mut withdrawals, 9), rest, "its link was not down");
            let two = if order[0] == 7 { [7, 9] } else { [8, 9] };
            assert_eq!(restored(&mut rib, &mut withdrawals, order[0]), route("10.2.0.0/16", 0, &two));
            assert_eq!(restored(&mut rib, &mut withdrawals, order[1]), whole);
            assert!(withdrawals.partial.values().all(Vec::is_empty) && withdrawals.withdrawn.is_empty());
        }
    }

    /// A path that the kernel has in spite of a link that is not up yet.
    #[test]
    fn a_path_of_a_route_stays_while_another_path_comes_back() {
        let (mut rib, mut withdrawals) = (Rib::default(), Withdrawals::default());
        let (both, alone) = (route("10.2.0.0/16", 0, &[7, 8]), route("10.3.0.0/16", 0, &[7]));
        withdrawals.replace(&[both.clone(), alone.clone()]);
        assert!(rib.insert(&alone));
        withdrawals.down(7);
        withdrawals.apply(&mut rib);
        assert!(rib.is_empty() && rib.insert(&both));
        withdrawals.down(8);
        withdrawals.apply(&mut rib);
        assert_eq!(restored(&mut rib, &mut withdrawals, 8), both);
        withdrawals.down(8);
        withdrawals.apply(&mut rib);
        assert_eq!(restored(&mut rib, &mut withdrawals, 7), route("10.2.0.0/16", 0, &[7]));
        assert_eq!(restored(&mut rib, &mut withdrawals, 8), both);
    }

    /// Seen in a namespace: at the loss of a carrier the kernel removes the next-hop objects of the link and their IPv4 routes,
    /// and sends no event about either. After the carrier was back, a group had lost its member.
    #[test]
    fn paths_by_next_hop_objects_are_taken_out_with_the_carrier_and_are_not_put_back() {
        let by_object = |prefix, links: &[u32]| RibRoute { distinguisher: 1, ..route(prefix, 0, links) };
        let (alone, group) = (by_object("10.1.0.0/16", &[7]), by_object("10.2.0.0/16", &[7, 8]));
        let plain = route("10.3.0.0/16", 0, &[7, 8]);
        let static_route = RibRoute { origin: Origin::Static, ..by_object("10.9.0.0/16", &[7]) };
        let all = [alone.clone(), group, plain.clone(), static_route.clone()];
        let rest = |prefix| by_object(prefix, &[8]);
        let (mut rib, mut withdrawals) = (Rib::default(), Withdrawals::default());
        withdrawals.replace(&all);
        all.iter().for_each(|route| assert!(rib.insert(route)));
        withdrawals.no_carrier(8);
        withdrawals.replace(&all);
        withdrawals.no_carrier(7);
        assert!(
            withdrawals.is_pending(7) && withdrawals.is_pending_before(&alone) && !withdrawals.is_pending(8)
        );
        assert!(
            !withdrawals.is_pending_before(&plain) && !withdrawals.is_pending_before(&rest("10.1.0.0/16"))
        );
        withdrawals.apply(&mut rib);
        let left = [rest("10.2.0.0/16"), plain, static_route.clone()];
        assert_eq!(rib.routes().collect::<Vec<_>>(), left);
        withdrawals.restore(&mut rib, 7, false);
        assert_eq!(rib.routes().collect::<Vec<_>>(), left);
        // The link of another member is set down and up. Only the route without objects gets its path back.
        withdrawals.down(8);
        withdrawals.apply(&mut rib);
        withdrawals.restore(&mut rib, 8, false);
        assert_eq!(rib.routes().collect::<Vec<_>>(), left[1..]);
    }

    #[test]
    fn a_link_whose_only_route_is_link_local_causes_no_walk_over_the_routes() {
        let mut withdrawals = Withdrawals::default();
        withdrawals.replace(&[route("fe80::/64", 256, &[7]), route("10.1.0.0/16", 0, &[8])]);
        [7, 8, 9].into_iter().for_each(|link| withdrawals.down(link));
        assert_eq!(withdrawals.down, HashSet::from([8]));
        withdrawals.add(&route("10.2.0.0/16", 0, &[9]));
        withdrawals.down(9);
        assert_eq!(withdrawals.down, HashSet::from([8, 9]));
    }
}
