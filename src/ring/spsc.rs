//! A bounded ring between one sender and one receiver, in bursts.
//!
//! Items move: a sent item belongs to the ring, and a ring that is dropped drops the items in it (a frame is freed).
//! The cost of a burst is one line of the other side's index if the copy no longer suffices, and the lines of the
//! slots.

mod slot;

pub(crate) use slot::{Vacant, Waiting};

use super::cursor::{Consumer, Index, Producer};
use super::{runs, slots_for};
use crate::limits::CACHE_LINE;
use crate::sync::shim::{AtomicU32, UnsafeCell};
use crate::sync::{Steps, try_array};
use crate::sys::cpu::prefetch;
use crossbeam_utils::CachePadded;
use std::collections::TryReserveError;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The producer's and the consumer's index of a ring on the heap, each on its own line.
#[derive(Debug)]
struct Indices([CachePadded<AtomicU32>; 2]);

const PRODUCER: usize = 0;
const CONSUMER: usize = 1;

/// One of the two indices, in the form that the cursor needs.
#[derive(Debug)]
struct HeapIndex<T> {
    ring: Arc<Ring<T>>,
    which: usize,
}

impl<T> Index for HeapIndex<T> {
    #[inline(always)]
    fn load_relaxed(&self) -> u32 {
        self.ring.indices.0[self.which].load(Relaxed)
    }
    #[inline(always)]
    fn load_acquire(&self) -> u32 {
        self.ring.indices.0[self.which].load(Acquire)
    }
    #[inline(always)]
    fn store_release(&self, value: u32) {
        self.ring.indices.0[self.which].store(value, Release);
    }
}

struct Ring<T> {
    indices: Indices,
    /// The memory that contains the slots.
    storage: Box<[Slot<T>]>,
    /// The index of the first slot. It is on a cache line, so that a burst that fills lines shares none with its
    /// neighbours.
    first: usize,
    size: usize,
}

/// Without the slots, which others write.
impl<T> fmt::Debug for Ring<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring").field("slots", &self.size).finish_non_exhaustive()
    }
}

/// Initialised from the consumer's index up to the producer's, and nowhere else.
type Slot<T> = UnsafeCell<MaybeUninit<T>>;

impl<T> Ring<T> {
    /// Makes an empty ring of `size` slots, a power of two.
    ///
    /// # Errors
    /// There is no memory for the slots.
    fn new(size: usize, start: u32) -> Result<Self, TryReserveError> {
        let spare = CACHE_LINE / size_of::<T>().clamp(1, CACHE_LINE);
        let storage: Box<[Slot<T>]> = try_array(size + spare, || UnsafeCell::new(MaybeUninit::uninit()))?;
        // If no slot begins on a line, the slots begin anywhere.
        let first =
            Some(storage.as_ptr().align_offset(CACHE_LINE)).filter(|lead| *lead <= spare).unwrap_or(0);
        let indices = Indices([(); 2].map(|()| CachePadded::new(AtomicU32::new(start))));
        Ok(Ring { indices, storage, first, size })
    }

    #[inline(always)]
    fn slots(&self) -> &[Slot<T>] {
        &self.storage[self.first..self.first + self.size]
    }
}

// SAFETY: the sender accesses a slot before it is published, and the receiver after that, never both (edges P and C of
// the cursor). The items themselves only move between threads.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Both ends are gone. Their last writes happened before this through the Arc's count.
        let [head, mut tail] = [PRODUCER, CONSUMER].map(|which| self.indices.0[which].load(Relaxed));
        let mut steps = Steps::new();
        while tail != head {
            let slot = tail as usize & (self.size - 1);
            // SAFETY: between the indices, so initialised and not yet taken.
            steps.run(|| self.slots()[slot].with_mut(|item| unsafe { (*item).assume_init_drop() }));
            tail = tail.wrapping_add(1);
        }
        steps.end();
    }
}

/// The end of a ring that sends items. It has its cache lines to itself: its copies of the indices change with every
/// burst, and the ends are often made together and then lie side by side.
///
/// The receiver gets exactly the type that this end takes. So a lifetime inside of the items cannot become shorter at
/// this end alone:
/// ```compile_fail,E0308
/// # use netmem::ring::Sender;
/// type Any = for<'a> fn(&'a str);
/// fn weaker(sender: Sender<Any>) -> Sender<fn(&'static str)> { sender }
/// ```
#[derive(Debug)]
#[repr(align(128))]
pub struct Sender<T> {
    cursor: Producer<HeapIndex<T>>,
    ring: Arc<Ring<T>>,
}

