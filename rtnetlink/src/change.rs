//! What a route's change does to all that is known.

use crate::translate::RouteChange;
use netmem_router::route::{Rib, RibRoute, Target};

impl RouteChange {
    /// Takes note of it; false if it does not fit what is known, so that something else must have changed too.
    pub fn apply(self, rib: &mut Rib, route: &RibRoute) -> bool {
        let others = rib.count_rank(route.prefix, route.origin, route.metric);
        match self {
            // One that is there already was told twice: by a list of all, and by the event before it.
            RouteChange::Added => !rib.insert(route) || others == 0,
            RouteChange::Replaced => {
                let removed = rib.remove_rank(route.prefix, route.origin, route.metric);
                rib.insert(route) && removed <= 1
            }
            // What is the kernel's own on several links is one route here: whether it was the last is not said.
            RouteChange::Removed if route.target == Target::Local => {
                rib.remove(route);
                false
            }
            RouteChange::Removed => rib.remove(route) || others == 0,
        }
    }
}
