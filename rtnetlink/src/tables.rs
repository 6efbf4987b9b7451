//! The follower's tables as lists, for people and tests.

use crate::state::{FollowerState, FollowerStats};
use crate::translate::NO_LINK;
use ipnet::IpNet;
use netmem::wire::MacAddr;
use netmem_router::route::{Origin, Resolution, RibRoute, Target, Via};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The tables of a [`Follower`](crate::Follower), as lists. Usable from any thread while the follower runs.
#[derive(Debug, Clone)]
pub struct FollowerTables(pub(crate) Arc<Mutex<FollowerState>>);

/// A route, with fields named as by `ip route`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RouteLine {
    /// The destinations: `10.0.0.0/8`.
    pub prefix: String,
    /// `static`, or the kernel's table: `local`, `main`.
    pub table: &'static str,
    /// The metric. Of routes for one prefix in one table, the one with the smallest metric is used.
    pub metric: u32,
    /// `unicast`, `local`, `blackhole`, `unreachable`, `prohibit`, `throw`.
    pub kind: &'static str,
    /// Its paths: `via 10.1.0.1 dev eth0 weight 1`, followed by `mtu 1300` if the route has its own MTU, joined by
    /// `; `. A path that encapsulates its packets, and is not used, has `encapsulated` in place of the interface.
    pub paths: String,
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct NeighbourLine {
    /// Its address.
    pub address: IpAddr,
    /// The name of its link.
    pub dev: String,
    /// Its MAC address, or None if it does not answer.
    pub mac: Option<MacAddr>,
}

impl FollowerTables {
    /// Lists the routes, by prefix and rank.
    ///
    /// # Cost
    /// The follower waits during the call. Workers do not.
    pub fn routes(&self) -> Vec<RouteLine> {
        let state = self.state();
        state.rib.routes().map(|route| line(&route, &state.names)).collect()
    }

    /// Lists the routes of the first prefixes after `prefix`, or of the first of all: so many prefixes that there are at
    /// least `routes` routes, or all. Each prefix has all its routes.
    ///
    /// # Cost
    /// The follower waits during the call, which is short if `routes` is small, however large the table.
    pub fn routes_after(&self, prefix: Option<IpNet>, routes: usize) -> Vec<RouteLine> {
        let state = self.state();
        let page = page(state.rib.routes_after(prefix), routes, |route| route.prefix);
        page.iter().map(|route| line(route, &state.names)).collect()
    }

    /// Lists the neighbours whose state is known.
    pub fn neighbours(&self) -> Vec<NeighbourLine> {
        self.neighbours_after(None, usize::MAX)
    }

    /// Lists the neighbours at the first addresses after `address`, or at the first of all, as
    /// [`routes_after`](Self::routes_after) lists routes.
    pub fn neighbours_after(&self, address: Option<IpAddr>, neighbours: usize) -> Vec<NeighbourLine> {
        let state = self.state();
        let line = |(link, address, neighbour)| {
            let mac = if let Resolution::Known(mac) = neighbour { Some(mac) } else { None };
            NeighbourLine { address, dev: name(link, &state.names), mac }
        };
        let all = state.rib.neighbours_after(address);
        page(all, neighbours, |(_, address, _)| *address).into_iter().map(line).collect()
    }

    /// Returns the number of neighbours that answer, and of those that do not.
    ///
    /// # Cost
    /// The follower waits during the call, some milliseconds for a hundred thousand neighbours. Workers do not.
    pub fn count_neighbours(&self) -> (usize, usize) {
        let state = self.state();
        let of = |(_, _, neighbour)| matches!(neighbour, Resolution::Known(_));
        let (known, failed): (Vec<_>, Vec<_>) = state.rib.neighbours().map(of).partition(|known| *known);
        (known.len(), failed.len())
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.state().rib.len()
    }

    /// Returns true if there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> FollowerStats {
        self.state().counters
    }

    fn state(&self) -> MutexGuard<'_, FollowerState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the first items, at least `most` if there are so many, and all with the key of the last one.
