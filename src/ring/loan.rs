//! A ring whose items come back: one side lends them, the other side works on them in place, and the lender reclaims
//! them in order.
//!
//! A network card uses its descriptor rings in this way. The driver posts descriptors, the card reads or writes them
//! and moves its index on, and the driver takes the same slots back. One ring serves both directions.
//!
//! ```text
//!      reclaimed              returned                   lent             (free-running; wrap at 2^32)
//!   ───────┼═════════════════════┼═════════════════════════┼───────
//!          └ the lender's again ─┘ └─ with the borrower ───┘ └─ room, up to reclaimed + size
//! ```
//! There are three indices, each written by one side only. The lender computes its room from its own two
//! indices.
//!
//! | edge | written by | read by |
//! |---|---|---|
//! | `P` Release of `lent` | [`Lender::lend`] | Acquire in [`Borrower::ready`]: the items |
//! | `C` Release of `returned` | [`Borrower::give_back`] | Acquire in [`Lender::reclaim`]: what was done with them |

use super::cursor::{Consumer, Index, Producer};
use super::{runs, slots_for};
use crate::limits::CACHE_LINE;
use crate::sync::Steps;
use crate::sync::shim::{AtomicU32, UnsafeCell};
use crate::sys::cpu::{prefetch, prefetch_write};
use crossbeam_utils::CachePadded;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

const LENT: usize = 0;
const RETURNED: usize = 1;
/// Only the lender reads and writes it, and the ring when both sides are gone.
const RECLAIMED: usize = 2;

struct Ring<T> {
    indices: [CachePadded<AtomicU32>; 3],
    /// Initialised from `reclaimed` up to `lent`, and nowhere else.
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

/// Without the slots, which others write.
impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
}

// SAFETY: the borrower accesses a slot while it lies between `returned` and `lent`, and the lender accesses it
// otherwise, never both (edges P and C). The items themselves only move between threads.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    /// The addresses of the lines that hold `n` slots from the one at `slot(0)` on. They are computed from the slot
    /// numbers: with [`runs`] a routed frame takes six more instructions.
    #[inline(always)]
    fn lines(&self, n: usize, slot: impl Fn(u32) -> usize) -> impl Iterator<Item = *const u8> {
        let per_line = (CACHE_LINE / size_of::<T>().max(1)).max(1);
        (0..n).step_by(per_line).map(move |i| std::ptr::from_ref(&self.slots[slot(i as u32)]).cast())
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Both sides are gone. Their last writes happened before this through the Arc's count.
        let [lent, mut reclaimed] = [LENT, RECLAIMED].map(|which| self.indices[which].load(Relaxed));
        let mut steps = Steps::new();
        while reclaimed != lent {
            let slot = reclaimed as usize & (self.slots.len() - 1);
            // SAFETY: between the indices, so initialised and not reclaimed.
            steps.run(|| self.slots[slot].with_mut(|item| unsafe { (*item).assume_init_drop() }));
            reclaimed = reclaimed.wrapping_add(1);
        }
        steps.end();
    }
}

/// One of the indices, in the form that the cursor needs.
#[derive(Debug)]
struct LoanIndex<T> {
    ring: Arc<Ring<T>>,
    which: usize,
}

impl<T> Index for LoanIndex<T> {
    #[inline(always)]
    fn load_relaxed(&self) -> u32 {
        self.ring.indices[self.which].load(Relaxed)
    }
    #[inline(always)]
    fn load_acquire(&self) -> u32 {
        self.ring.indices[self.which].load(Acquire)
    }
    #[inline(always)]
    fn store_release(&self, value: u32) {
        self.ring.indices[self.which].store(value, Release);
    }
}

/// The side that owns the items.
#[derive(Debug)]
pub(crate) struct Lender<T> {
    /// The range from the reclaimed index to the lent index.
    out: Producer<LoanIndex<T>>,
    /// The range from the reclaimed index to the returned index.
    back: Consumer<LoanIndex<T>>,
    ring: Arc<Ring<T>>,
}

/// The side that works on the items.
#[derive(Debug)]
pub(crate) struct Borrower<T> {
    cursor: Consumer<LoanIndex<T>>,
    ring: Arc<Ring<T>>,
}

/// Makes a ring of at least `size` slots (rounded up to a power of two). Its indices start at `start`.
#[cold]
pub(crate) fn loan<T: Send>(size: u32, start: u32) -> (Lender<T>, Borrower<T>) {
    let size = slots_for(size);
    let slots = (0..size).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let indices = [(); 3].map(|()| CachePadded::new(AtomicU32::new(start)));
    let ring = Arc::new(Ring { indices, slots });
    let index = |which| LoanIndex { ring: Arc::clone(&ring), which };
    let out = Producer::new(index(LENT), index(RECLAIMED), size);
    let back = Consumer::new(index(RECLAIMED), index(RETURNED), size);
    let cursor = Consumer::new(index(RETURNED), index(LENT), size);
    (Lender { out, back, ring: Arc::clone(&ring) }, Borrower { cursor, ring })
}

