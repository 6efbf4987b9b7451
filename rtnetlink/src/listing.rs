//! The known state as lists, for people and tests.

use crate::known::{Counters, Known};
use netmem::wire::MacAddr;
use netmem_router::route::{Link, Origin, RibRoute, Target, Via};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lists the state of a [`Follower`](crate::Follower). Usable from any thread while the follower runs.
#[derive(Debug, Clone)]
pub struct Listing(pub(crate) Arc<Mutex<Known>>);

/// A route, with fields named as by `ip route`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteLine {
    /// The destinations: `10.0.0.0/8`.
    pub prefix: String,
    /// `given`, or the kernel's table: `local`, `main`.
    pub table: &'static str,
    /// The metric. Of routes for one prefix in one table, the one with the smallest metric is used.
    pub metric: u32,
    /// `unicast`, `local`, `blackhole`, `unreachable`, `prohibit`, `throw`.
    pub kind: &'static str,
    /// Its paths: `via 10.1.0.1 dev eth0 weight 1`, followed by `mtu 1300` if the route has its own MTU, joined by
    /// `; `.
    pub paths: String,
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourLine {
    /// Its address.
    pub address: IpAddr,
    /// The name of its link.
    pub dev: String,
    /// Its MAC address, or None if it does not answer.
    pub mac: Option<MacAddr>,
}

impl Listing {
    /// Lists the routes, by prefix and rank.
    ///
    /// # Cost
    /// The follower waits during the call. Workers do not.
    pub fn routes(&self) -> Vec<RouteLine> {
        let known = self.known();
        known.rib.routes().map(|route| line(&route, &known.names)).collect()
    }

    /// Lists the neighbours whose state is known.
    pub fn neighbours(&self) -> Vec<NeighbourLine> {
        let known = self.known();
        let line = |(link, address, state)| {
            let mac = if let Link::Known(mac) = state { Some(mac) } else { None };
            NeighbourLine { address, dev: name(link, &known.names), mac }
        };
        known.rib.neighbours().map(line).collect()
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.known().rib.len()
    }

    /// Returns true if there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the counters since the start.
    pub fn counters(&self) -> Counters {
        self.known().counters
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn line(route: &RibRoute, names: &BTreeMap<u32, String>) -> RouteLine {
    let (kind, paths) = match &route.target {
        Target::Station { port, mac } => ("unicast", format!("port {port} mac {mac}")),
        Target::Paths(ways) => ("unicast", paths(ways, names)),
        Target::Local => ("local", String::new()),
        Target::Blackhole => ("blackhole", String::new()),
        Target::Unreachable => ("unreachable", String::new()),
        Target::Prohibit => ("prohibit", String::new()),
        Target::Throw => ("throw", String::new()),
    };
    let table = match route.origin {
        Origin::Given => "given",
        Origin::Local => "local",
        Origin::Main => "main",
    };
    RouteLine { prefix: route.prefix.to_string(), table, metric: route.metric, kind, paths }
}

fn paths(ways: &[Via], names: &BTreeMap<u32, String>) -> String {
    let mut text = String::new();
    for way in ways {
        if !text.is_empty() {
            text.push_str("; ");
        }
        if let Some(address) = way.address {
            // Writing to a String cannot fail.
            let _ = write!(text, "via {address} ");
        }
        let _ = write!(text, "dev {} weight {}", name(way.link, names), way.weight);
        if let Some(mtu) = way.mtu {
            let _ = write!(text, " mtu {mtu}");
        }
    }
    text
}

fn name(link: u32, names: &BTreeMap<u32, String>) -> String {
    names.get(&link).cloned().unwrap_or_else(|| format!("if{link}"))
}
