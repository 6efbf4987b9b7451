//! The number of frames of a pool: page_pool's hold and release counters.

use crate::sync::shim::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

/// The frames that came into the pool with their pages and have not left with them, in every state.
///
/// Conservation: the difference of the two counters is the ledger's total.
#[derive(Debug)]
pub(crate) struct Inflight {
    hold: AtomicU64,
    release: AtomicU64,
}

impl Inflight {
    /// Makes the counters of a pool without frames.
    pub(crate) fn new() -> Inflight {
        Inflight { hold: AtomicU64::new(0), release: AtomicU64::new(0) }
    }

    /// Sets both counters of a pool without frames.
    #[cfg(test)]
    pub(crate) fn start_at(&self, count: u64) {
        self.hold.store(count, Relaxed);
        self.release.store(count, Relaxed);
    }

    /// Counts `n` frames that came.
    pub(crate) fn hold(&self, n: u32) {
        self.hold.fetch_add(n.into(), Relaxed);
    }

    /// Counts `n` frames that went.
    pub(crate) fn release(&self, n: u32) {
        self.release.fetch_add(n.into(), Relaxed);
    }

    /// The frames that went so far.
    pub(crate) fn released(&self) -> u64 {
        self.release.load(Relaxed)
    }

    /// The number of frames, as the signed difference. A reading while frames come or go may be a moment old.
    pub(crate) fn frames(&self) -> i32 {
        // The released ones are read first, so that a frame that comes in between cannot seem to be missing.
        let release = self.release.load(Relaxed);
        self.hold.load(Relaxed).wrapping_sub(release) as i32
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_difference_is_right_however_many_came_and_went() {
        for start in [0, (1 << 31) - 5, u64::from(u32::MAX) - 4, u64::MAX - 4] {
            let inflight = Inflight::new();
            inflight.start_at(start);
            inflight.hold(10);
            assert_eq!(inflight.frames(), 10, "from {start}");
            inflight.release(3);
            inflight.release(7);
            assert_eq!(inflight.released(), start.wrapping_add(10), "it does not begin again at 2^32");
            assert_eq!(inflight.frames(), 0, "from {start}");
            inflight.release(1);
            assert_eq!(inflight.frames(), -1, "one too many shows as such");
        }
    }
}
