//! The median of a few dozen round ratios, and how far it may be trusted.

use super::quantile::{median, of_sorted};
use super::random::Random;

/// Samples drawn with replacement for one interval.
const RESAMPLES: usize = 1_000;

/// Ratios below which no interval is believed.
const ROUNDS_MIN: usize = 5;

/// A median with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The median of the values.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Values behind it.
    pub count: usize,
}

impl Interval {
    /// The bootstrap interval of the median of `values` (percentile method, Efron 1979); `None` of an empty
    /// sample. The same seed gives the same interval.
    pub fn of_median(values: &[f64], seed: u64) -> Option<Self> {
        let mut random = Random::new(seed);
        let mut draw = vec![0.0; values.len()];
        let mut medians = Vec::with_capacity(RESAMPLES);
        for _ in 0..RESAMPLES {
            draw.fill_with(|| values[random.below(values.len())]);
            medians.push(median(&draw)?);
        }
        medians.sort_unstable_by(f64::total_cmp);
        Some(Self {
            median: median(values)?,
            low: of_sorted(&medians, 0.025)?,
            high: of_sorted(&medians, 0.975)?,
            count: values.len(),
        })
    }

    /// True if the half-width is at most `share` of the median and enough rounds stand behind it.
    pub fn decided(&self, share: f64) -> bool {
        self.count >= ROUNDS_MIN && (self.high - self.low) / 2.0 <= share * self.median
    }

    /// The same interval of the inverted ratios.
    pub fn inverted(self) -> Self {
        Self { median: 1.0 / self.median, low: 1.0 / self.high, high: 1.0 / self.low, count: self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around `centre` with a long upper tail, as ratios on a shared machine have.
    fn noisy(random: &mut Random, centre: f64, count: usize) -> Vec<f64> {
        let mut value = || {
            let noise = random.below(1_000) as f64 / 1_000.0 - 0.5;
            let tail = if random.below(20) == 0 { 3.0 } else { 0.0 };
            centre * (1.0 + 0.1 * noise) + if noise > 0.0 { tail } else { 0.0 }
        };
        (0..count).map(|_| value()).collect()
    }

    #[test]
    fn the_interval_covers_a_known_median_nearly_always() {
        let mut random = Random::new(11);
        let covered = (0..200)
            .filter(|&seed| {
                let interval = Interval::of_median(&noisy(&mut random, 2.0, 41), seed).unwrap();
                interval.low <= 2.0 && 2.0 <= interval.high
            })
            .count();
        assert!(covered >= 180, "covered the true median in {covered} of 200 samples");
    }

    #[test]
    fn more_rounds_give_a_narrower_interval() {
        let mut random = Random::new(5);
        let few = Interval::of_median(&noisy(&mut random, 1.0, 11), 1).unwrap();
        let many = Interval::of_median(&noisy(&mut random, 1.0, 401), 1).unwrap();
        assert!(many.high - many.low < few.high - few.low, "{few:?} {many:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_interval() {
        let values = noisy(&mut Random::new(3), 1.0, 21);
        assert_eq!(Interval::of_median(&values, 9), Interval::of_median(&values, 9));
    }

    #[test]
    fn a_wide_interval_or_too_few_rounds_are_undecided() {
        let interval = Interval { median: 1.0, low: 0.96, high: 1.04, count: 21 };
        assert!(interval.decided(0.05));
        assert!(!interval.decided(0.03));
        assert!(!Interval { count: 4, ..interval }.decided(0.05));
    }

    #[test]
    fn an_empty_sample_has_no_interval() {
        assert_eq!(Interval::of_median(&[], 1), None);
    }

    #[test]
    fn inversion_swaps_the_ends() {
        let inverted = Interval { median: 2.0, low: 1.0, high: 4.0, count: 9 }.inverted();
        assert_eq!((inverted.median, inverted.low, inverted.high), (0.5, 0.25, 1.0));
    }
}
