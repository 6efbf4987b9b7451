//! Counts of what the owner of a cache did on its hot path, which counts only the items taken.

use super::Count;

/// Items taken since the owner's last slow path. The number of items put is derived: the growth of the cache since the
/// end of that slow path, plus the number taken.
#[derive(Debug, Default)]
#[repr(C)]
pub(crate) struct Tally {
    took: u64,
    settled: usize,
}

impl Tally {
    /// Counts `n` items that were taken out.
    #[inline(always)]
    pub(crate) fn take(&mut self, n: usize) {
        self.took += n as u64;
    }

    /// Begins the slow path with `inside` items in the cache: publishes the items that the hot path took and put since
    /// the last one.
    #[inline]
    pub(crate) fn publish(&self, inside: usize, taken: &Count, put: &Count) {
        taken.add(self.took);
        put.add((inside as u64 + self.took).wrapping_sub(self.settled as u64));
    }

    /// Ends the slow path with `inside` items in the cache.
    #[inline]
    pub(crate) fn settle(&mut self, inside: usize) {
        (self.took, self.settled) = (0, inside);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_is_derived_from_what_is_inside_and_what_was_taken() {
        let (taken, put, mut tally) = (Count::default(), Count::default(), Tally::default());
        tally.settle(5);
        tally.take(7);
        // Five were inside, seven were taken, four are there: six were put.
        tally.publish(4, &taken, &put);
        tally.settle(9);
        tally.publish(9, &taken, &put);
        assert_eq!((taken.get(), put.get()), (7, 6), "what the cold half itself put is not counted");
    }
}
