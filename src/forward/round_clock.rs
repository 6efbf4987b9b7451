//! HOT: the duration of a round, and with it the time that its packets were here.
//!
//! ```text
//!   clock ─► rx ─► verdict ─► tx, queue, another worker, dropped ─► clock        a packet received between the two has left before
//!     │                          └─► its transmit ring is full ──────┼─► … ─► clock   the second, or in a later round
//! ```
//! `Forwarder::run` reads the clock at the end of each round for its windows. There is no other reading. So a packet's
//! time is taken as that of its round, from before the round's first look at a port: no packet took longer. Pauses of
//! the machine are included, since packets wait for their end. Not included is the time in a device's rings before and
//! after, and in another worker's lane.

use super::meters::Meters;
use crate::sys::clock;

/// The position of the fraction in nanoseconds per tick.
const FRACTION: u32 = 32;

/// The time when the round began, and the frames that are still here from earlier rounds.
#[derive(Debug)]
pub(super) struct RoundClock {
    began: u64,
    /// Nanoseconds per tick, with [`FRACTION`] fractional bits.
    scale: u64,
    /// Number of frames that a full transmit ring kept here at the end of the last round, and the time when the round
    /// began that received the first of them.
    unsent: u64,
    since: u64,
}

impl RoundClock {
    #[cold]
    pub(super) fn new() -> RoundClock {
        let scale = ((1_u64 << FRACTION) as f64 / clock::ticks_per_ns()) as u64;
        RoundClock { began: 0, scale, unsent: 0, since: 0 }
    }

    /// Begins the next round.
    #[inline(always)]
    pub(super) fn begin(&mut self, now: u64) {
        self.began = now;
    }

    /// Converts ticks to nanoseconds; 0 if the clock ran backwards, as it may from one core to another.
    #[inline(always)]
    fn ns(&self, from: u64, to: u64) -> u64 {
        let ticks = to.saturating_sub(from);
        ((u128::from(ticks) * u128::from(self.scale)) >> FRACTION) as u64
    }

    /// Ends a round with work, which has received that many packets and leaves `unsent` frames without room in a
    /// transmit ring.
    #[inline(always)]
    pub(super) fn end(&mut self, now: u64, received: u64, unsent: u64, meters: &Meters) {
        let ns = self.ns(self.began, now);
        meters.busy_ns.add(ns);
        if unsent | self.unsent == 0 {
            meters.round_latency.add(ns, received);
        } else {
            self.end_with_unsent(now, received, unsent, meters);
        }
    }

    /// The same if transmit rings are or were full. It assumes first in, first out, as if all ports were one queue.
    #[cold]
    #[inline(never)]
    fn end_with_unsent(&mut self, now: u64, received: u64, unsent: u64, meters: &Meters) {
        let left = (self.unsent + received).saturating_sub(unsent);
        let old = left.min(self.unsent);
        meters.round_latency.add(self.ns(self.since, now), old);
        meters.round_latency.add(self.ns(self.began, now), left - old);
        if old == self.unsent {
            self.since = self.began;
        }
        self.unsent = unsent;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a clock whose ticks are nanoseconds.
    fn clock() -> RoundClock {
        RoundClock { scale: 1 << FRACTION, ..RoundClock::new() }
    }

    /// Returns how many packets took up to 256, 512, … ns, for buckets with packets, and the sum.
    fn taken(meters: &Meters) -> (Vec<(u64, u64)>, u64) {
        let mut before = 0;
        let each = meters.round_latency.up_to().filter_map(|(bound, below)| {
            let count = below - std::mem::replace(&mut before, below);
            (count > 0).then_some((bound.unwrap_or(u64::MAX), count))
        });
        (each.collect(), meters.round_latency.sum())
    }

    #[test]
    fn each_packet_of_a_round_took_as_long_as_the_round() {
        let (mut clock, meters) = (clock(), Meters::default());
        clock.begin(1_000);
        clock.end(1_300, 32, 0, &meters);
        clock.begin(2_000);
        clock.end(3_000, 1, 0, &meters);
        assert_eq!(taken(&meters), (vec![(512, 32), (1024, 1)], 32 * 300 + 1_000));
        assert_eq!(meters.busy_ns.get(), 1_300);
    }

    #[test]
    fn what_a_full_ring_kept_counts_when_it_has_left_and_from_its_own_round_on() {
        let (mut clock, meters) = (clock(), Meters::default());
        clock.begin(0);
        clock.end(200, 10, 4, &meters);
        assert_eq!(taken(&meters), (vec![(256, 6)], 6 * 200));
        // One of the four leaves, and none of those that have come.
        clock.begin(200);
        clock.end(400, 5, 8, &meters);
        assert_eq!(taken(&meters), (vec![(256, 6), (512, 1)], 6 * 200 + 400));
        // All leave: the three of the first round and those of the second, which cannot be distinguished.
        clock.begin(400);
        clock.end(1_000, 2, 0, &meters);
        assert_eq!(
            taken(&meters),
            (vec![(256, 6), (512, 1), (1024, 10)], 6 * 200 + 400 + 8 * 1_000 + 2 * 600)
        );
        clock.begin(1_000);
        clock.end(1_100, 1, 0, &meters);
        assert_eq!(taken(&meters).0[0], (256, 7));
    }

    #[test]
    fn a_clock_that_ran_backwards_counts_nothing() {
        let (mut clock, meters) = (clock(), Meters::default());
        clock.begin(1_000);
        clock.end(900, 1, 0, &meters);
        assert_eq!((taken(&meters).1, meters.busy_ns.get()), (0, 0));
    }
}