/// The end of a ring that receives items. It has its cache lines to itself, as the [`Sender`] does.
///
/// A lifetime cannot become longer at this end either:
/// ```compile_fail,E0308
/// # use netmem::ring::Receiver;
/// type Any = for<'a> fn(&'a str);
/// fn stronger(receiver: Receiver<fn(&'static str)>) -> Receiver<Any> { receiver }
/// ```
#[derive(Debug)]
#[repr(align(128))]
pub struct Receiver<T> {
    cursor: Consumer<HeapIndex<T>>,
    ring: Arc<Ring<T>>,
}

/// Makes a ring of at least `size` slots (rounded up to a power of two).
///
/// # Panics
/// If `size` is above 2^31, or there is no memory for the slots ([`try_ring`] returns that as an error).
#[cold]
pub fn ring<T: Send>(size: u32) -> (Sender<T>, Receiver<T>) {
    ring_from(size, 0)
}

/// Does the same as [`ring`], but returns an error if there is no memory for the slots.
///
/// # Errors
/// There is no memory for the slots.
///
/// # Panics
/// If `size` is above 2^31.
#[cold]
pub fn try_ring<T: Send>(size: u32) -> Result<(Sender<T>, Receiver<T>), TryReserveError> {
    try_ring_from(size, 0)
}

/// Does the same as [`ring`], with both indices at `start`: for tests that begin near the wrap-around.
pub(crate) fn ring_from<T: Send>(size: u32, start: u32) -> (Sender<T>, Receiver<T>) {
    try_ring_from(size, start).unwrap_or_else(|error| panic!("a ring of {size} slots: {error}"))
}

fn try_ring_from<T: Send>(size: u32, start: u32) -> Result<(Sender<T>, Receiver<T>), TryReserveError> {
    let size = slots_for(size);
    let ring = Arc::new(Ring::new(size as usize, start)?);
    let index = |which| HeapIndex { ring: Arc::clone(&ring), which };
    let mut sender = Producer::new(index(PRODUCER), index(CONSUMER), size);
    // Reads the other side's index, without which the ring looks full. It cannot be impossible here.
    let _ = sender.room(1);
    let receiver = Consumer::new(index(CONSUMER), index(PRODUCER), size);
    Ok((Sender { cursor: sender, ring: Arc::clone(&ring) }, Receiver { cursor: receiver, ring }))
}

impl<T> Sender<T> {
    /// The number of free slots, at most `want`.
    #[inline]
    pub fn room(&mut self, want: usize) -> usize {
        // A ring on the heap has no untrusted side: Corrupt cannot happen.
        self.cursor.room(want.min(self.capacity()) as u32).unwrap_or(0) as usize
    }

    /// Sends a burst: as many of `items` as there is room for, at most `want`. Returns how many.
    ///
    /// It takes no item from the iterator that does not fit. If the iterator panics, the items that it gave before are
    /// sent.
    #[inline]
    pub fn send_burst(&mut self, want: usize, items: &mut impl Iterator<Item = T>) -> usize {
        self.send_each(want, |slot| {
            if let Some(item) = items.next() {
                slot.fill(item);
            }
        })
    }

    /// Sends a burst of at most `want` items. `fill` writes each item in place. The burst ends at the first slot that
    /// `fill` leaves free. Returns how many.
    ///
    /// If `fill` panics, the items that it filled before are sent.
    #[inline]
    pub(crate) fn send_each(&mut self, want: usize, mut fill: impl FnMut(Vacant<'_, T>)) -> usize {
        let room = self.room(want);
        let Self { cursor, ring } = self;
        let free = runs(ring.slots(), cursor.slot(0), room);
        let mut filled = Filled { cursor, done: 0 };
        'burst: for run in free {
            for slot in run {
                let before = filled.done;
                // SAFETY: an unpublished slot belongs to the sender alone (edge C), and holds nothing to drop.
                slot.with_mut(|place| fill(Vacant::new(unsafe { &mut *place }, &mut filled.done)));
                if filled.done == before {
                    break 'burst;
                }
            }
        }
        filled.done as usize
    }

