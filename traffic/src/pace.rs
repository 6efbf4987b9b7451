//! When the next packets are due.

use std::time::Duration;

/// A bucket of tokens, one for each packet: it fills at the rate, and holds a millisecond's worth (64 at least), so after
/// a pause what was missed goes out in a burst no longer than that, and the rest of it never.
///
/// Times are nanoseconds of any clock that does not go backward.
#[derive(Debug, Clone)]
pub struct Pace {
    /// Packets per second; None as many as there is room for.
    rate: Option<u64>,
    /// Tokens, in packets times 10^9: what `rate` times nanoseconds is.
    tokens: u128,
    last: u64,
}

/// Nanoseconds of a second, and parts of a token.
const SECOND: u128 = 1_000_000_000;

impl Pace {
    /// So many packets per second from `now` on, the first of them at once; None for no limit, and a rate of 0 is as 1.
    pub fn new(rate: Option<u64>, now: u64) -> Self {
        Pace { rate: rate.map(|rate| rate.max(1)), tokens: SECOND, last: now }
    }

    /// Packets that may be sent `now`.
    #[inline]
    pub fn due(&mut self, now: u64) -> u64 {
        let Some(rate) = self.rate else { return u64::MAX };
        let rate = u128::from(rate);
        let most = (rate / 1000).max(64) * SECOND;
        let since = now.saturating_sub(self.last);
        self.last = self.last.max(now);
        self.tokens = (self.tokens + rate * u128::from(since)).min(most);
        (self.tokens / SECOND) as u64
    }

    /// `n` were sent, of those that were due.
    #[inline]
    pub fn sent(&mut self, n: u64) {
        self.tokens = self.tokens.saturating_sub(u128::from(n) * SECOND);
    }

    /// How long after the last look the next one is due; zero if one is.
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
