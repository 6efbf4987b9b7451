//! A bounded ring of ids from any number of senders to one receiver: one CAS per batch.
//!
//! A sender reserves slots with a CAS on the reserve index. It publishes each slot by writing a non-zero id into it. A
//! sender that stops between the two delays the receiver at its own slots, and delays no other sender. The receiver
//! clears a slot before it gives the slot back.
//!
//! | edge | written by | read by |
//! |---|---|---|
//! | `S` Release of a slot's id | [`Mpsc::push`] | Acquire in [`Mpsc::pop`]: everything that the sender did before |
//! | `C` Release of the consumer's index | [`Mpsc::pop`] | Acquire in [`Mpsc::reserve`], of that or of what a sender saw of it: the slot is cleared |

use super::{runs, slots_for};
use crate::limits::CACHE_LINE;
use crate::sync::shim::{AtomicU32, yield_now};
use crate::sys::cpu::{lines, prefetch_write};
use crossbeam_utils::CachePadded;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// From this number of ids on, their lines are prefetched together. With fewer ids, only few lines travel while the
/// first ids are read.
const LINES_APART: u32 = 4 * (CACHE_LINE / size_of::<AtomicU32>()) as u32;

/// The ring. Senders share it by reference. The receiver proves that it is alone by the lock or slot that it is in.
///
/// Invariant: `reserved − consumed <= size` (wrapping), and every slot outside that range holds 0.
#[derive(Debug)]
pub(crate) struct Mpsc {
    /// Senders write these. A sender needs no line of the receiver while there is room according to the copy in here.
    senders: CachePadded<Senders>,
    /// The next index to consume. The receiver writes it.
    consumed: CachePadded<AtomicU32>,
    slots: Box<[AtomicU32]>,
}

#[derive(Debug)]
struct Senders {
    /// The next index to reserve.
    reserved: AtomicU32,
    /// `consumed`, as a sender last saw it: never ahead of it.
    consumed: AtomicU32,
}

