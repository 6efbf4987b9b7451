//! Sharing of the room for waiting frames. Each pair of ports has a share, so that a scan behind one port cannot
//! exclude the others.
//!
//! Shares are not fixed. While there is room, every pair gets it. When there is no room, a pair that has less than
//! another takes one from the pair that has most. Two pairs that want all get half each, and a pair that wants
//! little gets it (max-min fairness).

use crate::route::Neighbour;
use netmem::steer::Source;

/// The port on which frames came in, and the port of their neighbour's link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pair {
    from: u8,
    to: u8,
}

impl Pair {
    pub(super) fn of(neighbour: Neighbour, from: Source) -> Pair {
        Pair { from: from.port, to: neighbour.port }
    }
}

/// The queues and frames of one pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Share {
    pub(super) pair: Pair,
    pub(super) queues: usize,
    pub(super) frames: usize,
}

/// The shares of all pairs that have one.
///
/// Invariant: a share has a queue or a frame.
#[derive(Debug, Default)]
pub(super) struct Shares(Vec<Share>);

impl Shares {
    /// Changes a pair's share.
    pub(super) fn change(&mut self, pair: Pair, change: impl FnOnce(&mut Share)) {
        let at = self.0.iter().position(|share| share.pair == pair).unwrap_or_else(|| {
            self.0.push(Share { pair, queues: 0, frames: 0 });
            self.0.len() - 1
        });
        change(&mut self.0[at]);
        if (self.0[at].queues, self.0[at].frames) == (0, 0) {
            self.0.swap_remove(at);
        }
    }

    /// Returns the pair that has to give one of what `count` counts to the pair `to`. It is the pair that has most,
    /// if `to` then does not have more than that pair.
    pub(super) fn giver(&self, to: Pair, count: impl Fn(&Share) -> usize) -> Option<Pair> {
        let own = self.0.iter().find(|share| share.pair == to).map_or(0, &count);
        let most = self.0.iter().max_by_key(|share| count(share))?;
        (count(most) > own + 1).then_some(most.pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAIRS: [Pair; 3] = [Pair { from: 0, to: 1 }, Pair { from: 0, to: 2 }, Pair { from: 2, to: 1 }];

    #[test]
    fn the_pair_with_the_largest_share_gives_until_all_pairs_that_need_more_have_as_much() {
        let mut shares = Shares::default();
        shares.change(PAIRS[0], |share| share.queues = 9);
        for have in 0..4 {
            assert_eq!(shares.giver(PAIRS[1], |share| share.queues), Some(PAIRS[0]), "with {have}");
            shares.change(PAIRS[0], |share| share.queues -= 1);
            shares.change(PAIRS[1], |share| share.queues += 1);
        }
        assert_eq!(
            shares.giver(PAIRS[1], |share| share.queues),
            None,
            "5 and 4: to take one would turn it round"
        );
        assert_eq!(shares.giver(PAIRS[0], |share| share.queues), None, "nor does one give to itself");
        assert_eq!(shares.giver(PAIRS[2], |share| share.queues), Some(PAIRS[0]));
        assert_eq!(shares.giver(PAIRS[2], |share| share.frames), None);
    }

    #[test]
    fn a_pair_without_queues_and_frames_is_removed() {
        let mut shares = Shares::default();
        shares.change(PAIRS[0], |share| share.frames += 1);
        shares.change(PAIRS[0], |share| share.frames -= 1);
        assert!(shares.0.is_empty());
    }
}
