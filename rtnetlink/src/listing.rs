//! What is known, as a list for people and tests.

use crate::known::{Counters, Known};
use netmem::wire::MacAddr;
use netmem_router::route::{Link, Origin, RibRoute, Target, Via};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Lists what a [`Follower`](crate::Follower) knows, from any thread, while it runs.
#[derive(Debug, Clone)]
pub struct Listing(pub(crate) Arc<Mutex<Known>>);

/// A route, as `ip route` names its parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RouteLine {
    /// The destinations it is for: `10.0.0.0/8`.
    pub prefix: String,
    /// `given`, or the kernel's table: `local`, `main`.
    pub table: &'static str,
    /// Of routes for one prefix in one table the smallest counts.
    pub metric: u32,
    /// `unicast`, `local`, `blackhole`, `unreachable`, `prohibit`, `throw`.
    pub kind: &'static str,
    /// Its ways: `via 10.1.0.1 dev eth0 weight 1`, behind that `mtu 1300` where the route has its own, joined by `; `.
    pub paths: String,
}

/// A neighbour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NeighbourLine {
    /// Its address.
    pub address: IpAddr,
    /// Its link's name.
    pub dev: String,
    /// Its link address; None if it is silent.
    pub mac: Option<MacAddr>,
}

impl Listing {
    /// Every route, by prefix and rank.
    ///
    /// # Cost
    /// The follower waits meanwhile; workers do not.
    pub fn routes(&self) -> Vec<RouteLine> {
        let known = self.known();
        known.rib.routes().map(|route| line(&route, &known.names)).collect()
    }

    /// Every neighbour that something is known about.
    pub fn neighbours(&self) -> Vec<NeighbourLine> {
        let known = self.known();
        let line = |(link, address, state)| {
            let mac = if let Link::Known(mac) = state { Some(mac) } else { None };
            NeighbourLine { address, dev: name(link, &known.names), mac }
        };
        known.rib.neighbours().map(line).collect()
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.known().rib.len()
    }

    /// Whether there is no route.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What happened since the start.
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
        Target::Paths(ways) if ways.is_empty() => ("throw", String::new()),
        Target::Paths(ways) => ("unicast", paths(ways, names)),
        Target::Local => ("local", String::new()),
        Target::Blackhole => ("blackhole", String::new()),
        Target::Unreachable => ("unreachable", String::new()),
        Target::Prohibit => ("prohibit", String::new()),
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
            // Writing into a String cannot fail.
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
