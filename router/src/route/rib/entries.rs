//! Routes in the order of their rank.

use super::Origin;
use crate::route::HopId;
use ipnet::IpNet;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Bound::{Excluded, Unbounded};

/// A route. The order of its fields is its rank: of the routes of one prefix, the first is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) prefix: IpNet,
    pub(super) origin: Origin,
    pub(super) metric: u32,
    /// Its position among the routes of the same prefix, origin and metric. The kernel uses the first in its list.
    pub(super) place: u32,
    pub(super) hop: HopId,
    /// That of the route ([`RibRoute`](super::RibRoute)).
    pub(super) distinguisher: u32,
}

/// All routes.
#[derive(Debug)]
pub(super) struct Entries {
    all: BTreeSet<Entry>,
    /// Number of routes of each prefix length, by family. A search for the longest prefix skips lengths without
    /// routes.
    lengths: [[u32; 129]; 2],
}

impl Default for Entries {
    fn default() -> Self {
        Entries { all: BTreeSet::new(), lengths: [[0; 129]; 2] }
    }
}

impl Entries {
    /// Inserts an entry behind all others of its rank. Returns false if there is one of the same rank, hop and
    /// distinguisher already.
    pub(super) fn insert(&mut self, entry: Entry) -> bool {
        let Entry { prefix, origin, metric, hop, distinguisher, .. } = entry;
        let (mut place, mut is_new) = (0, true);
        for other in self.of_rank(prefix, origin, metric) {
            place = other.place.saturating_add(1);
            is_new &= (other.hop, other.distinguisher) != (hop, distinguisher);
        }
        if is_new {
            self.all.insert(Entry { place, ..entry });
            *self.length(prefix) += 1;
        }
        is_new
    }

    /// Removes an entry. Returns false if it does not exist.
    pub(super) fn remove(&mut self, entry: &Entry) -> bool {
        let was_there = self.all.remove(entry);
        *self.length(entry.prefix) -= u32::from(was_there);
        was_there
    }

    fn length(&mut self, prefix: IpNet) -> &mut u32 {
        &mut self.lengths[usize::from(prefix.addr().is_ipv6())][usize::from(prefix.prefix_len())]
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.all.iter()
    }

    /// Iterates over the routes of the prefixes after this one, or over all without one, in the order of
    /// [`iter`](Self::iter).
    pub(super) fn after(&self, prefix: Option<IpNet>) -> impl Iterator<Item = &Entry> {
        let (origin, end) = (Origin::Main, u32::MAX);
        let last =
            |prefix| Entry { prefix, origin, metric: end, place: end, hop: HopId(end), distinguisher: end };
        self.all.range((prefix.map_or(Unbounded, |prefix| Excluded(last(prefix))), Unbounded))
    }

    /// Iterates over the prefixes that have a route, each once.
    pub(super) fn prefixes(&self) -> impl Iterator<Item = IpNet> + '_ {
        let mut last = None;
        self.all.iter().map(|entry| entry.prefix).filter(move |prefix| last.replace(*prefix) != Some(*prefix))
    }

    /// Returns the hop of the best route of exactly this prefix.
    pub(super) fn best(&self, prefix: IpNet) -> Option<HopId> {
        self.first(prefix).map(|entry| entry.hop)
    }

    fn first(&self, prefix: IpNet) -> Option<&Entry> {
        let (origin, hop) = (Origin::Static, HopId(0));
        let from = Entry { prefix, origin, metric: 0, place: 0, hop, distinguisher: 0 };
        self.all.range(from..).next().filter(|entry| entry.prefix == prefix)
    }

    /// Iterates over the routes of one prefix, origin and metric, in order.
    pub(super) fn of_rank(
        &self,
        prefix: IpNet,
        origin: Origin,
        metric: u32,
    ) -> impl Iterator<Item = Entry> + '_ {
        let at = |end| Entry { prefix, origin, metric, place: end, hop: HopId(end), distinguisher: end };
        self.all.range(at(0)..=at(u32::MAX)).copied()
    }

    /// Returns the best route of the longest prefix that covers an address.
    pub(super) fn longest(&self, address: IpAddr) -> Option<&Entry> {
        let lengths = &self.lengths[usize::from(address.is_ipv6())];
        let bits = if address.is_ipv6() { 128 } else { 32 };
        let present = (0..=bits).rev().filter(|length| lengths[usize::from(*length)] > 0);
        present.filter_map(|length| IpNet::new(address, length).ok()).find_map(|net| self.first(net.trunc()))
    }
}
