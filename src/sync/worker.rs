//! The worker: a token. `&mut Worker` proves that no other thread is at this worker's caches.
//!
//! A kernel gets this exclusion by disabling softirqs. Here it is exclusive access that the compiler checks.
//!
//! ```compile_fail,E0277
//! // A worker cannot be used by two threads at once: it is not Sync.
//! fn needs_sync<T: Sync>() {}
//! needs_sync::<netmem::sync::Worker>();
//! ```
//! ```compile_fail,E0499
//! // Nor twice on one thread while something borrowed through it is alive.
//! fn two(w: &mut netmem::sync::Worker) -> (&mut netmem::sync::Worker, &mut netmem::sync::Worker) { (w, w) }
//! ```
//! ```
//! // It may move to another thread.
//! fn needs_send<T: Send>() {}
//! needs_send::<netmem::sync::Worker>();
//! ```

use super::shim::{Mutex, lock};
use super::steps::Steps;
use crate::limits::WORKERS_MAX;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Weak, atomic};

/// The position of the slot number in a worker's key. A key minus the memory's number is an offset into an array whose
/// entries have this size, a power of two. It is larger under loom, since loom's atomics are.
pub(super) const SLOT_BYTES: usize = if cfg!(loom) { 1024 } else { 512 };
/// The shift of the memory's number in a key.
const DOMAIN_SHIFT: u32 = 16;

const _: () = assert!(WORKERS_MAX * SLOT_BYTES <= 1 << DOMAIN_SHIFT);

/// The workers of one memory: a fixed number of slots, and the stages to call when a worker leaves.
pub(crate) struct Roster {
    domain: u64,
    workers: usize,
    /// A set bit is a slot in use.
    taken: Mutex<u64>,
    leavers: Mutex<Leavers>,
}

/// A stage that keeps items for a worker, and takes them back when the worker goes.
pub(crate) trait Leave {
    /// Takes back everything in `worker`'s caches. Stages are called in reverse order of registration, so that a stage
    /// can still give items to the stages below it.
    fn leave(&self, worker: &mut Worker);
}

/// The stages to call when a worker leaves, in the order of registration.
#[derive(Default)]
struct Leavers {
    stages: Vec<Weak<dyn Leave + Send + Sync>>,
    /// The number of stages from which on those that are gone are left out. Twice as many as there were after that was
    /// done last, so that a stage costs a fixed number of visits however many there are.
    most: usize,
}

impl Leavers {
    fn add(&mut self, stage: Weak<dyn Leave + Send + Sync>) {
        if self.stages.len() >= self.most {
            self.stages.retain(|stage| stage.strong_count() > 0);
            self.most = 2 * self.stages.len().max(8);
        }
        self.stages.push(stage);
    }
}

/// Why no further worker can be claimed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerError {
    /// All slots are in use.
    #[error("{} in use: drop one, or configure more", all_of(*.workers))]
    AllTaken {
        /// The number of slots that this memory was made with.
        workers: usize,
    },
}

fn all_of(workers: usize) -> String {
    match workers {
        1 => "the only worker of this memory is".into(),
        _ => format!("all {workers} workers of this memory are"),
    }
}

impl Roster {
    /// Makes a roster of `workers` slots (1..=64).
    pub(crate) fn new(workers: usize) -> Arc<Roster> {
        // The number wraps after 2^48 memories.
        static DOMAINS: atomic::AtomicU64 = atomic::AtomicU64::new(1);
        let domain = DOMAINS.fetch_add(1, Relaxed) << DOMAIN_SHIFT;
        let workers = workers.clamp(1, WORKERS_MAX);
        Arc::new(Roster { domain, workers, taken: Mutex::new(0), leavers: Mutex::default() })
    }

    /// The memory's number, in the upper 48 bits.
    pub(crate) fn domain(&self) -> u64 {
        self.domain
    }

    /// Whether `worker` belongs to this memory.
    pub(crate) fn claimed(&self, worker: &Worker) -> bool {
        worker.offset_in(self.domain).is_some()
    }

