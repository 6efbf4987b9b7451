//! A cell that one owner uses without atomics, and that a thief can open when it must.
//!
//! The lock is asymmetric. The owner marks itself busy with a plain store, and looks at the gate with a plain load. A
//! thief closes the gate, makes every core pass a barrier (membarrier(2)), and waits until the owner is not busy. The
//! owner pays two stores and a load, which stay in its own cache. The thief pays microseconds. It comes only when every
//! other source is empty.
//!
//! ```text
//!   owner                              thief
//!   busy = 1                           gate |= STOLEN
//!   (compiler fence)     ◄─ pairs ─►   membarrier: a full fence on every core
//!   gate == 0 ? go on                  busy == 0 ? take
//!             : busy = 0, go round               : wait, bounded
//! ```
//! Each side stores before it loads, and at least one side sees the other side's store. So owner and thief are never
//! both inside. Without membarrier(2) the gate keeps `FENCED` set, and the owner's cold path runs a real fence: this is
//! slower and still correct. Loom checks that path. Loom also checks the path above, with a fence on each side in place
//! of the barrier.

use super::shim::{AtomicU32, Mutex, UnsafeCell, fence, lock, sleep_briefly, yield_now};
use crate::sys::membarrier;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
#[cfg(not(loom))]
use std::sync::atomic::compiler_fence;

/// A thief is inside, or about to be.
const STOLEN: u32 = 1;
/// The owner has to fence, because membarrier(2) is not available.
const FENCED: u32 = 2;
/// The slot is closed for good: all users take the shared path from now on.
const SHUT: u32 = 4;

/// How often a thief looks before it gives up on a busy owner.
#[cfg(not(loom))]
const OWNER_CHECKS_MAX: u32 = 10_000;
#[cfg(loom)]
const OWNER_CHECKS_MAX: u32 = 2;

/// The local state `L` of one owner, and gauges `G` that any thread may read.
///
/// The order of the fields puts the fields of the entry and the begin of the state in one cache line.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Slot<L, G = ()> {
    /// 1 while the owner is inside. Only the owner writes it.
    busy: AtomicU32,
    /// 0 while the owner may enter at once. Thieves write it.
    gate: AtomicU32,
    local: UnsafeCell<L>,
    gauges: G,
    /// Admits one thief at a time.
    thieves: Mutex<()>,
    /// Whether a model has a membarrier (the owner's half of it), because loom has none.
    #[cfg(loom)]
    barrier: bool,
}

// SAFETY: `local` is reached by the owner while `busy` or by a thief while `STOLEN`, never both (see above),
// so sharing the slot only ever moves `L` between threads.
unsafe impl<L: Send, G: Sync> Sync for Slot<L, G> {}

impl<L, G: Default> Slot<L, G> {
    pub(crate) fn new(local: L) -> Self {
        let fenced = cfg!(loom) || !membarrier::available();
        let gate = AtomicU32::new(if fenced { FENCED } else { 0 });
        let (local, gauges) = (UnsafeCell::new(local), G::default());
        Slot {
            busy: AtomicU32::new(0),
            gate,
            gauges,
            local,
            thieves: Mutex::new(()),
            #[cfg(loom)]
            barrier: false,
        }
    }

    /// Makes a slot as on a system that has membarrier(2): the owner decides by its one look at the gate.
    #[cfg(loom)]
    pub(super) fn with_barrier(local: L) -> Self {
        Slot { gate: AtomicU32::new(0), barrier: true, ..Slot::new(local) }
    }
}

impl<L, G> Slot<L, G> {
    /// TEST: where the gauges begin, in bytes from the beginning of a cache line.
    #[cfg(all(test, not(loom)))]
    pub(crate) const GAUGES_AT: usize = std::mem::offset_of!(Self, gauges) % crate::limits::CACHE_LINE;

    /// The gauges: counts of the owner that others may read.
    #[inline(always)]
    pub(crate) fn gauges(&self) -> &G {
        &self.gauges
    }

