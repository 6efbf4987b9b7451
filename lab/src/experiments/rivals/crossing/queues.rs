//! The queues of other crates between one sender and one receiver: `rtrb`'s ring, whose bursts are made in its slots or
//! copied, and `crossbeam`'s queue, which has no bursts.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use rtrb::chunks::{ChunkError, ReadChunk};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Crossing, SLOTS};
use crate::experiments::rivals::sides::{Side, Singly, pass};
use crate::rivals::dpdk::{BURST, Passed};

/// All of them, one number or a burst at a time.
pub(super) fn rings(singly: bool) -> Vec<Crossing<'static>> {
    let ring = || RingBuffer::<u64>::new(SLOTS);
    let (producer, consumer) = ring();
    let mut all = if singly {
        vec![Crossing::new("rtrb", Singly(producer), Singly(consumer))]
    } else {
        let (sends, receives) = ring();
        vec![
            Crossing::new("rtrb", producer, consumer),
            Crossing::new("rtrb/copied", Copied(sends), Copied(receives)),
        ]
    };
    let queue = Arc::new(ArrayQueue::<u64>::new(SLOTS));
    all.push(Crossing::new("crossbeam", Push(Arc::clone(&queue)), Pop(queue)));
    all
}

/// Numbers are made in the ring's slots and read there, as netmem's are, without an array between.
impl Side for Producer<u64> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| {
            let Ok(slots) = self.write_chunk_uninit(BURST) else { return Passed::default() };
            Passed { items: slots.fill_from_iter(next..) as u64, wrong: 0 }
        })
    }
}

impl Side for Consumer<u64> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| match self.read_chunk(BURST) {
            Ok(numbers) => taken(numbers, next),
            Err(ChunkError::TooFewSlots(few)) => {
                self.read_chunk(few).map_or(Passed::default(), |numbers| taken(numbers, next))
            }
        })
    }
}

/// Reads the numbers where they are, and gives their slots back.
#[inline(always)]
fn taken(numbers: ReadChunk<'_, u64>, next: u64) -> Passed {
    let (first, second) = numbers.as_slices();
    let wrong = first.iter().chain(second).zip(next..).filter(|(number, wanted)| **number != *wanted).count();
    let items = numbers.len() as u64;
    numbers.commit_all();
    Passed { items, wrong: wrong as u64 }
}

/// A side that copies a burst from an array into the ring, or out of it.
struct Copied<S>(S);

impl Side for Copied<Producer<u64>> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| {
            let numbers: [u64; BURST] = std::array::from_fn(|i| next + i as u64);
            let sent = self.0.push_entire_slice(&numbers).is_ok();
            Passed { items: if sent { BURST as u64 } else { 0 }, wrong: 0 }
        })
    }
}

impl Side for Copied<Consumer<u64>> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        let mut numbers = [0; BURST];
        pass(next, |next| {
            let (came, _) = self.0.pop_partial_slice(&mut numbers);
            let wrong = came.iter().zip(next..).filter(|(number, wanted)| **number != *wanted).count();
            Passed { items: came.len() as u64, wrong: wrong as u64 }
        })
    }
}

impl Side for Singly<Producer<u64>> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| Passed { items: self.0.push(next).is_ok().into(), wrong: 0 })
    }
}

impl Side for Singly<Consumer<u64>> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| Passed::of(self.0.pop().ok(), next))
    }
}

struct Push(Arc<ArrayQueue<u64>>);

impl Side for Push {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| Passed { items: self.0.push(next).is_ok().into(), wrong: 0 })
    }
}

struct Pop(Arc<ArrayQueue<u64>>);

impl Side for Pop {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| Passed::of(self.0.pop(), next))
    }
}
