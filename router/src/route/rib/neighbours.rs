//! What is known about neighbours.

use super::Link;
use ipnet::IpNet;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Neighbours by address and link. Invariant: none of them is unknown.
#[derive(Debug, Default)]
pub(super) struct Neighbours(BTreeMap<(IpAddr, u32), Link>);

impl Neighbours {
    /// Notes what is known; false if that was known.
    pub(super) fn set(&mut self, link: u32, address: IpAddr, known: Link) -> bool {
        let before = match known {
            Link::Unknown => self.0.remove(&(address, link)),
            known => self.0.insert((address, link), known),
        };
        before.unwrap_or(Link::Unknown) != known
    }

    pub(super) fn get(&self, link: u32, address: IpAddr) -> Link {
        self.0.get(&(address, link)).copied().unwrap_or(Link::Unknown)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, IpAddr, Link)> + '_ {
        self.0.iter().map(|(&(address, link), &known)| (link, address, known))
    }

    /// The addresses of neighbours that a prefix covers.
    pub(super) fn within(&self, prefix: IpNet) -> impl Iterator<Item = IpAddr> + '_ {
        let ends = (prefix.network(), 0)..=(prefix.broadcast(), u32::MAX);
        self.0.range(ends).map(|((address, _), _)| *address)
    }
}
