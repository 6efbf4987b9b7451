//! The state that a stage keeps for its workers: state that only the owner accesses, and gauges that every thread may
//! read.

use super::shim::AtomicU64;
use super::slot::{Held, Slot};
use super::worker::{Roster, SLOT_BYTES, Worker};
use crate::sys::cpu;
use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::Relaxed;

/// State `L` for each worker of a memory, reached through the worker's token, with gauges `G` beside it.
///
/// One look-up finds both. Threads that are not a worker of this memory count in the shared gauges.
#[derive(Debug)]
pub(crate) struct PerWorker<L, G = ()> {
    domain: u64,
    /// Invariant: one for each worker that the memory can have.
    slots: Box<[Apart<Slot<L, G>>]>,
    /// In another allocation, so that the fields that are read all the time lie close together.
    shared_lane: Box<CachePadded<G>>,
}

/// The slot of one worker with padding. Workers never share a line, nor two lines that are fetched together. A worker's
/// key is the offset of its slot, without arithmetic.
#[derive(Debug)]
#[cfg_attr(not(loom), repr(align(512)))]
#[cfg_attr(loom, repr(align(1024)))]
struct Apart<T>(T);

impl<T> Apart<T> {
    /// Whether a worker's key is the offset of its slot.
    const IN_PLACE: () = assert!(size_of::<Self>() == SLOT_BYTES, "a worker's state has outgrown its slot");
}

impl<L, G: Default> PerWorker<L, G> {
    pub(crate) fn new(roster: &Roster, mut local: impl FnMut() -> L) -> Self {
        let () = Apart::<Slot<L, G>>::IN_PLACE;
        let slots = (0..roster.workers()).map(|_| Apart(Slot::new(local()))).collect();
        PerWorker { domain: roster.domain(), slots, shared_lane: Box::default() }
    }
}

impl<L, G> PerWorker<L, G> {
    /// Enters this worker's own state. Returns None (take the shared path) for a worker of another memory or while a
    /// thief is inside.
    #[inline(always)]
    pub(crate) fn enter<'a>(&'a self, worker: &'a mut Worker) -> Option<Held<'a, L, G>> {
        let slot = self.slot(worker)?;
        // SAFETY: the key matched, so `worker` is the one claim on this slot of this memory, and `&mut` for
        // as long as the guard lives makes it the only guard.
        unsafe { slot.enter() }
    }

    /// Calls a function on the state of a worker that leaves, also if a thief is inside: then it waits for the thief.
    /// Returns None for a worker of another memory.
    #[cold]
    pub(crate) fn leave<R>(&self, worker: &mut Worker, work: impl FnOnce(&mut L, &G) -> R) -> Option<R> {
        let slot = self.slot(worker)?;
        // SAFETY: as in `enter`.
        let held = unsafe { slot.enter() };
        leave(slot, held, work)
    }

    /// This worker's own slot; None for a worker of another memory.
    #[inline(always)]
    fn slot(&self, worker: &Worker) -> Option<&Slot<L, G>> {
        let offset = worker.offset_in(self.domain)?;
        // SAFETY: the offset is that of a slot that the memory's roster has, counted in entries of this size, and there
        // is an entry for each slot.
        Some(unsafe { &(*cpu::in_one_register(self.slots.as_ptr().byte_add(offset as usize))).0 })
    }

    /// All slots, for thieves.
    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot<L, G>> {
        self.slots.iter().map(|slot| &slot.0)
    }

    /// This worker's own gauges; None for a worker of another memory.
    #[inline(always)]
    pub(crate) fn lane(&self, worker: &Worker) -> Option<&G> {
        self.slot(worker).map(Slot::gauges)
    }

    /// The gauges for all threads without gauges of their own. Many threads write them.
    pub(crate) fn shared_lane(&self) -> &G {
        &self.shared_lane
    }

    /// Every worker's gauges, by slot.
    pub(crate) fn each(&self) -> impl Iterator<Item = &G> {
        self.slots().map(Slot::gauges)
    }
}

