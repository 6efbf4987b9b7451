//! A bounded ring between one sender and one receiver, in bursts.
//!
//! Items move: what was sent belongs to the ring, and a ring dropped with items in it drops them (a frame
//! goes home). Cost per burst: one line of the other side's index when the copy no longer suffices, and the
//! slots' own lines.

use super::cursor::{Consumer, Index, Producer};
use crate::sync::shim::{AtomicU32, UnsafeCell};
use crate::sys::cpu::prefetch;
use crossbeam_utils::CachePadded;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// The producer's and the consumer's index of a ring on the heap, each on its own line.
#[derive(Debug)]
struct Indices([CachePadded<AtomicU32>; 2]);

const PRODUCER: usize = 0;
const CONSUMER: usize = 1;

/// One of the two, as the cursor wants it.
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

#[derive(Debug)]
struct Ring<T> {
    indices: Indices,
    /// Initialised from the consumer's index up to the producer's, and nowhere else.
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: a slot is reached by the sender before it is published and by the receiver after, never by both
// (edges P and C of the cursor); the items themselves only move between threads.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // Both ends are gone: their last writes happened before this through the Arc's count.
        let [head, mut tail] = [PRODUCER, CONSUMER].map(|which| self.indices.0[which].load(Relaxed));
        while tail != head {
            let slot = tail as usize & (self.slots.len() - 1);
            // SAFETY: between the indices, so initialised and not yet taken.
            self.slots[slot].with_mut(|item| unsafe { (*item).assume_init_drop() });
            tail = tail.wrapping_add(1);
        }
    }
}

/// The sending end. Alone on its cache lines: its copies of the indices change with every burst, and the ends are often
/// made, and then lie, side by side.
#[derive(Debug)]
#[repr(align(128))]
pub struct Sender<T> {
    cursor: Producer<HeapIndex<T>>,
    ring: Arc<Ring<T>>,
}

/// The receiving end. Alone on its cache lines, as the [`Sender`].
#[derive(Debug)]
#[repr(align(128))]
pub struct Receiver<T> {
    cursor: Consumer<HeapIndex<T>>,
    ring: Arc<Ring<T>>,
}

/// Makes a ring of at least `size` slots (rounded up to a power of two).
///
/// # Panics
/// If `size` is above 2^31.
#[cold]
pub fn ring<T: Send>(size: u32) -> (Sender<T>, Receiver<T>) {
    ring_from(size, 0)
}

/// As [`ring`], with both indices standing at `start`: for tests that begin near the wrap-around.
pub(crate) fn ring_from<T: Send>(size: u32, start: u32) -> (Sender<T>, Receiver<T>) {
    let size = size.max(1).next_power_of_two();
    let slots = (0..size).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let indices = Indices([(); 2].map(|()| CachePadded::new(AtomicU32::new(start))));
    let ring = Arc::new(Ring { indices, slots });
    let index = |which| HeapIndex { ring: Arc::clone(&ring), which };
    let sender = Producer::new(index(PRODUCER), index(CONSUMER), size);
    let receiver = Consumer::new(index(CONSUMER), index(PRODUCER), size);
    (Sender { cursor: sender, ring: Arc::clone(&ring) }, Receiver { cursor: receiver, ring })
}

impl<T> Sender<T> {
    /// Free slots, at most `want`.
    #[inline]
    pub fn room(&mut self, want: usize) -> usize {
        // A ring on the heap has no untrusted side: Corrupt cannot happen.
        self.cursor.room(want.min(self.ring.slots.len()) as u32).unwrap_or(0) as usize
    }

    /// Sends a burst: as many of `items` as there is room for, at most `want`; returns how many.
    ///
    /// Items that do not fit are not taken from the iterator.
    #[inline]
    pub fn send_burst(&mut self, want: usize, items: &mut impl Iterator<Item = T>) -> usize {
        let room = self.room(want);
        let mut sent = 0;
        while sent < room {
            let Some(item) = items.next() else { break };
            let slot = &self.ring.slots[self.cursor.slot(sent as u32)];
            // SAFETY: an unpublished slot is the sender's alone (edge C), and holds nothing to drop.
            slot.with_mut(|place| unsafe { place.write(MaybeUninit::new(item)) });
            sent += 1;
        }
        self.cursor.publish(sent as u32);
        sent
    }

    /// Sends one item, or gives it back when the ring is full.
    ///
    /// # Errors
    /// The item, when there is no room.
    #[inline]
    pub fn send(&mut self, item: T) -> Result<(), T> {
        if self.room(1) == 0 {
            return Err(item);
        }
        self.send_burst(1, &mut std::iter::once(item));
        Ok(())
    }

    /// Items sent and not yet seen received.
    pub fn len(&self) -> usize {
        self.cursor.len() as usize
    }

    /// Whether every item sent was seen received.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Slots in all.
    pub fn capacity(&self) -> usize {
        self.cursor.size() as usize
    }
}

impl<T> Receiver<T> {
    /// Items waiting, at most `want`.
    #[inline]
    pub fn ready(&mut self, want: usize) -> usize {
        self.cursor.ready(want.min(self.ring.slots.len()) as u32).unwrap_or(0) as usize
    }

    /// Receives a burst of at most `want` items, oldest first; returns how many.
    ///
    /// If `take` panics, the items it was given are gone from the ring and the others stay.
    #[inline]
    pub fn recv_burst(&mut self, want: usize, take: impl FnMut(T)) -> usize {
        self.recv_while(want, |_| true, take)
    }

    /// As [`Receiver::recv_burst`], up to the first item for which `wanted` does not hold: that one stays, the oldest.
    #[inline]
    pub fn recv_while(
        &mut self,
        want: usize,
        mut wanted: impl FnMut(&T) -> bool,
        mut take: impl FnMut(T),
    ) -> usize {
        let ready = self.ready(want) as u32;
        let mut burst = Taken { receiver: self, done: 0 };
        while burst.done < ready {
            let slot = &burst.receiver.ring.slots[burst.receiver.cursor.slot(burst.done)];
            // SAFETY: a published slot not yet released is the receiver's alone (edge P) and initialised.
            if !slot.with_mut(|item| wanted(unsafe { (*item).assume_init_ref() })) {
                break;
            }
            // SAFETY: as above; it is counted as done before `take` runs, so it is read once.
            let item = slot.with_mut(|item| unsafe { (*item).assume_init_read() });
            burst.done += 1;
            take(item);
        }
        burst.done as usize
    }

    /// Asks for the memory of the next `n` items, whether they are there or not: where items are as large as cache lines those
    /// travel together with the index that says so, and not after it.
    #[inline]
    pub(crate) fn prefetch(&self, n: u32) {
        for i in 0..n {
            prefetch(std::ptr::from_ref(&self.ring.slots[self.cursor.slot(i)]).cast());
        }
    }

    /// Receives the oldest item.
    #[inline]
    pub fn recv(&mut self) -> Option<T> {
        let mut one = None;
        self.recv_burst(1, |item| one = Some(item));
        one
    }
}

/// Gives the slots read so far back, also when the taker panics.
struct Taken<'a, T> {
    receiver: &'a mut Receiver<T>,
    done: u32,
}

impl<T> Drop for Taken<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.receiver.cursor.release(self.done);
    }
}
