//! A stopwatch that stands still while the process does. COLD.
//!
//! If the machine stood still, or other processes had the cores, what is waited for stood still as well.

use std::time::{Duration, Instant};

/// The maximum time that counts between two looks, however long it really was.
pub const LATE: Duration = Duration::from_millis(100);

/// Counts the time in which it is looked at often.
#[derive(Debug)]
pub struct Stopwatch {
    /// The time of the last look.
    pub looked: Instant,
    total: Duration,
}

impl Stopwatch {
    /// Starts one at 0.
    pub fn start() -> Stopwatch {
        Stopwatch { looked: Instant::now(), total: Duration::ZERO }
    }

    /// Returns the time since the start, as far as it counts.
    pub fn look(&mut self) -> Duration {
        self.look_at(Instant::now());
        self.total
    }

    /// Looks at `now`. Returns the time since the last look, as far as it counts.
    pub fn look_at(&mut self, now: Instant) -> Duration {
        let passed = now.duration_since(std::mem::replace(&mut self.looked, now)).min(LATE);
        self.total += passed;
        passed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_which_nobody_looked_does_not_count() {
        let mut stopwatch = Stopwatch::start();
        let begun = stopwatch.looked;
        for (at, counts) in [(20, 20), (50, 30), (150, 100), (5_150, 100), (5_151, 1)] {
            assert_eq!(stopwatch.look_at(begun + Duration::from_millis(at)), Duration::from_millis(counts));
        }
        assert_eq!(stopwatch.total, Duration::from_millis(251));
    }
}