    /// Sends items from the front of `items`, as many as there is room for. Returns how many. The others move up.
    ///
    /// # Cost
    /// A copy of them, while [`Sender::send_burst`] asks the iterator for each.
    #[inline]
    pub fn send_all(&mut self, items: &mut Vec<T>) -> usize {
        let n = self.room(items.len());
        let rest = items.len() - n;
        let free = runs(self.ring.slots(), self.cursor.slot(0), n);
        // SAFETY: the first `n` items are initialised and do not belong to `items` any more when they move, once, into
        // slots that belong to the sender alone (edge C) and hold nothing to drop. Nothing between can panic.
        unsafe {
            items.set_len(0);
            let mut next = items.as_ptr();
            for run in free {
                for slot in run {
                    slot.with_mut(|place| place.write(MaybeUninit::new(next.read())));
                    next = next.add(1);
                }
            }
            items.as_mut_ptr().copy_from(next, rest);
            items.set_len(rest);
        }
        self.cursor.publish(n as u32);
        n
    }

    /// Sends one item, or gives it back if the ring is full.
    ///
    /// # Errors
    /// The item, if there is no room.
    #[inline]
    pub fn send(&mut self, item: T) -> Result<(), T> {
        if self.room(1) == 0 {
            return Err(item);
        }
        // SAFETY: as in a burst.
        self.ring.slots()[self.cursor.slot(0)]
            .with_mut(|place| unsafe { place.write(MaybeUninit::new(item)) });
        self.cursor.publish(1);
        Ok(())
    }

    /// The number of items sent and not yet seen received.
    pub fn len(&self) -> usize {
        self.cursor.len() as usize
    }

    /// Whether every sent item was seen received.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of slots.
    pub fn capacity(&self) -> usize {
        self.cursor.size() as usize
    }
}

impl<T> Receiver<T> {
    /// The number of waiting items, at most `want`.
    #[inline]
    pub fn ready(&mut self, want: usize) -> usize {
        self.cursor.ready(want.min(self.ring.size) as u32).unwrap_or(0) as usize
    }

    /// Receives a burst of at most `want` items, oldest first. Returns how many.
    ///
    /// If `take` panics, the items that were passed to it are gone from the ring and the others stay.
    #[inline]
    pub fn recv_burst(&mut self, want: usize, mut take: impl FnMut(T)) -> usize {
        self.recv_each(want, |item| take(item.take()))
    }

    /// Receives as [`Receiver::recv_burst`] does, up to the first item that `look` does not take. That item stays, as
    /// the oldest.
    #[inline]
    pub(crate) fn recv_each(&mut self, want: usize, mut look: impl FnMut(Waiting<'_, T>)) -> usize {
        let ready = self.ready(want);
        let Self { cursor, ring } = self;
        let waiting = runs(ring.slots(), cursor.slot(0), ready);
        let mut taken = Taken { cursor, done: 0 };
        'burst: for run in waiting {
            for slot in run {
                let before = taken.done;
                // SAFETY: a published slot that is not released yet belongs to the receiver alone (edge P) and is
                // initialised. It is read once, and released if it was counted.
                slot.with_mut(|item| look(unsafe { Waiting::new(&mut *item, &mut taken.done) }));
                if taken.done == before {
                    break 'burst;
                }
            }
        }
        taken.done as usize
    }

    /// Receives up to `want` items, oldest first, behind the items of `items`. Returns how many.
    ///
    /// # Panics
    /// If `items` has no room for them and none can be allocated; the ring is unchanged.
    ///
    /// # Cost
    /// A copy of them, while [`Receiver::recv_burst`] makes a call for each.
    #[inline]
    pub fn recv_all(&mut self, want: usize, items: &mut Vec<T>) -> usize {
        let n = self.ready(want);
        items.reserve(n);
        let waiting = runs(self.ring.slots(), self.cursor.slot(0), n);
        // SAFETY: published slots that are not released yet belong to the receiver alone (edge P) and are initialised.
        // Each is read once, into the room just made, and released. Nothing between can panic.
        unsafe {
            let mut place = items.as_mut_ptr().add(items.len());
            for run in waiting {
                for slot in run {
                    place.write(slot.with_mut(|item| (*item).assume_init_read()));
                    place = place.add(1);
                }
            }
            items.set_len(items.len() + n);
        }
        self.cursor.release(n as u32);
        n
    }

    /// Prefetches the memory of the next `n` items, whether they have been sent or not. Items as large as cache lines
    /// then travel together with the index that publishes them, and not after it.
    #[inline]
    pub(crate) fn prefetch(&self, n: u32) {
        let slots = self.ring.slots();
        for i in 0..n {
            prefetch(std::ptr::from_ref(&slots[self.cursor.slot(i)]).cast());
        }
    }