/// Calls a function on the state of the owner, who has entered, or else enters as the last of the thieves.
fn leave<L, G, R>(
    slot: &Slot<L, G>,
    held: Option<Held<'_, L, G>>,
    work: impl FnOnce(&mut L, &G) -> R,
) -> Option<R> {
    match held {
        Some(mut held) => {
            let (gauges, local) = held.split();
            Some(work(local, gauges))
        }
        None => slot.steal(|local| work(local, slot.gauges())),
    }
}

/// State `L` of one worker that others may open only as thieves, with gauges `G` that every thread may read.
///
/// The owner's key lies behind them, on a line that the owner does not write: all threads that are not the owner read
/// it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Owned<L, G = ()> {
    slot: CachePadded<Slot<L, G>>,
    /// The owner's key. It changes only while no thread can be inside as the owner: the change has the owner's `&mut`,
    /// or holds the owner's vacant slot in the roster. The old and the new owner see the change before the next call
    /// with that worker: a worker moves between threads by something that orders both. So Relaxed is enough.
    owner: AtomicU64,
}

impl<L, G: Default> Owned<L, G> {
    pub(crate) fn new(owner: &Worker, local: L) -> Self {
        Owned { slot: CachePadded::new(Slot::new(local)), owner: AtomicU64::new(owner.key()) }
    }
}

impl<L, G> Owned<L, G> {
    /// Enters the owner's own state. Returns None (take the shared path) for any other worker and while a thief is
    /// inside.
    #[inline(always)]
    pub(crate) fn enter<'a>(&'a self, worker: &'a mut Worker) -> Option<Held<'a, L, G>> {
        if !self.is_owner(worker) {
            return None;
        }
        // SAFETY: the key matched, so `worker` is the one claim on the owner's slot, and `&mut` for as long as
        // the guard lives makes it the only guard.
        unsafe { self.slot.enter() }
    }

    /// As [`PerWorker::leave`]. Returns None for any other worker than the owner.
    #[cold]
    pub(crate) fn leave<R>(&self, worker: &mut Worker, work: impl FnOnce(&mut L, &G) -> R) -> Option<R> {
        if !self.is_owner(worker) {
            return None;
        }
        // SAFETY: as in `enter`.
        let held = unsafe { self.slot.enter() };
        leave(&self.slot, held, work)
    }

    /// Enters as [`Owned::enter`] does, but also returns None if that would look twice.
    #[inline(always)]
    pub(crate) fn enter_at_once<'a>(&'a self, worker: &'a mut Worker) -> Option<Held<'a, L, G>> {
        if !self.is_owner(worker) {
            return None;
        }
        // SAFETY: as in `enter`.
        unsafe { self.slot.enter_at_once() }
    }

    #[inline(always)]
    fn is_owner(&self, worker: &Worker) -> bool {
        worker.key() == self.owner.load(Relaxed)
    }

    /// Makes `to` the owner in place of `owner`. Returns false, and changes nothing, if `owner` is not the owner.
    #[cold]
    pub(crate) fn hand_over(&self, owner: &mut Worker, to: &mut Worker) -> bool {
        let is_owner = self.is_owner(owner);
        if is_owner {
            self.owner.store(to.key(), Relaxed);
        }
        is_owner
    }

    /// Makes `worker` the owner if the owner has left. Returns whether `worker` is the owner; if not, nothing changed.
    #[cold]
    pub(crate) fn adopt(&self, roster: &Roster, worker: &mut Worker) -> bool {
        let owner = self.owner.load(Relaxed);
        // It may have the slot of the owner that left.
        if owner == worker.key() {
            return true;
        }
        // As long as this call has the slot, no thread can become a worker with the owner's key. An adopter that was
        // faster has made another key the owner's.
        roster.while_vacant(owner, || {
            let changed = self.owner.compare_exchange(owner, worker.key(), Relaxed, Relaxed);
            changed.is_ok()
        })
    }

    /// The slot itself, for thieves and for closing.
    pub(crate) fn slot(&self) -> &Slot<L, G> {
        &self.slot
    }
}
