//! The time that the machine takes away: gaps in which this process does not run. No clock of its own shows them.

use serde::{Deserialize, Serialize};

use super::clock::Clock;

/// If two neighbouring readings of the clock differ by more than this, there was a pause between them. It is a
/// hundred times the duration of a timer interrupt.
const GAP_NS: f64 = 20_000.0;

/// The watched time, and the part of it that was lost, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gaps {
    /// The watched time, lost or not.
    pub watched: u64,
    /// The time lost to pauses.
    pub lost: u64,
    /// The longest pause.
    pub longest: u64,
}

impl Gaps {
    /// Reads the clock repeatedly for at least `ns` nanoseconds, and does nothing else.
    pub fn watch(clock: &impl Clock, ns: f64) -> Self {
        let [wanted, gap] = [ns, GAP_NS].map(|ns| (ns * clock.ticks_per_ns()) as u64);
        let mut gaps = Self::default();
        let mut before = clock.ticks();
        while gaps.watched < wanted {
            let now = clock.ticks();
            let step = now.wrapping_sub(before);
            before = now;
            gaps.spend(step, if step > gap { step } else { 0 });
        }
        gaps
    }

    /// Adds `watched` ticks, of which one pause took `lost`.
    pub fn spend(&mut self, watched: u64, lost: u64) {
        self.watched += watched;
        self.lost += lost;
        self.longest = self.longest.max(lost);
    }

    /// Adds the times of `other`.
    pub fn add(&mut self, other: Self) {
        self.watched += other.watched;
        self.lost += other.lost;
        self.longest = self.longest.max(other.longest);
    }

    /// Returns the lost share, times 100, or `None` if nothing was watched.
    pub fn percent(&self) -> Option<f64> {
        (self.watched > 0).then(|| 100.0 * self.lost as f64 / self.watched as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::clock::tests::Scripted;

    #[test]
    fn a_gap_between_two_readings_is_time_lost_and_a_short_step_is_not() {
        // Two ticks a nanosecond: 20 µs are 40,000 ticks.
        let steps = [40_000, 40_001, 100, 100_000];
        let gaps = Gaps::watch(&Scripted::new(&steps), 90_000.0);
        assert_eq!(gaps, Gaps { watched: 180_101, lost: 140_001, longest: 100_000 });
        assert_eq!(gaps.percent().map(f64::round), Some(78.0));
    }

    #[test]
    fn the_gaps_of_two_runs_are_added() {
        let mut gaps = Gaps { watched: 100, lost: 10, longest: 10 };
        gaps.add(Gaps { watched: 300, lost: 30, longest: 5 });
        assert_eq!((gaps.percent(), gaps.longest), (Some(10.0), 10));
        assert_eq!(Gaps::default().percent(), None);
    }
}
