//! Known routes that stay although the kernel's answers do not have them: the answers may lack them, or have them in
//! messages that cannot be read.

use super::withdrawals::{Rank, is_without_paths, rank, without_paths_over};
use crate::distinguisher::is_by_object;
use crate::ipv4_routes::has_address;
use crate::translate::{Event, LinkState, NO_LINK};
use netmem_router::route::{Origin, Rib, RibRoute};
use std::collections::{HashMap, HashSet};

/// The routes of the kernel that stay.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// All IPv6 routes stay.
    pub(super) ipv6: bool,
    /// The IPv4 routes with these network addresses stay.
    pub(super) ipv4: HashSet<u32>,
    /// The routes of these ranks stay.
    pub(super) ranks: HashSet<Rank>,
}

impl Kept {
    /// Adds the ranks of the routes in an answer that could not be read.
    pub(super) fn add_unread(&mut self, routes: &[Event]) {
        self.ranks.extend(routes.iter().filter_map(|event| match event {
            Event::RouteUnread { prefix, origin, metric } => Some((*prefix, *origin, *metric)),
            _ => None,
        }));
    }

    fn has(&self, route: &RibRoute) -> bool {
        let address = route.prefix.addr();
        let is_missed = self.ipv6 && address.is_ipv6() || has_address(&self.ipv4, address);
        route.origin != Origin::Static && (is_missed || self.ranks.contains(&rank(route)))
    }

    /// Returns the known routes that stay, without their paths over links that are down or gone. The kernel has no route
    /// that has no other path.
    ///
    /// # Cost
    /// If any may stay, a look at every route.
    pub(super) fn routes(&self, rib: &Rib, links: &HashMap<u32, LinkState>) -> Vec<RibRoute> {
        if !self.ipv6 && self.ipv4.is_empty() && self.ranks.is_empty() {
            return Vec::new();
        }
        let without_lost_paths = |route: RibRoute| {
            let by_object = is_by_object(&route);
            let is_lost = |link| links.get(&link).is_none_or(|state| is_without_paths(*state, by_object));
            // An encapsulating path is on no link here.
            without_paths_over(route, |link| link != NO_LINK && is_lost(link))
        };
        rib.routes().filter(|route| self.has(route)).filter_map(without_lost_paths).collect()
    }
}
