//! Those who keep a pool's frames ready beside it, and give them back when it runs dry.

use crate::sync::shim::{Mutex, lock};
use crate::sync::{Steps, Worker};
use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::sync::{Arc, Weak};

/// Keeps unused frames of a pool ready, and gives them back when the pool asks; the pool asks before an allocation
/// fails.
///
/// All are called inside of nothing: no lock is held and no slot entered, so they may allocate and free.
pub trait Shrinker: Send + Sync {
    /// Gives back, to the pool, what of its frames the caller's worker can reach; returns how many frames that are.
    fn relieve(&self, w: &mut Worker) -> usize;

    /// Frames of the pool that it keeps now: the ledger's `ready`.
    fn ready(&self) -> u64;

    /// Names the frames of the pool that it keeps now, each once, by [`Frame::id`](super::Frame::id). The ledger holds [`Shrinker::ready`] against
    /// it: a pool is not [balanced](super::Ledger::balanced) while the two differ.
    fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32));

    /// The pool closes: gives back what it can reach, and keeps nothing from now on.
    fn close(&self);
}

/// Who is to be asked, oldest first.
#[derive(Default)]
pub(crate) struct Shrinkers(Mutex<Vec<Weak<dyn Shrinker>>>);

impl Shrinkers {
    /// One more; those that are gone are forgotten.
    pub(super) fn add(&self, shrinker: Weak<dyn Shrinker>) {
        let mut shrinkers = lock(&self.0);
        shrinkers.retain(|shrinker| shrinker.strong_count() > 0);
        shrinkers.push(shrinker);
    }

    /// Those that are there, to be called without the lock.
    fn alive(&self) -> Vec<Arc<dyn Shrinker>> {
        lock(&self.0).iter().filter_map(Weak::upgrade).collect()
    }

    /// Tells them that the pool closes, whichever panics.
    pub(super) fn close(&self, steps: &mut Steps) {
        for shrinker in self.alive() {
            steps.run(|| {
                shrinker.close();
                // This may be the last that holds it.
                drop(shrinker);
            });
        }
    }

    /// Asks one shrinker after the other until frames came back; returns how many.
    #[cold]
    pub(super) fn relieve(&self, w: &mut Worker) -> usize {
        self.alive().iter().map(|shrinker| shrinker.relieve(w)).find(|&n| n > 0).unwrap_or(0)
    }

    /// Which frames they keep, as far as they say it.
    pub(super) fn frames(&self) -> BTreeSet<NonZeroU32> {
        let mut frames = BTreeSet::new();
        self.alive().iter().for_each(|shrinker| {
            shrinker.each_ready(&mut |id| {
                frames.insert(id);
            });
        });
        frames
    }

    /// How many frames of a pool they say that they keep, and how many they name; `is_own` says of a number whether it is one of the pool's. The shrinkers are called without a lock.
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

/// What those who keep frames of a pool ready say of it.
pub(super) struct Kept {
    /// How many frames they say.
    pub(super) said: u64,
    /// How many names they gave.
    names: u64,
    /// Different frames of the pool among those names.
    pub(super) named: u64,
}

impl Kept {
    /// By how many frames what is said and what is named differ.
    pub(super) fn astray(&self) -> u64 {
        self.said.abs_diff(self.named).saturating_add(self.names - self.named)
    }
}

impl std::fmt::Debug for Shrinkers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Shrinkers").field(&lock(&self.0).len()).finish()
    }
}
