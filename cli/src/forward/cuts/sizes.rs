//! The frequency of sizes, in buckets up to powers of two, as in a Prometheus histogram.

use netmem::stats::Buckets;

/// Number of buckets: 0, 1, 2, 4, … 65,536, and everything larger.
const BUCKETS: usize = 19;

/// The number of sizes that were not larger than each bound, and the sum of the sizes. The last bound is None and
/// covers all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counted {
    pub up_to: Vec<(Option<u64>, u64)>,
    pub sum: u64,
}

impl Counted {
    /// Reads the current counts of buckets. Only their one writer may call this.
    pub fn of<const LEAST: u32, const N: usize>(buckets: &Buckets<LEAST, N>) -> Counted {
        Counted { up_to: buckets.up_to().collect(), sum: buckets.sum() }
    }
}

/// The frequency of sampled sizes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    counts: [u64; BUCKETS],
    sum: u64,
}

impl Sizes {
    /// Counts one size.
    pub fn add(&mut self, size: usize) {
        let bucket = match size {
            0 => 0,
            _ => 1 + size.next_power_of_two().trailing_zeros() as usize,
        };
        self.counts[bucket.min(BUCKETS - 1)] += 1;
        self.sum += size as u64;
    }

    /// Returns the current counts.
    pub fn counted(&self) -> Counted {
        Counted { up_to: self.up_to().collect(), sum: self.sum }
    }

    fn up_to(&self) -> impl Iterator<Item = (Option<u64>, u64)> + '_ {
        let bound = |at: usize| match at {
            0 => Some(0),
            at if at == BUCKETS - 1 => None,
            at => Some(1 << (at - 1)),
        };
        self.counts.iter().enumerate().scan(0, move |below, (at, count)| {
            *below += count;
            Some((bound(at), *below))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_counts_below_every_bound_that_is_not_smaller() {
        let mut sizes = Sizes::default();
        let all = [0, 1, 2, 3, 4, 5, 64, 65, 65_536, 65_537, 1 << 20];
        all.into_iter().for_each(|size| sizes.add(size));
        assert_eq!(sizes.counted().sum, all.iter().sum::<usize>() as u64);
        for (bound, count) in sizes.up_to() {
            let below = all.iter().filter(|&&size| bound.is_none_or(|bound| size as u64 <= bound)).count();
            assert_eq!(count, below as u64, "{bound:?}");
        }
        assert_eq!(sizes.up_to().count(), BUCKETS);
        assert_eq!(sizes.up_to().filter(|(bound, _)| bound.is_none()).count(), 1);
    }
}
