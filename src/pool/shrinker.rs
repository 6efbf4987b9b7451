//! Shrinkers keep a pool's frames ready beside the pool, and give them back when the pool runs dry.

use crate::sync::shim::{Mutex, lock};
use crate::sync::{Steps, Worker};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};

/// Keeps unused frames of a pool ready, and gives them back when the pool asks; the pool asks before an allocation
/// fails.
///
/// All methods are called when no lock is held and no slot is entered, so they may allocate and free.
pub trait Shrinker: Send + Sync {
    /// Gives back to the pool those of its frames that the caller's worker can reach. Returns the number of frames.
    fn relieve(&self, w: &mut Worker) -> usize;

    /// The number of frames of the pool that it keeps now: the ledger's `ready`.
    fn ready(&self) -> u64;

    /// Calls `found` for each frame of the pool that it keeps now, once, with the [`Frame::id`](super::Frame::id). The
    /// ledger compares this with [`Shrinker::ready`]: a pool is not [balanced](super::Ledger::balanced) while the two
    /// differ.
    fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32));

    /// Called when the pool closes: gives back the frames that it can reach, and keeps none from now on.
    fn close(&self);
}

/// The shrinkers to ask, oldest first.
#[derive(Default)]
pub(crate) struct Shrinkers(Mutex<Vec<Weak<dyn Shrinker>>>);

impl Shrinkers {
    /// Adds a shrinker. Forgets shrinkers that are gone.
    pub(super) fn add(&self, shrinker: Weak<dyn Shrinker>) {
        let mut shrinkers = lock(&self.0);
        shrinkers.retain(|shrinker| shrinker.strong_count() > 0);
        shrinkers.push(shrinker);
    }

    /// The shrinkers that still exist, to be called without the lock.
    fn alive(&self) -> Vec<Arc<dyn Shrinker>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }

    /// Tells all of them that the pool closes, even if some of them panic.
    pub(super) fn close(&self, steps: &mut Steps) {
        for shrinker in self.alive() {
            steps.run(|| {
                shrinker.close();
                // This may be the last reference to it.
                drop(shrinker);
            });
        }
    }

    /// Asks one shrinker after the other until frames came back. Returns how many.
    #[cold]
    pub(super) fn relieve(&self, w: &mut Worker) -> usize {
        self.alive().iter().map(|shrinker| shrinker.relieve(w)).find(|&n| n > 0).unwrap_or(0)
    }

    /// The frames that they keep, as far as they report them.
    pub(super) fn frames(&self) -> BTreeSet<NonZeroU32> {
        let mut frames = BTreeSet::new();
        self.alive().iter().for_each(|shrinker| {
            shrinker.each_ready(&mut |id| {
                frames.insert(id);
            });
        });
        frames
    }

    /// The number of frames of a pool that they report, and the number that they name. `is_own` tells whether a number
    /// is a frame of the pool. The shrinkers are called without a lock.
    pub(super) fn kept(&self, is_own: impl Fn(u32) -> bool) -> Kept {
        let (mut said, mut names, mut named) = (0_u64, 0, BTreeSet::new());
        for shrinker in self.alive() {
            said = said.saturating_add(shrinker.ready());
            shrinker.each_ready(&mut |id| {
                names += 1;
                if is_own(id.get()) {
                    named.insert(id);
                }
            });
        }
        Kept { said, names, named: named.len() as u64 }
    }
}

/// The reports of the shrinkers of a pool.
pub(super) struct Kept {
    /// The number of frames that they report.
    pub(super) said: u64,
    /// The number of names that they gave.
    names: u64,
    /// Different frames of the pool among those names.
    pub(super) named: u64,
}

impl Kept {
    /// The difference between the reported and the named frames.
    pub(super) fn miscounted(&self) -> u64 {
        self.said.abs_diff(self.named).saturating_add(self.names - self.named)
    }
}

impl std::fmt::Debug for Shrinkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Shrinkers").field(&lock(&self.0).len()).finish()
    }
}