    /// Enters as the owner. Returns None if a thief is inside or the slot is shut; the caller then takes the shared
    /// path.
    ///
    /// # Safety
    /// The caller is the slot's only owner, and holds no other [`Held`] of it.
    #[inline(always)]
    pub(crate) unsafe fn enter(&self) -> Option<Held<'_, L, G>> {
        self.busy.store(1, Relaxed);
        self.keep_order();
        // Acquire: pairs with the Release that opens the gate in [`Opens`], so a thief's changes are seen.
        if self.gate.load(Acquire) != 0 && !self.pass_gate() {
            return None;
        }
        Some(Held { slot: self })
    }

    /// Enters as [`Slot::enter`] does, but without a second look: also returns None if the owner has to fence. It makes
    /// no function call.
    ///
    /// # Safety
    /// As for [`Slot::enter`].
    #[inline(always)]
    pub(crate) unsafe fn enter_at_once(&self) -> Option<Held<'_, L, G>> {
        self.busy.store(1, Relaxed);
        self.keep_order();
        let held = Held { slot: self };
        // Acquire: as in `enter`. If the owner does not get in, `held` is dropped as if it had been in.
        (self.gate.load(Acquire) == 0).then_some(held)
    }

    /// Keeps the store before the load in program order. The thief's membarrier does the rest.
    #[inline(always)]
    fn keep_order(&self) {
        #[cfg(not(loom))]
        compiler_fence(SeqCst);
        // SeqCst fence: pairs with the thief's in `wait_outside`. The two together are the membarrier of a model.
        #[cfg(loom)]
        if self.barrier {
            fence(SeqCst);
        }
    }

    #[cold]
    #[inline(never)]
    fn pass_gate(&self) -> bool {
        if self.gate.load(Relaxed) & (STOLEN | SHUT) == 0 {
            // SeqCst fence: pairs with the thief's fence in `steal`. At least one side sees the other side's store.
            fence(SeqCst);
            // Acquire: as in `enter`.
            if self.gate.load(Acquire) & (STOLEN | SHUT) == 0 {
                return true;
            }
        }
        // Release: pairs with the thief's Acquire of `busy`.
        self.busy.store(0, Release);
        false
    }

    /// Enters from any thread. Returns None if the owner stays inside for longer than a bounded wait.
    ///
    /// # Cost
    /// A membarrier(2) and an uncontended lock: microseconds.
    #[cold]
    pub(crate) fn steal<R>(&self, take: impl FnOnce(&mut L) -> R) -> Option<R> {
        let _alone = lock(&self.thieves);
        self.gate.fetch_or(STOLEN, Relaxed);
        let _open = Opens(self);
        self.wait_outside().then(|| {
            // SAFETY: the gate is closed and the owner was seen outside after a barrier on every core, so the owner
            // cannot be inside. `thieves` keeps other thieves out.
            self.local.with_mut(|local| take(unsafe { &mut *local }))
        })
    }

    /// Closes the slot for good: the owner takes the shared path from now on. Waits until the owner has left.
    #[cold]
    pub(crate) fn shut<R>(&self, take: impl FnOnce(&mut L) -> R) -> R {
        let _alone = lock(&self.thieves);
        self.gate.fetch_or(SHUT, Relaxed);
        while !self.wait_outside() {}
        // SAFETY: as in `steal`; the owner's hot calls are short and do not block, so the wait ends.
        self.local.with_mut(|local| take(unsafe { &mut *local }))
    }

    fn wait_outside(&self) -> bool {
        if cfg!(loom) || !membarrier::available() {
            // SeqCst fence: pairs with the owner's in `pass_gate`.
            fence(SeqCst);
        } else if !membarrier::all_cores() {
            // The owner has no fence, so it may be inside unseen.
            yield_now();
            return false;
        }
        for _ in 0..OWNER_CHECKS_MAX {
            // Acquire: pairs with the Release of `busy` when the owner leaves, so its changes are seen.
            if self.busy.load(Acquire) == 0 {
                return true;
            }
            yield_now();
        }
        sleep_briefly();
        false
    }
}

/// Opens the gate again when the thief leaves, also after a panic.
struct Opens<'a, L, G>(&'a Slot<L, G>);

impl<L, G> Drop for Opens<'_, L, G> {
    fn drop(&mut self) {
        // Release: pairs with the owner's Acquire of the gate.
        self.0.gate.fetch_and(!STOLEN, Release);
    }
}

/// The owner's stay inside a [`Slot`]. Its drop ends the stay.
pub(crate) struct Held<'a, L, G = ()> {
    slot: &'a Slot<L, G>,
}

impl<'a, L, G> Held<'a, L, G> {
    /// Splits the stay into the gauges, which outlive it, and the state.
    #[inline(always)]
    pub(crate) fn split(&mut self) -> (&'a G, &mut L) {
        (&self.slot.gauges, self)
    }
}

impl<L, G> Deref for Held<'_, L, G> {
    type Target = L;
    #[inline(always)]
    fn deref(&self) -> &L {
        // SAFETY: `busy` is set and the gate was seen open, so no thief is inside while this guard lives.
        self.slot.local.with_mut(|local| unsafe { &*local })
    }
}

impl<L, G> DerefMut for Held<'_, L, G> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut L {
        // SAFETY: as in `deref`; `enter` promised a single guard.
        self.slot.local.with_mut(|local| unsafe { &mut *local })
    }
}

impl<L, G> Drop for Held<'_, L, G> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: pairs with the thief's Acquire of `busy`.
        self.slot.busy.store(0, Release);
    }
}
