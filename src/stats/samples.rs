//! The most recent samples of a quantity, for quantiles.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Number of samples kept, a power of two.
const KEPT: usize = 1 << 12;

/// The most recent 4,096 samples; written by one thread, read by any.
#[derive(Debug)]
pub(crate) struct Samples {
    recent: Box<[AtomicU32]>,
    counted: AtomicU64,
}

impl Default for Samples {
    fn default() -> Self {
        Samples { recent: (0..KEPT).map(|_| AtomicU32::new(0)).collect(), counted: AtomicU64::new(0) }
    }
}

impl Samples {
    /// Adds a sample. Only the one writer may call it.
    #[inline]
    pub(crate) fn take(&self, sample: u64) {
        let counted = self.counted.load(Relaxed);
        self.recent[counted as usize & (KEPT - 1)].store(sample.min(u64::from(u32::MAX)) as u32, Relaxed);
        self.counted.store(counted + 1, Relaxed);
    }

    /// Number of samples added, including those no longer kept.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Relaxed)
    }

    /// The kept samples at these shares of their sorted order; None before the first.
    pub(crate) fn at<const N: usize>(&self, shares: [f64; N]) -> Option<[u32; N]> {
        Samples::at_of_all([self].into_iter(), shares)
    }

    /// As [`Samples::at`], over the kept samples of all together.
    pub(crate) fn at_of_all<'a, const N: usize>(
        all: impl Iterator<Item = &'a Samples>,
        shares: [f64; N],
    ) -> Option<[u32; N]> {
        let mut recent: Vec<u32> = Vec::new();
        for one in all {
            let kept = (one.counted() as usize).min(KEPT);
            recent.extend(one.recent[..kept].iter().map(|sample| sample.load(Relaxed)));
        }
        recent.sort_unstable();
        let last = recent.len().checked_sub(1)? as f64;
        Some(shares.map(|share| recent[(last * share) as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_most_recent_samples() {
        let (samples, others) = (Samples::default(), Samples::default());
        assert_eq!(samples.at([0.5]), None);
        (0..100).for_each(|sample| samples.take(sample));
        assert_eq!(samples.at([0.0, 0.5, 1.0]), Some([0, 49, 99]));
        (100..200).for_each(|sample| others.take(sample));
        assert_eq!(Samples::at_of_all([&samples, &others].into_iter(), [0.0, 0.5, 1.0]), Some([0, 99, 199]));
        (0..KEPT as u64).for_each(|_| samples.take(u64::MAX));
        assert_eq!((samples.at([0.0]), samples.counted()), (Some([u32::MAX]), 100 + KEPT as u64));
    }
}
