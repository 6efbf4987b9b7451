//! The worker: a token whose `&mut` is the proof that nobody else is at this worker's caches.
//!
//! What "softirq is off" is in a kernel, `&mut Worker` is here: exclusive access, known at compile time.
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

/// Where a slot's number stands in a worker's key: keys less the memory's number are offsets into arrays of entries this
/// large, a power of two.
pub(super) const SLOT_BYTES: usize = 512;
/// Below the memory's number in a key.
const DOMAIN_SHIFT: u32 = 16;

const _: () = assert!(WORKERS_MAX * SLOT_BYTES <= 1 << DOMAIN_SHIFT);

/// Who may call itself a worker of one memory: a fixed number of slots, and what runs when one leaves.
pub(crate) struct Roster {
    domain: u64,
    workers: usize,
    /// A set bit is a slot in use.
    taken: Mutex<u64>,
    leavers: Mutex<Vec<Weak<dyn Leave + Send + Sync>>>,
}

/// A stage that keeps something for a worker, and takes it back when the worker goes.
pub(crate) trait Leave {
    /// Hands back all that `worker`'s caches hold. Stages are asked last registered first, so that a stage
    /// can still give to the ones below it.
    fn leave(&self, worker: &mut Worker);
}

/// Why no further worker can be claimed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum WorkerError {
    /// All slots are in use.
    #[error("all {workers} workers of this memory are in use: drop one, or configure more")]
    AllTaken {
        /// Slots this memory was made with.
        workers: usize,
    },
}

impl Roster {
    /// A roster of `workers` slots (1..=64).
    pub(crate) fn new(workers: usize) -> Arc<Roster> {
        // 2^48 memories before the number wraps.
        static DOMAINS: atomic::AtomicU64 = atomic::AtomicU64::new(1);
        let domain = DOMAINS.fetch_add(1, Relaxed) << DOMAIN_SHIFT;
        let workers = workers.clamp(1, WORKERS_MAX);
        Arc::new(Roster { domain, workers, taken: Mutex::new(0), leavers: Mutex::new(Vec::new()) })
    }

    /// The memory's number, in the upper 48 bits.
    pub(crate) fn domain(&self) -> u64 {
        self.domain
    }

    /// Whether `worker` is one of this memory's.
    pub(crate) fn claimed(&self, worker: &Worker) -> bool {
        (worker.key ^ self.domain) >> DOMAIN_SHIFT == 0
    }

    /// Slots, used or not.
    pub(crate) fn workers(&self) -> usize {
        self.workers
    }

    /// Registers a stage for the departure of workers; later registered, earlier asked.
    pub(crate) fn on_leave<S: Leave + Send + Sync + 'static>(&self, stage: &Arc<S>) {
        let stage: Arc<dyn Leave + Send + Sync> = stage.clone();
        let mut leavers = lock(&self.leavers);
        leavers.retain(|l| l.strong_count() > 0);
        leavers.push(Arc::downgrade(&stage));
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

    /// Does something while the slot that `key` names is nobody's and can be claimed by nobody; false, and nothing is done, if
    /// it is somebody's.
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
/// Dropping it hands back everything its caches hold.
#[derive(Debug)]
pub struct Worker {
    /// The memory's number and the slot's ([`SLOT_BYTES`]), so that one comparison checks both.
    key: u64,
    /// An address that whoever works for this worker used last and expects again; never followed unless it is compared
    /// with the one that is meant (`sys::cpu::expected`).
    pub(crate) recent: usize,
    roster: Arc<Roster>,
    _not_sync: PhantomData<Cell<()>>,
}

impl Worker {
    /// This worker's slot in its memory, 0-based.
    #[inline(always)]
    pub fn slot(&self) -> usize {
        slot_of(self.key)
    }

    /// The memory's number and the slot's in one.
    #[inline(always)]
    pub(crate) fn key(&self) -> u64 {
        self.key
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let leavers: Vec<_> = lock(&self.roster.leavers).iter().rev().filter_map(Weak::upgrade).collect();
        // Values' own Drop and callbacks run in there: whichever panics, all stages are asked and the slot is free again.
        let mut steps = Steps::new();
        for stage in leavers {
            steps.run(|| {
                stage.leave(self);
                // It may be the last to hold the stage.
                drop(stage);
            });
        }
        *lock(&self.roster.taken) &= !(1 << self.slot());
        steps.end();
    }
}
