//! The queues of other crates between one sender and one receiver: `rtrb`'s ring, and `crossbeam`'s queue, which has no
//! bursts.

use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
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

impl Side for Producer<u64> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| {
            let numbers: [u64; BURST] = std::array::from_fn(|i| next + i as u64);
            let sent = self.push_entire_slice(&numbers).is_ok();
            Passed { items: if sent { BURST as u64 } else { 0 }, wrong: 0 }
        })
    }
}

impl Side for Consumer<u64> {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        pass(next, |next| {
            let mut numbers = [0; BURST];
            let (came, _) = self.pop_partial_slice(&mut numbers);
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
