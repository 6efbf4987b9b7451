//! The ring by which names of neighbours reach the code that has the kernel resolve them.
//!
//! Half of its slots are for neighbours without a queue. Each pair of ports may have as many of its names there as
//! slots of this half are free. So one pair takes at most half of them, and every further pair finds some.

use super::ASKED;
use super::shares::Pair;
use crate::route::Neighbour;
use netmem::ring::Sender;
use std::collections::VecDeque;

/// Slots for the names of neighbours without a queue. The others are reserved for neighbours with waiting frames.
const UNQUEUED: usize = ASKED as usize / 2;

/// The sending end of the ring.
#[derive(Debug)]
pub(super) struct Names {
    ring: Sender<Neighbour>,
    /// Number of names sent so far.
    sent: u64,
    /// The names in the ring of neighbours without a queue, oldest first.
    unqueued: VecDeque<Unqueued>,
    /// Invariant: the number of those names for each pair that has any.
    pairs: Vec<(Pair, usize)>,
}

#[derive(Debug)]
struct Unqueued {
    /// Number of names that were sent before this one.
    before: u64,
    pair: Pair,
    name: Neighbour,
}

impl Names {
    pub(super) fn new(ring: Sender<Neighbour>) -> Names {
        Names {
            ring,
            sent: 0,
            unqueued: VecDeque::with_capacity(UNQUEUED),
            pairs: Vec::with_capacity(UNQUEUED),
        }
    }

    /// Sends a name. Returns false if the ring is full.
    pub(super) fn send(&mut self, name: Neighbour) -> bool {
        let is_sent = self.ring.send(name).is_ok();
        self.sent += u64::from(is_sent);
        is_sent
    }

    /// Sends the name of a neighbour without a queue, so that it does not stay unreachable. Does nothing if the name
    /// is in the ring already, or if the pair has its share of the slots.
    ///
    /// # Cost
    /// For a pair that has its share, as one with a scan has: a look at the ring, and at the pairs.
    pub(super) fn send_unqueued(&mut self, name: Neighbour, pair: Pair) {
        self.forget_read();
        let at = self.pairs.iter().position(|its| its.0 == pair);
        let own = at.map_or(0, |at| self.pairs[at].1);
        if own >= UNQUEUED.saturating_sub(self.unqueued.len())
            || self.unqueued.iter().any(|its| its.name == name)
        {
            return;
        }
        let before = self.sent;
        if self.send(name) {
            self.unqueued.push_back(Unqueued { before, pair, name });
            match at {
                Some(at) => self.pairs[at].1 += 1,
                None => self.pairs.push((pair, 1)),
            }
        }
    }

    /// Forgets the names that were read.
    fn forget_read(&mut self) {
        // With this, the ring's length is the current one.
        let _ = self.ring.room(ASKED as usize);
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

    /// Seen: a scan's names used all slots at once, the same name several times.
    #[test]
    fn a_scan_leaves_slots_for_names_to_other_pairs_and_no_name_is_sent_while_it_is_in_the_ring() {
        let (sender, mut receiver) = ring(ASKED);
        let mut names = Names::new(sender);
        let name = |port, number: u32| Neighbour { port, address: IpAddr::from(number.to_be_bytes()) };
        let send = |names: &mut Names, name| names.send_unqueued(name, Pair::of(name, Source::default()));
        for round in 0..3 {
            (0..5_000).for_each(|number| send(&mut names, name(1, number)));
            for _ in 0..3 {
                (0..10).for_each(|number| send(&mut names, name(2, number)));
                send(&mut names, name(3, 0));
            }
            assert!((0..ASKED / 2).all(|number| names.send(name(4, number))), "round {round}");
            let mut read = Vec::new();
            receiver.recv_burst(ASKED as usize, |name| read.push(name));
            let of = |port| read.iter().filter(|name| name.port == port).count();
            assert_eq!([of(1), of(2), of(3), of(4)], [UNQUEUED / 2, 10, 1, ASKED as usize / 2]);
        }
    }
}
