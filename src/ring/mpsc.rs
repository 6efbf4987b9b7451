//! A bounded ring of ids from any number of senders to one receiver: one CAS per batch.
//!
//! A sender reserves slots with a CAS on the reserve index. It publishes each slot by writing a non-zero id into it. A
//! sender that stops between the two delays the receiver at its own slots, and delays no other sender. The receiver
//! clears a slot before it gives the slot back.
//!
//! | edge | written by | read by |
//! |---|---|---|
//! | `S` Release of a slot's id | [`Mpsc::push`] | Acquire in [`Mpsc::receive`]: everything that the sender did before |
//! | `C` Release of the consumer's index | [`Taken`] | Acquire in [`Mpsc::reserve`], of that or of what a sender saw of it: the slot is cleared |

use super::{runs, slots, slots_for};
use crate::limits::CACHE_LINE;
use crate::sync::shim::{AtomicU32, yield_again, yield_now};
use crate::sys::cpu::{lines, prefetch_write};
use crossbeam_utils::CachePadded;
use std::fmt;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// From this number of ids on, their lines are prefetched together. With fewer ids, only few lines travel while the
/// first ids are read.
const LINES_APART: u32 = 4 * (CACHE_LINE / size_of::<AtomicU32>()) as u32;

/// The ring. Senders share it by reference. The receiver proves that it is alone by the lock or slot that it is in.
///
/// Invariant: `reserved − consumed <= size` (wrapping), and every slot outside that range holds 0.
pub(crate) struct Mpsc {
    /// Senders write these. A sender needs no line of the receiver while there is room according to the copy in here.
    senders: CachePadded<Senders>,
    /// The next index to consume. The receiver writes it.
    consumed: CachePadded<AtomicU32>,
    slots: Box<[AtomicU32]>,
}

/// Without the slots, which others write.
impl fmt::Debug for Mpsc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mpsc").field("slots", &self.slots.len()).finish_non_exhaustive()
    }
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
                // Release: edge C, for a sender that sees it. An older value that a slow sender puts back makes the room look
                // smaller. It would look larger only after a pause in which all but a ring's size of 2^32 numbers passed.
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

    /// Sends the ids (none of them 0) that `id` makes from `items`, from the first on. Returns how many there was room
    /// for. `id` does not panic.
    ///
    /// # Cost
    /// One CAS, and a store for four ids, into lines that the receiver last cleared. A single id skips the loops over
    /// runs of slots.
    #[inline]
    pub(crate) fn push<S>(&self, items: &[S], id: impl Fn(&S) -> u32) -> usize {
        let (first, n) = self.reserve(items.len() as u32);
        if let ([item], 1) = (items, n) {
            store(std::slice::from_ref(self.slot(first)), std::slice::from_ref(item), &id);
            return 1;
        }
        let runs = self.runs(first, n);
        // The lines are with the receiver.
        runs.iter().flat_map(|run| lines(run)).for_each(prefetch_write);
        let (front, back) = items[..n as usize].split_at(runs[0].len());
        for (run, items) in runs.into_iter().zip([front, back]) {
            let (lead, fours, rest) = slots::parts(run);
            let (lead_items, items) = items.split_at(lead.len());
            let (four_items, rest_items) = items.as_chunks();
            store(lead, lead_items, &id);
            fours
                .iter()
                .zip(four_items)
                .for_each(|(four, items)| slots::store(four, items.each_ref().map(&id)));
            store(rest, rest_items, &id);
        }
        n as usize
    }

    /// Receives up to `want` ids, in the order of reservation, up to the first slot that is not published yet. Passes
    /// them to `take` one by one.
    ///
    /// Only the one receiver may call it; the caller's exclusive access to something else proves that. If `take`
    /// panics, the ids that were passed to it are gone from the ring and the others stay.
    #[cfg(any(test, feature = "comparisons"))]
    #[inline]
    pub(crate) fn pop(&self, want: usize, mut take: impl FnMut(u32)) -> usize {
        self.receive(want, |n, ids| {
            for id in ids {
                *n += 1;
                take(*id);
            }
        })
    }

    /// Receives up to `want` ids, in the order of reservation, up to the first slot that is not published yet. Passes
    /// them to `take` up to four at a time, with the number of those before them. `take` does not panic, and does not use
    /// the ring, which still holds the ids.
    ///
    /// Only the one receiver may call it; the caller's exclusive access to something else proves that.
    #[inline]
    pub(crate) fn pop_fours(&self, want: usize, mut take: impl FnMut(usize, &[u32])) -> usize {
        self.receive(want, |n, ids| {
            let before = *n as usize;
            // First, so that a panic of `take` would lose ids and never give one out twice.
            *n += ids.len() as u32;
            take(before, ids);
        })
    }

    /// Passes up to `want` ids to `take`, which adds to the number what it has taken.
    #[inline(always)]
    fn receive(&self, want: usize, mut take: impl FnMut(&mut u32, &[u32])) -> usize {
        let first = self.consumed.load(Relaxed);
        let want = want.min(self.slots.len()) as u32;
        if want > LINES_APART {
            // Reading their number is worth it: the lines are with the senders.
            let there = self.runs(first, self.len().min(want));
            there.iter().flat_map(|run| lines(run)).for_each(prefetch_write);
        }
        let mut taken = Taken { ring: self, first, n: 0 };
        'all: for run in self.runs(first, want) {
            let (lead, fours, rest) = slots::parts(run);
            if !one_by_one(lead, &mut taken.n, &mut take) {
                break;
            }
            for four in fours {
                match slots::load(four) {
                    Some(ids) => take(&mut taken.n, &ids),
                    None => {
                        one_by_one(four, &mut taken.n, &mut take);
                        break 'all;
                    }
                }
            }
            if !one_by_one(rest, &mut taken.n, &mut take) {
                break;
            }
        }
        taken.n as usize
    }

    /// Calls `look` for the ids in the ring, oldest first, up to the first slot that is not published yet. Only for the
    /// one receiver.
    #[cold]
    pub(crate) fn each(&self, look: impl FnMut(u32)) {
        let runs = self.runs(self.consumed.load(Relaxed), self.len());
        // Acquire: edge S.
        let ids = runs.into_iter().flatten().map(|slot| slot.load(Acquire));
        ids.take_while(|&id| id != 0).for_each(look);
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
        let (mut index, mut waits) = (self.consumed.load(Relaxed), 0);
        while index != end {
            // Acquire: edge S.
            let id = self.slot(index).load(Acquire);
            if id == 0 {
                yield_again(&mut waits);
                continue;
            }
            take(id);
            index = index.wrapping_add(1);
        }
    }
}

