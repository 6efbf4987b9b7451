//! The ring by which requests reach the code that has the kernel resolve neighbours.
//!
//! Half of its slots are for neighbours without a queue. Each pair of ports may have as many requests there as
//! slots of this half are free. So one pair takes at most half of them, and every further pair finds some.

use super::REQUEST_SLOTS;
use super::shares::Pair;
use crate::route::Neighbour;
use netmem::ring::Sender;
use std::collections::VecDeque;

/// Slots for requests of neighbours without a queue. The others are reserved for neighbours with waiting frames.
const UNQUEUED_MAX: usize = REQUEST_SLOTS as usize / 2;

/// The sending end of the ring.
#[derive(Debug)]
pub(super) struct RequestRing {
    ring: Sender<Neighbour>,
    /// Number of requests sent so far.
    sent: u64,
    /// The requests in the ring of neighbours without a queue, oldest first.
    unqueued: VecDeque<Unqueued>,
    /// Invariant: the number of those requests for each pair that has any.
    pairs: Vec<(Pair, usize)>,
}

#[derive(Debug)]
struct Unqueued {
    /// Number of requests that were sent before this one.
    before: u64,
    pair: Pair,
    neighbour: Neighbour,
}

impl RequestRing {
    pub(super) fn new(ring: Sender<Neighbour>) -> RequestRing {
        RequestRing {
            ring,
            sent: 0,
            unqueued: VecDeque::with_capacity(UNQUEUED_MAX),
            pairs: Vec::with_capacity(UNQUEUED_MAX),
        }
    }

    /// Sends a request for a neighbour. Returns false if the ring is full.
    pub(super) fn send(&mut self, neighbour: Neighbour) -> bool {
        let is_sent = self.ring.send(neighbour).is_ok();
        self.sent += u64::from(is_sent);
        is_sent
    }

    /// Sends a request for a neighbour without a queue, so that it does not stay unreachable. Does nothing if such a
    /// request is in the ring already, or if the pair has its share of the slots.
    ///
    /// # Cost
    /// For a pair that has its share, as one with a scan has: a look at the ring, and at the pairs.
    pub(super) fn send_unqueued(&mut self, neighbour: Neighbour, pair: Pair) {
        self.forget_read();
        let at = self.pairs.iter().position(|its| its.0 == pair);
        let own = at.map_or(0, |at| self.pairs[at].1);
        if own >= UNQUEUED_MAX.saturating_sub(self.unqueued.len())
            || self.unqueued.iter().any(|its| its.neighbour == neighbour)
        {
            return;
        }
        let before = self.sent;
        if self.send(neighbour) {
            self.unqueued.push_back(Unqueued { before, pair, neighbour });
            match at {
                Some(at) => self.pairs[at].1 += 1,
                None => self.pairs.push((pair, 1)),
            }
        }
    }

    /// Forgets the requests that were read.
    fn forget_read(&mut self) {
        // With this, the ring's length is the current one.
        let _ = self.ring.room(REQUEST_SLOTS as usize);
        let read = self.sent.saturating_sub(self.ring.len() as u64);
        while self.unqueued.front().is_some_and(|its| its.before < read)
            && let Some(its) = self.unqueued.pop_front()
        {
            self.pairs.iter_mut().filter(|pair| pair.0 == its.pair).for_each(|pair| pair.1 -= 1);
            self.pairs.retain(|pair| pair.1 > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::ring::ring;
    use netmem::steer::Source;
    use std::net::IpAddr;

    /// Seen: a scan's requests used all slots at once, for the same neighbour several times.
    #[test]
    fn a_scan_leaves_request_slots_to_other_pairs_and_no_request_is_sent_twice_while_it_is_in_the_ring() {
        let (sender, mut receiver) = ring(REQUEST_SLOTS);
        let mut ring = RequestRing::new(sender);
        let neighbour = |port, number: u32| Neighbour { port, address: IpAddr::from(number.to_be_bytes()) };
        let send = |ring: &mut RequestRing, to| ring.send_unqueued(to, Pair::of(to, Source::default()));
        for round in 0..3 {
            (0..5_000).for_each(|number| send(&mut ring, neighbour(1, number)));
            for _ in 0..3 {
                (0..10).for_each(|number| send(&mut ring, neighbour(2, number)));
                send(&mut ring, neighbour(3, 0));
            }
            assert!((0..REQUEST_SLOTS / 2).all(|number| ring.send(neighbour(4, number))), "round {round}");
            let mut read = Vec::new();
            receiver.recv_burst(REQUEST_SLOTS as usize, |neighbour| read.push(neighbour));
            let of = |port| read.iter().filter(|neighbour| neighbour.port == port).count();
            assert_eq!([of(1), of(2), of(3), of(4)], [UNQUEUED_MAX / 2, 10, 1, REQUEST_SLOTS as usize / 2]);
        }
    }
}