    /// Receives the oldest item.
    #[inline]
    pub fn recv(&mut self) -> Option<T> {
        if self.ready(1) == 0 {
            return None;
        }
        // SAFETY: as in a burst; it is read once, since it is released at once.
        let item =
            self.ring.slots()[self.cursor.slot(0)].with_mut(|item| unsafe { (*item).assume_init_read() });
        self.cursor.release(1);
        Some(item)
    }
}

/// Publishes the slots filled so far, also if `fill` panics.
struct Filled<'a, T> {
    cursor: &'a mut Producer<HeapIndex<T>>,
    done: u32,
}

impl<T> Drop for Filled<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.cursor.publish(self.done);
    }
}

/// Gives back the slots read so far, also if `take` panics.
struct Taken<'a, T> {
    cursor: &'a mut Consumer<HeapIndex<T>>,
    done: u32,
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.cursor.release(self.done);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_burst_goes_around_the_end_and_stops_where_it_is_not_wanted() {
        let (mut sender, mut receiver) = ring_from::<u64>(8, u32::MAX - 5);
        for round in 0..40 {
            let (first, n) = (round * 8, round as usize % 9);
            assert_eq!(sender.send_burst(n, &mut (first..)), n);
            let (mut got, half) = (Vec::new(), n as u64 / 2);
            let mut take_half = |item: Waiting<'_, u64>| {
                if *item < first + half {
                    got.push(item.take());
                }
            };
            assert_eq!(receiver.recv_each(8, &mut take_half), n / 2);
            assert_eq!(receiver.recv_burst(8, |item| got.push(item)), n - n / 2);
            assert_eq!(got, (first..first + n as u64).collect::<Vec<_>>());
        }
        assert_eq!((sender.send(7), receiver.recv(), receiver.recv()), (Ok(()), Some(7), None));
    }

    /// Seen: a new sender had not read the other side's index, and so told of a ring full of items.
    #[test]
    fn a_new_ring_is_empty_for_its_sender() {
        for start in [0, 1, u32::MAX] {
            let (mut sender, mut receiver) = ring_from::<u32>(4, start);
            assert_eq!((sender.len(), sender.is_empty(), sender.room(9)), (0, true, 4));
            assert_eq!((sender.send(7), sender.len(), receiver.recv()), (Ok(()), 1, Some(7)));
        }
    }

    #[test]
    fn a_burst_ends_with_the_items_and_with_the_room() {
        let (mut sender, mut receiver) = ring::<u32>(4);
        assert_eq!(sender.send_burst(4, &mut (0..3)), 3);
        let mut items = 3..9;
        assert_eq!((sender.send_burst(4, &mut items), items.next()), (1, Some(4)));
        assert_eq!((sender.send(4), receiver.recv(), sender.send(4)), (Err(4), Some(0), Ok(())));
    }

    #[test]
    fn all_items_go_around_the_end_as_far_as_there_is_room_and_each_is_dropped_once() {
        let held: Vec<_> = (0..64).map(Arc::new).collect();
        let (mut sender, mut receiver) = ring_from(8, u32::MAX - 5);
        let (mut to_send, mut got) = (held.clone(), vec![Arc::new(99)]);
        let mut inside = 0;
        for round in 0..16 {
            let fit = to_send.len().min(8 - inside);
            assert_eq!(sender.send_all(&mut to_send), fit);
            let there = (round % 5).min(inside + fit);
            assert_eq!(receiver.recv_all(round % 5, &mut got), there);
            inside = inside + fit - there;
        }
        assert_eq!(got[1..], held[..got.len() - 1]);
        drop((to_send, sender, receiver, got));
        assert!(held.iter().all(|item| Arc::strong_count(item) == 1));
    }

    #[test]
    fn slots_begin_on_a_cache_line_where_their_size_allows_it() {
        fn lead<T>() -> usize {
            let rings: Vec<Ring<T>> = [1, 2, 64, 512].map(|size| Ring::new(size, 0).unwrap()).into();
            rings.iter().map(|ring| ring.slots().as_ptr().addr() % CACHE_LINE).sum()
        }
        assert_eq!([lead::<u8>(), lead::<u32>(), lead::<u64>(), lead::<[u64; 2]>()], [0; 4]);
        assert_eq!(Ring::<[u8; 24]>::new(8, 0).unwrap().slots().len(), 8);
    }

    /// Seen: the process aborted.
    #[test]
    fn a_ring_for_which_there_is_no_memory_is_an_error() {
        assert!(try_ring::<[u64; 1 << 13]>(1 << 31).is_err());
    }
}