impl<T> Lender<T> {
    /// The number of free slots, at most `want`. It touches no line of the borrower.
    #[inline]
    pub(crate) fn room(&mut self, want: usize) -> usize {
        // A ring on the heap has no untrusted side: Corrupt cannot happen.
        self.out.room(want.min(self.ring.slots.len()) as u32).unwrap_or(0) as usize
    }

    /// Lends as many of `items` as there is room for, and copies them. Returns how many.
    ///
    /// # Safety
    /// The caller gives up the lent items, the first ones: it neither uses nor drops them until they are reclaimed.
    #[inline]
    pub(crate) unsafe fn lend(&mut self, items: &[T]) -> usize {
        let n = self.room(items.len());
        let [front, back] = runs(&self.ring.slots, self.out.slot(0), n);
        let (first, second) = items[..n].split_at(front.len());
        for (slots, items) in [(front, first), (back, second)] {
            for (slot, item) in slots.iter().zip(items) {
                // SAFETY: a slot that is not lent belongs to this side alone, and holds nothing to drop; the item is
                // copied once and given up.
                slot.with_mut(|place| unsafe { place.write(MaybeUninit::new(std::ptr::read(item))) });
            }
        }
        self.out.publish(n as u32);
        n
    }

    /// Takes back as many items as were returned and `into` has slots for, in the order in which they were lent.
    /// Returns how many. That many slots from the front are initialised and belong to the caller.
    #[inline]
    pub(crate) fn reclaim(&mut self, into: &mut [MaybeUninit<T>]) -> usize {
        let want = into.len().min(self.ring.slots.len()) as u32;
        let n = self.back.ready(want).unwrap_or(0);
        let [front, back] = runs(&self.ring.slots, self.back.slot(0), n as usize);
        let (first, second) = into[..n as usize].split_at_mut(front.len());
        for (slots, places) in [(front, first), (back, second)] {
            for (slot, place) in slots.iter().zip(places) {
                // SAFETY: a slot that was returned (edge C) and not reclaimed belongs to this side alone and is
                // initialised. It is reclaimed right below and so read once.
                slot.with_mut(|item| unsafe { place.write((*item).assume_init_read()) });
            }
        }
        self.back.release(n);
        n as usize
    }

    /// Whether an item was returned that is not reclaimed yet.
    pub(crate) fn has_returned(&mut self) -> bool {
        self.back.ready(1).is_ok_and(|n| n > 0)
    }

    /// Prefetches the lines of the next `n` slots to lend, for writing.
    #[inline]
    pub(crate) fn prefetch_room(&self, n: usize) {
        self.ring.lines(n, |i| self.out.slot(i)).for_each(prefetch_write);
    }

    /// The next `n` items to reclaim, at most those that were seen returned.
    #[inline]
    pub(crate) fn returned(&self, n: usize) -> impl Iterator<Item = &T> {
        (0..n.min(self.back.len() as usize)).map(|i| {
            let slot = &self.ring.slots[self.back.slot(i as u32)];
            // SAFETY: a slot that was returned (edge C) and not reclaimed belongs to this side alone and is
            // initialised. `&self` keeps it from being reclaimed during this time.
            slot.with_mut(|item| unsafe { (*item).assume_init_ref() })
        })
    }

    /// Prefetches the lines of the next `n` slots to reclaim, at most those that were seen returned.
    #[inline]
    pub(crate) fn prefetch_returned(&self, n: usize) {
        let n = n.min(self.back.len() as usize);
        self.ring.lines(n, |i| self.back.slot(i)).for_each(prefetch);
    }
}

impl<T> Borrower<T> {
    /// The number of items that are lent and not given back, at most `want`.
    #[inline]
    pub(crate) fn ready(&mut self, want: usize) -> usize {
        // As for the lender: Corrupt cannot happen.
        self.cursor.ready(want.min(self.ring.slots.len()) as u32).unwrap_or(0) as usize
    }

    /// Works on the `i`-th item that is not given back. Returns None for an item that [`Borrower::ready`] has not seen.
    #[inline]
    pub(crate) fn item<R>(&mut self, i: usize, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        let seen = i < self.cursor.len() as usize;
        let slot = seen.then(|| &self.ring.slots[self.cursor.slot(i as u32)])?;
        // SAFETY: a slot that is lent (edge P) and not given back belongs to this side alone and is initialised. `&mut
        // self` keeps it from being given back during this time.
        Some(slot.with_mut(|item| work(unsafe { (*item).assume_init_mut() })))
    }

    /// Gives the first `n` items back, at most those that were seen.
    #[inline]
    pub(crate) fn give_back(&mut self, n: usize) {
        self.cursor.release((n as u32).min(self.cursor.len()));
    }
}
