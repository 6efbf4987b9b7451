//! Counts of numbers in buckets that are the same in every run and on every machine.

use super::Count;
use std::array::from_fn;

/// Counts values in `N` buckets: up to 2^`LEAST`, up to each following power of two, and all larger values in the last
/// bucket. Written by one thread, read by any.
///
/// # Example
/// ```
/// use netmem::stats::Buckets;
///
/// // Up to 4, up to 8, and more.
/// let sizes = Buckets::<2, 3>::default();
/// assert_eq!(sizes.up_to().collect::<Vec<_>>(), [(Some(4), 0), (Some(8), 0), (None, 0)]);
/// ```
#[derive(Debug)]
pub struct Buckets<const LEAST: u32, const N: usize> {
    counts: [Count; N],
    sum: Count,
}

impl<const LEAST: u32, const N: usize> Default for Buckets<LEAST, N> {
    fn default() -> Self {
        Buckets { counts: from_fn(|_| Count::default()), sum: Count::default() }
    }
}

impl<const LEAST: u32, const N: usize> Buckets<LEAST, N> {
    /// Counts `number` `times` times. Only the one writer may call it.
    ///
    /// # Cost
    /// About a dozen instructions without a branch.
    #[inline]
    pub(crate) fn add(&self, number: u64, times: u64) {
        let bits = u64::BITS - number.saturating_sub(1).leading_zeros();
        let bucket = (bits.saturating_sub(LEAST) as usize).min(N - 1);
        self.counts[bucket].add(times);
        self.sum.add(number.wrapping_mul(times));
    }

    /// The sum of all numbers; it wraps at 2^64.
    pub fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// How many numbers were counted.
    pub fn counted(&self) -> u64 {
        self.counts.iter().map(Count::get).fold(0, u64::wrapping_add)
    }

    /// For each bucket, the largest number that falls into it, and how many numbers were no larger. The last bucket's
    /// bound is None, and its count is that of all numbers.
    pub fn up_to(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        self.counts.iter().enumerate().scan(0_u64, |below, (at, count)| {
            *below = below.wrapping_add(count.get());
            Some(((at + 1 < N).then(|| 1 << (LEAST as usize + at)), *below))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_counts_below_every_bound_that_is_not_smaller() {
        let buckets = Buckets::<2, 5>::default();
        let all = [0, 1, 3, 4, 5, 8, 9, 16, 17, 32, 33, u64::MAX >> 2];
        all.into_iter().for_each(|number| buckets.add(number, 3));
        assert_eq!((buckets.sum(), buckets.counted()), (all.iter().sum::<u64>() * 3, 3 * all.len() as u64));
        let bounds = [Some(4), Some(8), Some(16), Some(32), None];
        let below =
            |bound: Option<u64>| all.iter().filter(|&&n| bound.is_none_or(|bound| n <= bound)).count();
        let wanted: Vec<_> = bounds.into_iter().map(|bound| (bound, 3 * below(bound) as u64)).collect();
        assert_eq!(buckets.up_to().collect::<Vec<_>>(), wanted);
    }
}
