//! The heads of one memory as all workers see them: the cache, the workers' arrays and their inboxes.

use super::config::{HeadCacheConfig, HeadCacheError, HeadCacheMode, TUNABLES, check};
use super::inbox::Inbox;
use super::local::Local;
use super::stats::{HeadCacheStats, HeadsLane};
use crate::limits::BATCH_MAX;
use crate::packet::head::{Head, Origin};
use crate::page::Memory;
use crate::slab::{Cache, Object};
use crate::sync::{Leave, PerWorker, Worker};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The number of the next heads.
static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// The heads of one memory.
///
/// Conservation: `heads in packets + ready + away + freed + waiting == objects out of the cache`.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) locals: PerWorker<Local, HeadsLane>,
    /// A number unique in the process, which heads carry.
    pub(super) number: u64,
    pub(super) mode: HeadCacheMode,
    /// The values of [`TUNABLES`].
    tunables: [AtomicUsize; TUNABLES.len()],
    /// One inbox for each worker.
    pub(super) inboxes: Box<[Inbox<Object<Head>>]>,
    pub(super) cache: Cache<Head>,
}

impl Shared {
    #[cold]
    pub(super) fn new(memory: &Memory, config: &HeadCacheConfig) -> Result<Arc<Shared>, HeadCacheError> {
        let values = [config.size, config.refill, config.free, config.defer_max];
        check(values)?;
        let cache = Cache::new(memory, &config.cache)?;
        // Relaxed: the number only has to differ from others.
        let number = NUMBERS.fetch_add(1, Relaxed);
        let room = if config.mode == HeadCacheMode::TwoSided { config.size } else { 0 };
        let mut slots = 0..;
        let shared = Arc::new(Shared {
            locals: PerWorker::new(memory.roster(), || Local::new(Origin::new(number, slots.next()), room)),
            number,
            mode: config.mode,
            tunables: values.map(AtomicUsize::new),
            inboxes: (0..memory.roster().workers()).map(|_| Inbox::new()).collect(),
            cache,
        });
        memory.roster().on_leave(&shared);
        Ok(shared)
    }

    /// Maximum number of heads in a worker's array.
    pub(super) fn size(&self) -> usize {
        self.tunables[0].load(Relaxed)
    }

    /// Number of heads that refill an empty array.
    pub(super) fn refill(&self) -> usize {
        self.tunables[1].load(Relaxed)
    }

    /// Number of heads that a full array gives up.
    pub(super) fn free(&self) -> usize {
        self.tunables[2].load(Relaxed)
    }

    /// Number of another worker's heads that are sent to it at once, unless a poll round ends before. It is the number
    /// that a full array gives up, and at least a batch, since the same cache lines cross for any number.
    pub(super) fn sent_at_once(&self) -> usize {
        self.free().max(BATCH_MAX)
    }

    /// Maximum number of heads that may wait for a worker.
    pub(super) fn defer_max(&self) -> usize {
        self.tunables[3].load(Relaxed)
    }

    /// The origin of heads that `w` takes.
    pub(super) fn origin(&self, w: &Worker) -> Origin {
        Origin::new(self.number, self.locals.lane(w).map(|_| w.slot()))
    }

    pub(super) fn stats(&self) -> HeadCacheStats {
        // As a thief, so that the hot path need not publish after each head how many are left.
        for slot in self.locals.slots() {
            slot.steal(|local| local.stay(slot.gauges(), |_| {}));
        }
        let waiting = self.inboxes.iter().map(|inbox| inbox.len() as u64).sum();
        let own = HeadCacheStats { waiting, cache: self.cache.stats(), ..HeadCacheStats::default() };
        own.with_sums(|pick| self.locals.sum(pick))
    }

    /// Returns whether heads of `origin` are sent back to the worker that took them.
    pub(super) fn sends_to(&self, origin: Origin) -> bool {
        let defers = self.mode == HeadCacheMode::TwoSided && self.defer_max() > 0;
        defers && origin.heads() == self.number && origin.slot() < self.inboxes.len()
    }

    /// Returns the value of a tunable of the arrays or of the cache.
    pub(super) fn get(&self, name: &str) -> Result<usize, HeadCacheError> {
        match TUNABLES.iter().position(|known| *known == name) {
            Some(at) => Ok(self.tunables[at].load(Relaxed)),
            None => self.cache.get(name).map_err(HeadCacheError::of_tunable),
        }
    }

    /// Changes a tunable. A smaller size also reduces refill and free.
    #[cold]
    pub(super) fn set(&self, name: &str, value: usize) -> Result<(), HeadCacheError> {
        let Some(at) = TUNABLES.iter().position(|known| *known == name) else {
            return self.cache.set(name, value).map_err(HeadCacheError::of_tunable);
        };
        let mut values = [self.size(), self.refill(), self.free(), self.defer_max()];
        values[at] = value;
        if at == 0 {
            let most = value.max(1);
            (values[1], values[2]) = (values[1].min(most), values[2].min(most));
        }
        check(values)?;
        self.tunables.iter().zip(values).for_each(|(tunable, value)| tunable.store(value, Relaxed));
        if at == 0 {
            let mut cut = Vec::new();
            for slot in self.locals.slots() {
                // A worker that stays inside for too long resizes its array itself when the array is next empty or
                // full.
                slot.steal(|local| local.stay(slot.gauges(), |local| self.resize(local, &mut cut)));
            }
            self.locals.shared_lane().flushed.add_shared(cut.len() as u64);
            // Dropped blank heads go back to the cache without a worker.
            drop(cut);
        }
        Ok(())
    }

    /// Gives an array the current size. Its coldest heads that no longer fit come out in `cut`.
    pub(super) fn resize(&self, local: &mut Local, cut: &mut Vec<Object<Head>>) {
        let room = if self.mode == HeadCacheMode::TwoSided { self.size() } else { 0 };
        if local.ready.capacity() != room {
            local.ready.resize(room, cut);
        }
    }
}

impl Leave for Shared {
    /// The worker leaves: its array goes to the cache, and no worker sends it heads any more.
    fn leave(&self, worker: &mut Worker) {
        let mut heads = Vec::new();
        let slot = worker.slot();
        self.locals.leave(worker, |local, lane| {
            local.stay(lane, |local| {
                lane.flushed.add((local.ready.len() + local.freed.len()) as u64);
                local.ready.move_oldest(usize::MAX, &mut heads);
                heads.append(&mut local.freed);
                heads.append(&mut local.away);
            });
        });
        if let Some(inbox) = self.inboxes.get(slot) {
            inbox.shut(&mut heads);
        }
        self.cache.forget_bulk(worker, &mut heads);
    }
}