    /// The number of slots, used or not.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Registers a stage for the departure of workers. Stages that register later are called earlier.
    pub(crate) fn on_leave<S: Leave + Send + Sync + 'static>(&self, stage: &Arc<S>) {
        let stage: Arc<dyn Leave + Send + Sync> = stage.clone();
        lock(&self.leavers).add(Arc::downgrade(&stage));
    }

    /// Claims a free slot.
    pub(crate) fn claim(self: &Arc<Self>) -> Result<Worker, WorkerError> {
        let mut taken = lock(&self.taken);
        let slot = (!*taken).trailing_zeros() as usize;
        if slot >= self.workers {
            return Err(WorkerError::AllTaken { workers: self.workers });
        }
        *taken |= 1 << slot;
        let key = self.domain | (slot * SLOT_BYTES) as u64;
        Ok(Worker { key, recent: 0, roster: Arc::clone(self), _not_sync: PhantomData })
    }

    /// Runs `work` while no worker has the slot that `key` names and none can claim it. Returns false without running
    /// `work` if a worker has the slot.
    #[cold]
    pub(super) fn while_vacant(&self, key: u64, work: impl FnOnce() -> bool) -> bool {
        let taken = lock(&self.taken);
        *taken & 1 << slot_of(key) == 0 && work()
    }
}

/// The slot that a key names.
#[inline(always)]
fn slot_of(key: u64) -> usize {
    (key as usize & ((1 << DOMAIN_SHIFT) - 1)) / SLOT_BYTES
}

impl std::fmt::Debug for Roster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Roster").field("domain", &self.domain).field("workers", &self.workers).finish()
    }
}

/// One worker of a memory: the key to its caches. `Send`, not `Sync`, one per slot.
///
/// Dropping it gives back everything in its caches.
///
/// A child of fork(2) must neither use nor drop it ([`Memory`](crate::page::Memory#after-fork2)).
#[derive(Debug)]
pub struct Worker {
    /// The memory's number and the slot's ([`SLOT_BYTES`]). One comparison checks both.
    key: u64,
    /// An address that code of this worker used last and expects again. It is never followed before it is compared with
    /// the address that is meant (`sys::cpu::expected`).
    pub(crate) recent: usize,
    roster: Arc<Roster>,
    _not_sync: PhantomData<Cell<()>>,
}

impl Worker {
    /// This worker's slot in its memory, counted from 0.
    #[inline(always)]
    pub fn slot(&self) -> usize {
        slot_of(self.key)
    }

    /// Where the worker's entry begins in an array with an entry of [`SLOT_BYTES`] for each worker of the memory with this
    /// number. None for a worker of another memory.
    #[inline(always)]
    pub(super) fn offset_in(&self, domain: u64) -> Option<u64> {
        let offset = self.key ^ domain;
        (offset >> DOMAIN_SHIFT == 0).then_some(offset)
    }

    /// The memory's number and the slot's number in one word.
    #[inline(always)]
    pub(crate) fn key(&self) -> u64 {
        self.key
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let leavers: Vec<_> =
            lock(&self.roster.leavers).stages.iter().rev().filter_map(Weak::upgrade).collect();
        // The Drop of values and callbacks run in there. If one of them panics, all stages are still called and the
        // slot is freed.
        let mut steps = Steps::new();
        for stage in leavers {
            steps.run(|| {
                stage.leave(self);
                // This may be the last reference to the stage.
                drop(stage);
            });
        }
        *lock(&self.roster.taken) &= !(1 << self.slot());
        steps.end();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Stage;

    impl Leave for Stage {
        fn leave(&self, _: &mut Worker) {}
    }

    fn add(leavers: &mut Leavers, stage: &Arc<Stage>) {
        let stage: Arc<dyn Leave + Send + Sync> = stage.clone();
        leavers.add(Arc::downgrade(&stage));
    }

    /// Seen: 16,000 pools took 21 s to make, since each visited all before it.
    #[test]
    fn of_many_stages_the_gone_ones_are_sought_a_few_times_and_never_make_up_more_than_half() {
        let mut leavers = Leavers::default();
        let (mut sought, mut most) = (0, 0);
        let stages: Vec<_> = (0..4096).map(|_| Arc::new(Stage)).collect();
        for stage in &stages {
            add(&mut leavers, stage);
            sought += usize::from(leavers.most != most);
            most = leavers.most;
        }
        assert!((2..=12).contains(&sought) && leavers.stages.len() == stages.len(), "{sought}");
        for _ in 0..100_000 {
            add(&mut leavers, &Arc::new(Stage));
        }
        assert!(leavers.stages.len() <= 2 * stages.len(), "{}", leavers.stages.len());
    }
}
