//! The most recent samples of something, for quantiles.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// Samples kept, a power of two.
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
    /// Takes one more; only the one writer may call it.
    #[inline]
    pub(crate) fn take(&self, sample: u64) {
        let counted = self.counted.load(Relaxed);
        self.recent[counted as usize & (KEPT - 1)].store(sample.min(u64::from(u32::MAX)) as u32, Relaxed);
        self.counted.store(counted + 1, Relaxed);
    }

    /// How many there were, those no longer kept too.
    pub(crate) fn counted(&self) -> u64 {
        self.counted.load(Relaxed)
    }

    /// What lies at these shares of the kept ones in order; None before the first.
    pub(crate) fn at<const N: usize>(&self, shares: [f64; N]) -> Option<[u32; N]> {
        let kept = (self.counted() as usize).min(KEPT);
        let mut recent: Vec<u32> = self.recent[..kept].iter().map(|sample| sample.load(Relaxed)).collect();
        recent.sort_unstable();
        let last = kept.checked_sub(1)? as f64;
        Some(shares.map(|share| recent[(last * share) as usize]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_most_recent_samples() {
        let samples = Samples::default();
        assert_eq!(samples.at([0.5]), None);
        (0..100).for_each(|sample| samples.take(sample));
        assert_eq!(samples.at([0.0, 0.5, 1.0]), Some([0, 49, 99]));
        (0..KEPT as u64).for_each(|_| samples.take(u64::MAX));
        assert_eq!((samples.at([0.0]), samples.counted()), (Some([u32::MAX]), 100 + KEPT as u64));
    }
}
