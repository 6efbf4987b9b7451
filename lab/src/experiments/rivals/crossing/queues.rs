//! The queues of other crates between one sender and one receiver: `rtrb`'s ring, and `crossbeam`'s queue, which has no
//! bursts.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use rtrb::chunks::{ChunkError, ReadChunk};
use rtrb::{Consumer, Producer, RingBuffer};

use super::{Crossing, SLOTS};
use crate::experiments::rivals::sides::{Side, Singly, pass};
use crate::rivals::dpdk::{BURST, Passed};

/// Both, one number or a burst at a time.
pub(super) fn rings(singly: bool) -> [Crossing<'static>; 2] {
    let (producer, consumer) = RingBuffer::<u64>::new(SLOTS);
    let rtrb = if singly {
        Crossing::new("rtrb", Singly(producer), Singly(consumer))
    } else {
        Crossing::new("rtrb", producer, consumer)
    };
    let queue = Arc::new(ArrayQueue::<u64>::new(SLOTS));
    [rtrb, Crossing::new("crossbeam", Push(Arc::clone(&queue)), Pop(queue))]
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