fn page<T, K: PartialEq>(items: impl Iterator<Item = T>, most: usize, key: impl Fn(&T) -> K) -> Vec<T> {
    let mut page: Vec<T> = Vec::new();
    for item in items {
        if page.len() >= most && page.last().is_none_or(|last| key(last) != key(&item)) {
            break;
        }
        page.push(item);
    }
    page
}

fn line(route: &RibRoute, names: &BTreeMap<u32, String>) -> RouteLine {
    let (kind, paths) = match &route.target {
        Target::Station { port, mac } => ("unicast", format!("port {port} mac {mac}")),
        Target::Paths(paths) => ("unicast", paths_text(paths, names)),
        Target::Local => ("local", String::new()),
        Target::Blackhole => ("blackhole", String::new()),
        Target::Unreachable => ("unreachable", String::new()),
        Target::Prohibit => ("prohibit", String::new()),
        Target::Throw => ("throw", String::new()),
    };
    let table = match route.origin {
        Origin::Static => "static",
        Origin::Local => "local",
        Origin::Main => "main",
    };
    RouteLine { prefix: route.prefix.to_string(), table, metric: route.metric, kind, paths }
}

fn paths_text(paths: &[Via], names: &BTreeMap<u32, String>) -> String {
    let mut text = String::new();
    for path in paths {
        if !text.is_empty() {
            text.push_str("; ");
        }
        if let Some(address) = path.address {
            // Writing to a String cannot fail.
            let _ = write!(text, "via {address} ");
        }
        let _ = match path.link {
            NO_LINK => write!(text, "encapsulated weight {}", path.weight),
            link => write!(text, "dev {} weight {}", name(link, names), path.weight),
        };
        if let Some(mtu) = path.mtu {
            let _ = write!(text, " mtu {mtu}");
        }
    }
    text
}

fn name(link: u32, names: &BTreeMap<u32, String>) -> String {
    names.get(&link).cloned().unwrap_or_else(|| format!("if{link}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tables() -> FollowerTables {
        let mut state = FollowerState::default();
        for (net, metrics) in [("10.0.0.0/8", 1), ("10.0.0.0/16", 3), ("11.0.0.0/8", 1), ("fd00::/16", 1)] {
            for metric in 0..metrics {
                let (prefix, origin) = (net.parse().expect("a prefix"), Origin::Main);
                let target = Target::Blackhole;
                state.rib.insert(&RibRoute { prefix, origin, metric, target, distinguisher: 0 });
            }
        }
        for (link, last) in [(3, 1), (4, 1), (3, 2)] {
            state.rib.set_neighbour(link, IpAddr::from([10, 0, 0, last]), Resolution::Failed);
        }
        FollowerTables(Arc::new(Mutex::new(state)))
    }

    /// Seen: such a path was on an interface called `if0`.
    #[test]
    fn a_path_that_encapsulates_its_packets_has_no_interface() {
        let gateway = Some(IpAddr::from([10, 0, 2, 1]));
        let paths = [Via::new(NO_LINK, gateway), Via::new(3, None)];
        let names = BTreeMap::from([(3, "eth0".to_owned())]);
        assert_eq!(paths_text(&paths, &names), "via 10.0.2.1 encapsulated weight 1; dev eth0 weight 1");
    }

    /// Seen: a full table was listed at once, and its follower waited for seconds.
    #[test]
    fn the_pages_of_routes_and_neighbours_together_have_all_of_them_and_no_prefix_is_divided() {
        let tables = tables();
        let (mut routes, mut pages) = (Vec::new(), Vec::new());
        loop {
            let after = routes.last().map(|last: &RouteLine| last.prefix.parse().expect("a prefix"));
            let page = tables.routes_after(after, 2);
            pages.push(page.len());
            if page.is_empty() {
                break;
            }
            routes.extend(page);
        }
        assert_eq!((pages, &routes), (vec![4, 2, 0], &tables.routes()));
        let first = tables.neighbours_after(None, 1);
        let second = tables.neighbours_after(Some(first[0].address), 1);
        assert_eq!((first.len(), second.len()), (2, 1));
        assert_eq!([first, second].concat(), tables.neighbours());
    }
}
