//! Applies the change of a route to the known routes.

use crate::translate::RouteChange;
use netmem_router::route::{Rib, RibRoute, Target};

impl RouteChange {
    /// Applies the change. Returns false if it does not fit the known routes, which means that something else must
    /// have changed too.
    pub fn apply(self, rib: &mut Rib, route: &RibRoute) -> bool {
        let others = rib.count_rank(route.prefix, route.origin, route.metric);
        match self {
            // A route that exists already was reported twice: by a dump and by the event before it. Routes that differ
            // only in what a router does not use have different distinguishers.
            RouteChange::Added => !rib.insert(route) || others == 0,
            RouteChange::Replaced => {
                let removed = rib.remove_rank(route.prefix, route.origin, route.metric);
                rib.insert(route) && removed <= 1
            }
            // The kernel's own address on several links is one route here. The message does not say whether this
            // was the last link.
            RouteChange::Removed if route.target == Target::Local => {
                rib.remove(route);
                false
            }
            RouteChange::Removed => rib.remove(route) || others == 0,
        }
    }
}
