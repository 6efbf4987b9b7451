//! COLD: the state of a memory for its hardening.

use super::hardening::Hardening;
use super::random::Random;
use crate::stats::Count;
use crate::sync::shim::{Mutex, lock};
use std::collections::BTreeSet;

/// Minimum number of blocks from which one is drawn.
const DRAWN_FROM: usize = 16;

/// The chosen hardening, and its state.
#[derive(Debug)]
pub(super) struct Hardened {
    pub(super) chosen: Hardening,
    pub(super) random: Option<Random>,
    /// Guard pages that were made, guard pages that were removed again, and changes that the system refused.
    made: Count,
    gone: Count,
    refused: Count,
    /// Pages of blocks that are out: each should have become inaccessible, but the system refused.
    open: Mutex<BTreeSet<u32>>,
    #[cfg(test)]
    pub(super) refusal: super::tests::Refusal,
}

impl Hardened {
    pub(super) fn new(chosen: Hardening) -> Hardened {
        let random = chosen.any().then(|| Random::new(chosen.seed));
        Hardened {
            chosen,
            random,
            made: Count::default(),
            gone: Count::default(),
            refused: Count::default(),
            open: Mutex::new(BTreeSet::new()),
            #[cfg(test)]
            refusal: Default::default(),
        }
    }

    /// Puts fresh blocks from a node into a random order, if that was chosen.
    #[inline]
    pub(super) fn shuffle(&self, numbers: &mut [u32]) {
        if let Some(random) = &self.random
            && self.chosen.random
        {
            random.shuffle(numbers);
        }
    }

    /// Minimum number of blocks to take from a node when one is wanted, so that one can be drawn at random.
    pub(super) fn least(&self) -> usize {
        if self.chosen.random { DRAWN_FROM } else { 1 }
    }

    /// Makes a page a guard page with `change`, or makes it accessible again. Counts the result. Returns whether the
    /// page now has the requested state. A page whose guard was refused is accessible already, and is not changed.
    pub(super) fn guard(&self, page: u32, on: bool, change: impl FnOnce() -> bool) -> bool {
        if !on && lock(&self.open).remove(&page) {
            return true;
        }
        let done = self.granted() && change();
        match (on, done) {
            (_, false) => self.refused.add_shared(1),
            (true, true) => self.made.add_shared(1),
            (false, true) => self.gone.add_shared(1),
        }
        if on && !done {
            lock(&self.open).insert(page);
        }
        done
    }

    /// Whether the system may be asked. True except when a test simulates a refusal.
    fn granted(&self) -> bool {
        #[cfg(test)]
        return self.refusal.granted(1) == 1;
        #[cfg(not(test))]
        true
    }

    /// The number of guard pages now, and how many changes the system refused.
    pub(super) fn guards(&self) -> (u64, u64) {
        (self.made.get().wrapping_sub(self.gone.get()), self.refused.get())
    }
}