/// Writes the ids of `items` into slots.
#[inline(always)]
fn store<S>(slots: &[AtomicU32], items: &[S], id: impl Fn(&S) -> u32) {
    for (slot, item) in slots.iter().zip(items) {
        let id = id(item);
        debug_assert!(id != 0);
        // Release: edge S.
        slot.store(id, Release);
    }
}

/// Passes the ids of a few slots to `take`, up to the first empty slot. Returns false if there is one.
#[inline(always)]
fn one_by_one(slots: &[AtomicU32], n: &mut u32, take: &mut impl FnMut(&mut u32, &[u32])) -> bool {
    slots.iter().all(|slot| {
        // Acquire: edge S.
        let id = slot.load(Acquire);
        if id != 0 {
            take(n, &[id]);
        }
        id != 0
    })
}

/// Clears the slots whose ids were taken, and gives them back, also if `take` panics.
struct Taken<'a> {
    ring: &'a Mpsc,
    first: u32,
    n: u32,
}

impl Drop for Taken<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.n > 0 {
            self.ring.runs(self.first, self.n).into_iter().for_each(slots::clear);
            // Release: edge C.
            self.ring.consumed.store(self.first.wrapping_add(self.n), Release);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Sends the numbers of a range.
    fn push(ring: &Mpsc, ids: std::ops::Range<u32>) -> usize {
        ring.push(&ids.collect::<Vec<_>>(), |id| *id)
    }

    #[test]
    fn ids_come_out_in_order_across_the_wrap_around_of_the_indices() {
        for pop in [singly, in_fours] {
            let ring = Mpsc::new(16, u32::MAX - 3);
            let (mut next, mut got) = (1, Vec::new());
            for burst in [3, 8, 5, 1, 16, 7, 15] {
                next += push(&ring, next..next + burst) as u32;
                pop(&ring, 11, &mut got);
            }
            pop(&ring, 16, &mut got);
            assert_eq!(got, (1..next).collect::<Vec<_>>());
            assert_eq!(ring.len(), 0);
            assert!(ring.slots.iter().all(|slot| slot.load(Relaxed) == 0));
        }
    }

    fn singly(ring: &Mpsc, want: usize, got: &mut Vec<u32>) -> usize {
        ring.pop(want, |id| got.push(id))
    }

    fn in_fours(ring: &Mpsc, want: usize, got: &mut Vec<u32>) -> usize {
        ring.pop_fours(want, |_, ids| got.extend(ids))
    }

    #[test]
    fn a_receiver_stops_at_each_slot_that_is_not_published() {
        for gap in 0..12 {
            for pop in [singly, in_fours] {
                let (ring, mut got) = (Mpsc::new(16, 7), Vec::new());
                push(&ring, 1..13);
                let slot = ring.slot(7 + gap);
                slot.store(0, Relaxed);
                assert_eq!(pop(&ring, 16, &mut got), gap as usize);
                slot.store(gap + 1, Relaxed);
                assert_eq!(pop(&ring, 16, &mut got), 12 - gap as usize);
                assert_eq!(got, (1..13).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn a_receiver_that_panics_loses_no_id_but_the_one_it_was_given() {
        for bad in 1..13 {
            let (ring, mut got) = (Mpsc::new(16, 0), Vec::new());
            push(&ring, 1..13);
            let panics = || ring.pop(16, |id| assert_ne!(id, bad, "seen"));
            assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
            assert_eq!(push(&ring, 13..17), 4);
            singly(&ring, 16, &mut got);
            assert_eq!(got, (bad + 1..17).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_full_ring_takes_what_fits() {
        let ring = Mpsc::new(4, 0);
        assert_eq!(push(&ring, 1..7), 4);
        assert_eq!(push(&ring, 7..8), 0);
        assert_eq!(ring.len(), 4);
    }

    #[test]
    fn a_closed_ring_gives_what_it_held_and_takes_nothing() {
        let ring = Mpsc::new(8, u32::MAX);
        push(&ring, 1..6);
        let mut held = Vec::new();
        ring.close(|id| held.push(id));
        assert_eq!(held, [1, 2, 3, 4, 5]);
        assert_eq!(push(&ring, 6..7), 0);
    }
}
