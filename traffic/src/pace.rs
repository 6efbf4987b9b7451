//! Decides when the next packets are due.

use std::time::Duration;

/// A token bucket with one token for each packet. It fills at the rate, and holds the tokens of a millisecond (64
/// at least). So after a pause the missed packets are sent in a burst of that size at most. The rest is never sent,
/// and [`Missed`] counts it.
///
/// Times are nanoseconds of any monotonic clock.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Packets per second, or None for as many as there is room for.
    rate: Option<u64>,
    /// Tokens, in packets times 10^9. This is the unit of `rate` times nanoseconds.
    tokens: u128,
    last: u64,
    /// Why due packets were not sent since the last call of [`due`](Self::due).
    cause: Cause,
    /// Tokens that the bucket could not hold, by cause.
    lost: [u128; 3],
}

/// Why packets that were due were not sent.
#[derive(Debug, Clone, Copy)]
enum Cause {
    Behind,
    NoRoom,
    PortDown,
}

/// Packets that were due and never sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Missed {
    /// Packets for which the port had no room.
    pub no_room: u64,
    /// Packets that were not asked for in time: the sender did not run, or is slower than the rate.
    pub behind: u64,
    /// Packets that were due while the port was down.
    pub port_down: u64,
}

/// Nanoseconds of a second, and parts of a token.
const SECOND: u128 = 1_000_000_000;

impl Pace {
    /// Starts at `now` with this many packets per second, the first of them at once. None is no limit, and a rate
    /// of 0 counts as 1.
    pub fn new(rate: Option<u64>, now: u64) -> Self {
        let rate = rate.map(|rate| rate.max(1));
        Pace { rate, tokens: SECOND, last: now, cause: Cause::Behind, lost: [0; 3] }
    }

    /// Returns the number of packets that may be sent at `now`.
    #[inline]
    pub fn due(&mut self, now: u64) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        let rate = u128::from(rate);
        let most = (rate / 1000).max(64) * SECOND;
        let since = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        let tokens = self.tokens + rate * u128::from(since);
        self.lost[self.cause as usize] += tokens.saturating_sub(most);
        self.cause = Cause::Behind;
        self.tokens = tokens.min(most);
        (self.tokens / SECOND) as u64
    }

    /// Records that `n` of the due packets were sent.
    #[inline]
    pub fn sent(&mut self, n: u64) {
        self.tokens = self.tokens.saturating_sub(u128::from(n) * SECOND);
    }

    /// Records that due packets were offered and the port had no room for them.
    #[inline]
    pub fn stayed(&mut self) {
        self.cause = Cause::NoRoom;
    }

    /// Records that due packets were offered and the port was down.
    pub fn port_down(&mut self) {
        self.cause = Cause::PortDown;
    }

    /// Returns the packets that were due and never sent, up to the last call of [`due`](Self::due).
    pub fn missed(&self) -> Missed {
        let of = |cause: Cause| (self.lost[cause as usize] / SECOND) as u64;
        Missed { no_room: of(Cause::NoRoom), behind: of(Cause::Behind), port_down: of(Cause::PortDown) }
    }

    /// Returns the time from the last call of [`due`](Self::due) until the next packet is due, or zero if one is
    /// due.
    pub fn wait(&self) -> Duration {
        let missing = SECOND.saturating_sub(self.tokens);
        let ns = self.rate.map_or(0, |rate| missing.div_ceil(u128::from(rate)));
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_brings_as_many_as_the_rate_however_often_one_looks() {
        for (rate, step) in
            [(1, 1_000_000), (3, 7_000_000), (1000, 1000), (1_000_000, 10_000), (7_777_777, 333)]
        {
            let mut pace = Pace::new(Some(rate), 5);
            let mut sent = 0;
            for now in (5..=1_000_000_005_u64).step_by(step) {
                let due = pace.due(now);
                pace.sent(due);
                sent += due;
                assert_eq!(sent, 1 + rate * (now - 5) / 1_000_000_000, "at {rate} a second");
            }
        }
    }

    #[test]
    fn after_a_pause_a_millisecond_is_made_up_for_and_no_more() {
        let mut pace = Pace::new(Some(1_000_000), 0);
        assert_eq!([pace.due(0), pace.due(500_000), pace.due(60_000_000_000)], [1, 501, 1000]);
        let mut slow = Pace::new(Some(10), 0);
        assert_eq!(slow.due(3_600_000_000_000), 64);
    }

    #[test]
    fn packets_that_a_pause_or_a_port_that_is_full_or_down_prevents_are_counted() {
        let mut pace = Pace::new(Some(1_000_000), 0);
        assert_eq!((pace.due(1_000_000), pace.missed()), (1000, Missed { behind: 1, ..Missed::default() }));
        pace.sent(400);
        pace.stayed();
        assert_eq!((pace.due(1_500_000), pace.missed().no_room), (1000, 100));
        assert_eq!(
            (pace.due(1_501_000), pace.missed()),
            (1000, Missed { no_room: 100, behind: 2, port_down: 0 })
        );
        pace.sent(1000);
        pace.port_down();
        assert_eq!((pace.due(4_501_000), pace.missed().port_down), (1000, 2000));
        pace.sent(1000);
        let missed = pace.missed();
        let Missed { no_room, behind, port_down } = missed;
        assert_eq!(2400 + no_room + behind + port_down, 1 + 4_501, "all that were due");
        let mut unpaced = Pace::new(None, 0);
        unpaced.stayed();
        assert_eq!((unpaced.due(1 << 60), unpaced.missed()), (u64::MAX, Missed::default()));
    }

    #[test]
    fn the_wait_ends_when_one_is_due_and_not_before() {
        let mut pace = Pace::new(Some(300), 0);
        pace.sent(pace.clone().due(0));
        let wait = pace.wait().as_nanos() as u64;
        assert_eq!([pace.due(wait - 1), pace.due(wait)], [0, 1]);
        assert_eq!((pace.wait(), Pace::new(None, 0).wait()), (Duration::ZERO, Duration::ZERO));
    }

    #[test]
    fn without_a_rate_as_many_are_due_as_anyone_can_send() {
        let mut pace = Pace::new(None, 0);
        pace.sent(1 << 40);
        assert_eq!(pace.due(0), u64::MAX);
    }

    #[test]
    fn a_clock_that_goes_backward_takes_nothing_away() {
        let mut pace = Pace::new(Some(1_000_000), 1_000_000);
        assert_eq!([pace.due(1_100_000), pace.due(0), pace.due(1_100_000)], [101, 101, 101]);
    }
}
