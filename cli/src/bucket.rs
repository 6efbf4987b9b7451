//! A token bucket: some things at once, and then one in each interval.

use std::time::{Duration, Instant};

/// A limit of how often something is done.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// How often it may be done now, and the time of that number.
    left: u32,
    since: Instant,
    most: u32,
    interval: Duration,
}

impl Bucket {
    /// Allows something `most` times at once, and then once in each interval.
    pub fn new(most: u32, interval: Duration, now: Instant) -> Bucket {
        Bucket { left: most, since: now, most, interval }
    }

    /// Returns true if it may be done now, and counts it.
    pub fn take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let may = self.left > 0;
        self.left -= u32::from(may);
        may
    }

    /// Returns true if nothing was done for so long that this is as a new one.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.left == self.most
    }

    /// Returns true if it may not be done now.
    pub fn is_empty(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.left == 0
    }

    fn refill(&mut self, now: Instant) {
        let more = now.duration_since(self.since).as_nanos() / self.interval.as_nanos();
        let missing = self.most - self.left;
        if more >= u128::from(missing) {
            // Time that passes while it is full counts for nothing.
            (self.left, self.since) = (self.most, now);
        } else {
            // The part of an interval that is over counts for the next one.
            let more = more as u32;
            (self.left, self.since) = (self.left + more, self.since + self.interval * more);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_has_some_at_once_and_then_one_in_each_interval() {
        let (begun, interval) = (Instant::now(), Duration::from_secs(1));
        let mut bucket = Bucket::new(3, interval, begun);
        let mut taken = |at: Duration| (0..9).filter(|_| bucket.take(begun + at)).count();
        assert_eq!([Duration::ZERO, interval / 2, interval].map(&mut taken), [3, 0, 1]);
        assert_eq!(taken(interval * 1_000_000), 3);
        assert!(!bucket.is_full(begun + interval * 1_000_001));
        assert!(bucket.is_full(begun + interval * 1_000_003));
    }

    /// Found in a review: the part of an interval that was over was lost each time, so that something was allowed less than
    /// once in each interval.
    #[test]
    fn what_is_tried_more_often_than_once_in_an_interval_is_allowed_once_in_each() {
        let (begun, interval) = (Instant::now(), Duration::from_secs(1));
        let mut bucket = Bucket::new(3, interval, begun);
        assert_eq!((0..9).filter(|_| bucket.take(begun)).count(), 3);
        let tries = (1..=20).map(|number| begun + interval * 6 * number / 10);
        assert_eq!(tries.filter(|at| bucket.take(*at)).count(), 12, "in twelve intervals");
    }
}
