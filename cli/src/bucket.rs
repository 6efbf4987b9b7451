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

    fn refill(&mut self, now: Instant) {
        let more = now.duration_since(self.since).as_nanos() / self.interval.as_nanos();
        if more > 0 {
            let left = u128::from(self.left).saturating_add(more).min(u128::from(self.most));
            (self.left, self.since) = (left as u32, now);
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
}
