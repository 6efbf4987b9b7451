//! The limit of packets: one cache line for each item, written on the first core and read on the second. Nothing is
//! allocated or freed; the lines are used in turn.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use netmem::limits::CACHE_LINE;
use netmem::ring::{Receiver, Sender, ring};
use netmem::system::cpu::{prefetch, prefetch_write};

use super::{Crossing, SLOTS};
use crate::experiments::rivals::sides::{Side, pass};
use crate::experiments::rivals::{CACHE, FRAME, LINE, STAMP};
use crate::rivals::dpdk::{BURST, Passed};

/// The line of an item. Its first word is the item's number.
#[repr(align(64))]
struct Line([AtomicU64; LINE / size_of::<u64>()]);

/// Lines that are used in turn: as many as packets fit into a cache and the ring.
const LINES: usize = CACHE + SLOTS;

/// Lines from one that is used to the next: as far as frames, and one more, so that the lines lie in different sets of
/// the processor's caches.
const STRIDE: usize = FRAME / CACHE_LINE + 1;

/// The line of the item with the given number.
fn line_of(area: &[Line], number: u64) -> &Line {
    &area[number as usize % LINES * STRIDE]
}

/// Returns the two ends. An item of the ring is a number.
pub(super) fn crossing() -> Crossing<'static> {
    let line = || Line(Default::default());
    let area: Arc<[Line]> = std::iter::repeat_with(line).take(LINES * STRIDE).collect();
    let (sends, receives) = ring(SLOTS as u32);
    let writes = Writes { area: Arc::clone(&area), ring: sends };
    Crossing::new("limit", writes, Reads { area, ring: receives })
}

struct Writes {
    area: Arc<[Line]>,
    ring: Sender<u64>,
}

impl Side for Writes {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        let Self { area, ring } = self;
        pass(next, |next| {
            if ring.room(BURST) < BURST {
                return Passed::default();
            }
            let numbers = next..next + BURST as u64;
            // The other core has these lines. Without the prefetch they come one after another.
            for number in numbers.clone() {
                prefetch_write(std::ptr::from_ref(line_of(area, number)).cast());
            }
            for number in numbers.clone() {
                let [first, rest @ ..] = &line_of(area, number).0;
                // Relaxed: the ring publishes the line.
                first.store(number, Relaxed);
                rest.iter().for_each(|word| word.store(u64::from_ne_bytes([STAMP; 8]), Relaxed));
            }
            Passed { items: ring.send_burst(BURST, &mut numbers.into_iter()) as u64, wrong: 0 }
        })
    }
}

struct Reads {
    area: Arc<[Line]>,
    ring: Receiver<u64>,
}

impl Side for Reads {
    #[inline(never)]
    fn pass(&mut self, next: u64) -> Passed {
        let Self { area, ring } = self;
        pass(next, |next| {
            let mut numbers = [0; BURST];
            let mut places = numbers.iter_mut();
            let items = ring.recv_burst(BURST, |number| {
                prefetch(std::ptr::from_ref(line_of(area, number)).cast());
                if let Some(place) = places.next() {
                    *place = number;
                }
            });
            // Relaxed: the ring published the line.
            let wrong =
                |(number, wanted): &(&u64, u64)| line_of(area, **number).0[0].load(Relaxed) != *wanted;
            let wrong = numbers[..items].iter().zip(next..).filter(wrong).count();
            Passed { items: items as u64, wrong: wrong as u64 }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_another_number_is_counted() {
        let crossing = crossing();
        let (gives, takes) = &mut *crossing.ends.borrow_mut();
        assert_eq!((gives.pass(), gives.done.items), (256, 256));
        // The reading side expects the numbers from 1 on.
        takes.done.items = 1;
        assert_eq!((takes.pass(), takes.done.wrong), (256, 256));
    }
}
