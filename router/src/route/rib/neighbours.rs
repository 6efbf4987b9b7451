//! The states of neighbours.

use super::Resolution;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};

/// Neighbours by address and link. Invariant: no neighbour in the map is `Unknown`.
#[derive(Debug, Default)]
pub(super) struct Neighbours(BTreeMap<(IpAddr, u32), Resolution>);

impl Neighbours {
    /// Sets the state of a neighbour. Returns false if it was the same before.
    pub(super) fn set(&mut self, link: u32, address: IpAddr, known: Resolution) -> bool {
        let before = match known {
            Resolution::Unknown => self.0.remove(&(address, link)),
            known => self.0.insert((address, link), known),
        };
        before.unwrap_or(Resolution::Unknown) != known
    }

    pub(super) fn get(&self, link: u32, address: IpAddr) -> Resolution {
        self.0.get(&(address, link)).copied().unwrap_or(Resolution::Unknown)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, IpAddr, Resolution)> + '_ {
        self.after(None)
    }

    /// Iterates over the neighbours with addresses after this one, or over all without one.
    pub(super) fn after(
        &self,
        address: Option<IpAddr>,
    ) -> impl Iterator<Item = (u32, IpAddr, Resolution)> + '_ {
        let from = address.map_or(Unbounded, |address| Excluded((address, u32::MAX)));
        self.0.range((from, Unbounded)).map(|(&(address, link), &known)| (link, address, known))
    }

    /// Iterates over the addresses of neighbours that a prefix covers.
    pub(super) fn within(&self, prefix: IpNet) -> impl Iterator<Item = IpAddr> + '_ {
        let ends = (prefix.network(), 0)..=(prefix.broadcast(), u32::MAX);
        self.0.range(ends).map(|((address, _), _)| *address)
    }
}
