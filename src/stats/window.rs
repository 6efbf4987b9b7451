//! Windows of time: the method for machines that stop without notice.
//!
//! A mean over a run is worthless if the host takes the core away for tenths of a second. So time is cut into short
//! windows. Each window gives one sample (ticks per item). Windows with a gap are discarded and counted. The result is
//! quantiles over windows.

use super::samples::Samples;
use crate::sys::clock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Number of items that close a window.
const ITEMS: u64 = 256;
/// A time between two marks longer than this many nanoseconds is a gap: no burst takes that long.
const GAP_NS: f64 = 100_000.0;

/// The 10th, 50th and 90th percentile of the windows, in nanoseconds per item.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantiles {
    /// One window in ten is faster.
    pub p10: f64,
    /// The median window.
    pub p50: f64,
    /// One window in ten is slower.
    pub p90: f64,
    /// Number of windows that count.
    pub windows: u64,
    /// Number of windows discarded because the machine stopped in them.
    pub dropped: u64,
}

/// Samples of one worker's busy windows; written by that worker, read by any thread.
#[derive(Debug, Default)]
pub struct Windows {
    /// Ticks per 256 items of each recent window.
    samples: Samples,
    dropped: AtomicU64,
}

/// A worker's state of the open window.
#[derive(Debug)]
pub struct Stopwatch {
    gap: u64,
    /// The time of the last mark; None while no window is open.
    last: Option<u64>,
    ticks: u64,
    items: u64,
}

impl Windows {
    /// Returns a stopwatch for these windows.
    pub fn stopwatch() -> Stopwatch {
        Stopwatch { gap: (GAP_NS * clock::ticks_per_ns()) as u64, last: None, ticks: 0, items: 0 }
    }

    /// Records that the time since the last mark was work, in which `items` were done (0 if the work was for earlier
    /// items). None means that the time was idle and does not count. `now` is the clock.
    #[inline]
    pub(crate) fn mark(&self, watch: &mut Stopwatch, now: u64, items: Option<u64>) {
        let Some(last) = watch.last.replace(now) else { return };
        let Some(items) = items else { return };
        let ticks = now.wrapping_sub(last);
        if ticks > watch.gap {
            self.dropped.store(self.dropped.load(Relaxed) + 1, Relaxed);
            (watch.ticks, watch.items) = (0, 0);
            return;
        }
        watch.ticks += ticks;
        watch.items += items;
        if watch.items >= ITEMS {
            self.close(watch);
        }
    }

    fn close(&self, watch: &mut Stopwatch) {
        self.samples.take(watch.ticks * ITEMS / watch.items);
        (watch.ticks, watch.items) = (0, 0);
    }

    /// The quantiles over the most recent windows; None before the first has closed.
    pub fn quantiles(&self) -> Option<Quantiles> {
        Windows::quantiles_of_all([self].into_iter())
    }

    /// The quantiles over the most recent windows of several workers, with equal weight for each window. None before
    /// the first has closed.
    pub fn quantiles_of_all<'a>(all: impl Iterator<Item = &'a Windows> + Clone) -> Option<Quantiles> {
        let ns = |sample| f64::from(sample) / ITEMS as f64 / clock::ticks_per_ns();
        let samples = all.clone().map(|one| &one.samples);
        let [p10, p50, p90] = Samples::at_of_all(samples.clone(), [0.1, 0.5, 0.9])?.map(ns);
        Some(Quantiles {
            p10,
            p50,
            p90,
            windows: samples.map(Samples::counted).sum(),
            dropped: all.map(|one| one.dropped.load(Relaxed)).sum(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_drops_its_window_and_moves_no_quantile() {
        let windows = Windows::default();
        let mut watch = Windows::stopwatch();
        let per_item = clock::ticks_per_ns() * 50.0;
        let mut now = 1_000_000;
        windows.mark(&mut watch, now, None);
        for round in 0..200 {
            now += (32.0 * per_item) as u64;
            if round % 50 == 49 {
                now += (1e9 * clock::ticks_per_ns()) as u64;
            }
            windows.mark(&mut watch, now, Some(32));
        }
        let q = windows.quantiles().unwrap();
        assert_eq!(q.dropped, 4);
        assert!(q.windows >= 20);
        assert!((q.p50 - 50.0).abs() < 1.0 && (q.p90 - 50.0).abs() < 1.0, "{q:?}");
    }

    #[test]
    fn work_for_earlier_items_counts_as_time_of_theirs() {
        let windows = Windows::default();
        let mut watch = Windows::stopwatch();
        for round in 0..64 {
            windows.mark(&mut watch, round * 1_000, Some(if round % 2 == 0 { 0 } else { 32 }));
        }
        let q = windows.quantiles().unwrap();
        assert!((q.p50 * clock::ticks_per_ns() - 2_000.0 / 32.0).abs() < 2.0, "{q:?}");
    }

    #[test]
    fn idle_time_does_not_count() {
        let windows = Windows::default();
        let mut watch = Windows::stopwatch();
        let mut now = 0;
        for round in 0..64 {
            now += 1_000;
            windows.mark(&mut watch, now, (round % 2 == 1).then_some(32));
        }
        let q = windows.quantiles().unwrap();
        assert!((q.p50 * clock::ticks_per_ns() - 1_000.0 / 32.0).abs() < 1.0, "{q:?}");
    }
}
