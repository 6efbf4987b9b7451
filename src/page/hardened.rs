//! COLD: what a memory has for its hardening.

use super::hardening::Hardening;
use super::random::Random;
use crate::stats::Count;
use crate::sync::shim::{Mutex, lock};
use std::collections::BTreeSet;

/// Blocks of which one is drawn at least.
const DRAWN_FROM: usize = 16;

/// What was chosen, and what that takes.
#[derive(Debug)]
pub(super) struct Hardened {
    pub(super) chosen: Hardening,
    pub(super) random: Option<Random>,
    /// Guard pages that were made, that were taken away again, and that the system refused.
    made: Count,
    gone: Count,
    refused: Count,
    /// The pages of blocks that are out which were to be inaccessible, and are not.
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

    /// Puts what comes fresh from a node into a random order, where that was chosen.
    #[inline]
    pub(super) fn shuffle(&self, numbers: &mut [u32]) {
        if let Some(random) = &self.random
            && self.chosen.random
        {
            random.shuffle(numbers);
        }
    }

    /// Blocks to take from a node at least for one that is wanted, so that there are some to draw it from.
    pub(super) fn least(&self) -> usize {
        if self.chosen.random { DRAWN_FROM } else { 1 }
    }

    /// Makes a page a guard page by `change`, or takes that away again; counts what came of it. Whether the page is as it is
    /// to be now: one that was refused when it was made is accessible, and is not changed.
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

    /// Whether the system may be asked: always, except where a test makes it refuse.
    fn granted(&self) -> bool {
        #[cfg(test)]
        return self.refusal.granted(1) == 1;
        #[cfg(not(test))]
        true
    }

    /// Guard pages now, and how many the system refused.
    pub(super) fn guards(&self) -> (u64, u64) {
        (self.made.get().wrapping_sub(self.gone.get()), self.refused.get())
    }
}
