//! HOT: up to four IPv4 routes, in the form that a scan compares.

use super::hop::FibEntry;

/// Routes in a [`Line`]: a 128-bit register compares this many at once.
pub(super) const PER_LINE: usize = 4;

const _: () = assert!(size_of::<Line>() == 64);

/// A cache line of routes. The scan compares them all at once and without a branch for each route. With mixed
/// destinations such branches would be mispredicted.
///
/// Masks and networks have the byte order of an address in a packet. Invariant: an unused slot has a mask of 0 and
/// a network that is not 0, so that no address matches it.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(super) struct Line {
    masks: [u32; PER_LINE],
    networks: [u32; PER_LINE],
    hops: [FibEntry; PER_LINE],
}

impl Default for Line {
    fn default() -> Self {
        Line::new(&[])
    }
}

impl Line {
    /// Returns the line of up to four routes, the longest prefix first.
    pub(super) fn new(routes: &[(u32, u32, FibEntry)]) -> Self {
        let mut line =
            Line { masks: [0; PER_LINE], networks: [1; PER_LINE], hops: [FibEntry::ELSEWHERE; PER_LINE] };
        for (i, (mask, network, hop)) in routes.iter().take(PER_LINE).enumerate() {
            (line.masks[i], line.networks[i], line.hops[i]) = (mask.to_be(), network.to_be(), *hop);
        }
        line
    }

    /// Returns the next hop of the first route that covers `address`, given in the byte order of a packet.
    #[inline(always)]
    pub(super) fn find(&self, address: u32) -> Option<&FibEntry> {
        let mut hits = 0u32;
        for i in 0..PER_LINE {
            hits |= u32::from(address & self.masks[i] == self.networks[i]) << i;
        }
        if hits == 0 { None } else { self.hops.get(hits.trailing_zeros() as usize) }
    }
}
