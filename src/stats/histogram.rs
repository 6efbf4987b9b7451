//! A histogram of numbers of any size. No bucket is wider than a thirty-second of the numbers that fall into it.

/// Number of bits below a number's highest bit that distinguish buckets.
const BITS: u32 = 5;
/// Buckets between two powers of two.
const STEPS: u64 = 1 << BITS;
/// Number of buckets for all 64-bit numbers: those below [`STEPS`] have one each, and each power of two above has that
/// many.
const BUCKETS: usize = ((64 - BITS + 1) as usize) << BITS;

/// Counts values with a relative error of 1/32; the largest and the smallest value are exact.
#[derive(Debug, Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    counted: u64,
    least: u64,
    most: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: Box::new([0; BUCKETS]), counted: 0, least: u64::MAX, most: 0 }
    }
}

impl Histogram {
    /// Counts one number.
    ///
    /// # Cost
    /// A few instructions and one line of 15 KiB.
    #[inline]
    pub fn add(&mut self, number: u64) {
        self.counts[bucket(number)] += 1;
        self.counted += 1;
        self.least = self.least.min(number);
        self.most = self.most.max(number);
    }

    /// How many numbers were counted.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// The smallest number; None before the first.
    pub fn least(&self) -> Option<u64> {
        (self.counted > 0).then_some(self.least)
    }

    /// The largest number; None before the first.
    pub fn most(&self) -> Option<u64> {
        (self.counted > 0).then_some(self.most)
    }

    /// The smallest bound that at least `share` (0 to 1) of all numbers do not exceed, as the upper end of its bucket.
    /// None before the first.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        let wanted = ((self.counted as f64 * share.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut below = 0;
        let at = self.counts.iter().position(|&count| {
            below += count;
            below >= wanted
        });
        at.map(|at| last_of(at).clamp(self.least, self.most))
    }

    /// The buckets that are not empty, from small to large: the largest number that falls into each, and how many did.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(at, &count)| (last_of(at), count))
    }
}

/// The bucket of a number.
#[inline]
fn bucket(number: u64) -> usize {
    if number < STEPS {
        return number as usize;
    }
    let shift = number.ilog2() - BITS;
    // The highest bit and the five below it. The highest one moves on to the next power's buckets.
    ((u64::from(shift) << BITS) + (number >> shift)) as usize
}

/// The largest number of a bucket.
fn last_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    let first = (STEPS + bucket % STEPS) << shift;
    first + ((1 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_bucket_ends_where_the_next_begins_up_to_the_largest_number() {
        for at in 0..BUCKETS {
            let last = last_of(at);
            assert_eq!(bucket(last), at);
            match last.checked_add(1) {
                Some(next) => assert_eq!(bucket(next), at + 1),
                None => assert_eq!(at, BUCKETS - 1),
            }
        }
    }

    #[test]
    fn an_empty_histogram_has_no_quantiles_and_one_number_is_all_of_them() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile(0.5), histogram.least(), histogram.most()), (None, None, None));
        histogram.add(1_000_003);
        for share in [0.0, 0.5, 1.0] {
            assert_eq!(histogram.quantile(share), Some(1_000_003));
        }
        assert_eq!(histogram.buckets().map(|(_, count)| count).collect::<Vec<_>>(), [1]);
    }

    proptest! {
        #[test]
        fn a_quantile_is_that_of_the_sorted_numbers_or_a_thirty_second_more(
            mut numbers in prop::collection::vec(prop_oneof![0_u64..100, any::<u32>().prop_map(u64::from), any::<u64>()], 1..300),
            share in 0.0..=1.0_f64,
        ) {
            let mut histogram = Histogram::default();
            numbers.iter().for_each(|&number| histogram.add(number));
            numbers.sort_unstable();
            let rank = ((numbers.len() as f64 * share).ceil() as usize).max(1);
            let (exact, told) = (numbers[rank - 1], histogram.quantile(share).unwrap());
            prop_assert!(told >= exact && told - exact <= exact / 32, "{told} for {exact}");
            prop_assert_eq!(histogram.least(), numbers.first().copied());
            prop_assert_eq!(histogram.most(), numbers.last().copied());
            prop_assert_eq!(histogram.buckets().map(|(_, count)| count).sum::<u64>(), histogram.counted());
        }
    }
}
