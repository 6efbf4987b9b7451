//! Where the datagrams of a dump of IPv4 routes end ([`ipv4_routes`](crate::ipv4_routes)).

use crate::headers::{RTM_NEWROUTE, ipv4_destination, is_exception, messages};

/// The network addresses at the edges of a dump's datagrams.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    /// The last of one datagram and the first of the next.
    between: Vec<(u32, u32)>,
    /// The last so far.
    last: Option<u32>,
}

impl Edges {
    /// Adds the next datagram of the dump.
    pub(crate) fn add(&mut self, datagram: &[u8]) {
        let routes = messages(datagram).filter(|message| message.kind == RTM_NEWROUTE);
        // An exception is listed behind each route of its next hop, with the address of a host.
        let routes = routes.map(|message| message.contents()).filter(|route| !is_exception(route));
        let mut destinations = routes.filter_map(ipv4_destination);
        let Some(first) = destinations.next() else { return };
        self.between.extend(self.last.map(|last| (last, first)));
        self.last = Some(destinations.last().unwrap_or(first));
    }

    /// Returns true if a route with this network address may be missing in the dump, because another was removed from the
    /// leaf. A leaf between two edges may have been passed without any of its routes: a tree has those of several tables.
    pub(crate) fn may_miss(&self, address: u32) -> bool {
        // The second is less where another table begins.
        let is_within = |(last, first): &(u32, u32)| match last <= first {
            true => (*last..=*first).contains(&address),
            false => address >= *last || address <= *first,
        };
        self.last == Some(address) || self.between.iter().any(is_within)
    }
}