impl Mpsc {
    /// Makes a ring of at least `size` slots (rounded up to a power of two). Its indices start at `start`.
    ///
    /// # Panics
    /// If `size` is above 2^31.
    pub(crate) fn new(size: u32, start: u32) -> Self {
        let size = slots_for(size);
        Mpsc {
            senders: CachePadded::new(Senders {
                reserved: AtomicU32::new(start),
                consumed: AtomicU32::new(start),
            }),
            consumed: CachePadded::new(AtomicU32::new(start)),
            slots: (0..size).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    fn slot(&self, index: u32) -> &AtomicU32 {
        &self.slots[index as usize & (self.slots.len() - 1)]
    }

    /// The `n` slots from the slot of index `first` on.
    #[inline(always)]
    fn runs(&self, first: u32, n: u32) -> [&[AtomicU32]; 2] {
        runs(&self.slots, first as usize & (self.slots.len() - 1), n as usize)
    }

    /// Reserves up to `want` slots with one CAS. Returns the first index and the number of slots.
    fn reserve(&self, want: u32) -> (u32, u32) {
        let (Senders { reserved, consumed: seen }, size) = (&*self.senders, self.slots.len() as u32);
        loop {
            let first = reserved.load(Relaxed);
            // Acquire: edge C, by way of the sender that saw it.
            let mut used = first.wrapping_sub(seen.load(Acquire));
            if used > size || size - used < want {
                // Acquire: edge C. It is read after `reserved`, so it may have passed it. If so, look again.
                let consumed = self.consumed.load(Acquire);
                used = first.wrapping_sub(consumed);
                if used > size {
                    if cfg!(loom) {
                        // A model may show the old `reserved` any number of times.
                        yield_now();
                    }
                    continue;
                }
                // Release: edge C, for a sender that sees it.
                seen.store(consumed, Release);
            }
            let n = want.min(size - used);
            if n == 0 {
                return (first, 0);
            }
            // Relaxed: the slots' own Release publishes; the CAS only hands out numbers.
            if reserved.compare_exchange_weak(first, first.wrapping_add(n), Relaxed, Relaxed).is_ok() {
                return (first, n);
            }
        }
    }

    /// Sends ids (none of them 0) from the front of `ids`. Returns how many there was room for.
    ///
    /// # Cost
    /// One CAS, and one store per id into lines that the receiver last cleared.
    #[inline]
    pub(crate) fn push(&self, mut ids: impl ExactSizeIterator<Item = u32>) -> usize {
        let (first, n) = self.reserve(ids.len() as u32);
        let runs = self.runs(first, n);
        // The lines are with the receiver.
        runs.iter().flat_map(|run| lines(run)).for_each(prefetch_write);
        for run in runs {
            for (slot, id) in run.iter().zip(&mut ids) {
                debug_assert!(id != 0);
                // Release: edge S.
                slot.store(id, Release);
            }
        }
        n as usize
    }

    /// Receives up to `want` ids, in the order of reservation, up to the first slot that is not published yet.
    ///
    /// Only the one receiver may call it; the caller's exclusive access to something else proves that. If `take`
    /// panics, the ids that were passed to it are gone from the ring and the others stay.
    #[inline]
    pub(crate) fn pop(&self, want: usize, mut take: impl FnMut(u32)) -> usize {
        let first = self.consumed.load(Relaxed);
        let want = want.min(self.slots.len()) as u32;
        if want > LINES_APART {
            // Reading their number is worth it: the lines are with the senders.
            let there = self.runs(first, self.len().min(want));
            there.iter().flat_map(|run| lines(run)).for_each(prefetch_write);
        }
        let mut taken = Taken { ring: self, first, n: 0 };
        'all: for run in self.runs(first, want) {
            for slot in run {
                // Acquire: edge S.
                let id = slot.load(Acquire);
                if id == 0 {
                    break 'all;
                }
                slot.store(0, Relaxed);
                taken.n += 1;
                take(id);
            }
        }
        taken.n as usize
    }

    /// Calls `look` for the ids in the ring, oldest first, up to the first slot that is not published yet. Only for the
    /// one receiver.
    #[cold]
    pub(crate) fn each(&self, mut look: impl FnMut(u32)) {
        let runs = self.runs(self.consumed.load(Relaxed), self.len());
        // Acquire: edge S.
        let ids = runs.into_iter().flatten().map(|slot| slot.load(Acquire));
        ids.take_while(|&id| id != 0).for_each(&mut look);
    }

    /// The number of ids in the ring: reserved and not yet consumed. A reading from another thread may be a moment old.
    pub(crate) fn len(&self) -> u32 {
        let consumed = self.consumed.load(Relaxed);
        self.senders.reserved.load(Relaxed).wrapping_sub(consumed).min(self.slots.len() as u32)
    }

    /// Closes the ring for good and takes the ids in it. The receiver reserves all room itself and never gives a slot
    /// back, so every later sender finds the ring full.
    ///
    /// It waits for senders between reserve and publish: a handful of instructions that cannot block.
    #[cold]
    pub(crate) fn close(&self, mut take: impl FnMut(u32)) {
        let end = loop {
            let (first, n) = self.reserve(self.slots.len() as u32);
            if n == 0
                || first.wrapping_add(n).wrapping_sub(self.consumed.load(Relaxed)) as usize
                    == self.slots.len()
            {
                break first;
            }
        };
        let mut index = self.consumed.load(Relaxed);
        while index != end {
            // Acquire: edge S.
            let id = self.slot(index).load(Acquire);
            if id == 0 {
                yield_now();
                continue;
            }
            take(id);
            index = index.wrapping_add(1);
        }
    }
}

/// Gives back the slots that were cleared so far, also if `take` panics.
struct Taken<'a> {
    ring: &'a Mpsc,
    first: u32,
    n: u32,
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.n > 0 {
            // Release: edge C.
            self.ring.consumed.store(self.first.wrapping_add(self.n), Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn ids_come_out_in_order_across_the_wrap_around_of_the_indices() {
        let ring = Mpsc::new(8, u32::MAX - 3);
        let mut next = 1;
        let mut expect = 1;
        for burst in [3, 8, 5, 1, 8, 7] {
            let sent = ring.push(next..next + burst);
            next += sent as u32;
            ring.pop(6, |id| {
                assert_eq!(id, expect);
                expect += 1;
            });
        }
        ring.pop(8, |_| expect += 1);
        assert_eq!(expect, next);
        assert_eq!(ring.len(), 0);
    }

    #[test]
    fn a_full_ring_takes_what_fits() {
        let ring = Mpsc::new(4, 0);
        assert_eq!(ring.push(1..7), 4);
        assert_eq!(ring.push(7..8), 0);
        assert_eq!(ring.len(), 4);
    }

    #[test]
    fn a_closed_ring_gives_what_it_held_and_takes_nothing() {
        let ring = Mpsc::new(8, u32::MAX);
        ring.push(1..6);
        let mut held = Vec::new();
        ring.close(|id| held.push(id));
        assert_eq!(held, [1, 2, 3, 4, 5]);
        assert_eq!(ring.push(6..7), 0);
    }
}
