//! The limit of packets: one cache line for each item, written on the first core and read on the second. Nothing is
//! allocated or freed; the lines are used in turn.

use std::sync::atomic::Ordering::Relaxed;

use netmem::ring::{Receiver, Sender, ring};
use netmem::system::cpu::{prefetch, prefetch_write};

use super::{Crossing, SLOTS};
use crate::experiments::lines::{self, stride};
use crate::experiments::rivals::sides::{Side, pass};
use crate::experiments::rivals::{CACHE, FRAME, STAMP};
use crate::rivals::dpdk::{BURST, Passed};

/// Lines that are used in turn: as many as packets fit into a cache and the ring.
const LINES: usize = CACHE + SLOTS;

/// The lines of the items. The first word of each is the number of its item.
type Lines = lines::Lines<{ stride(FRAME) }>;

/// Returns the two ends. An item of the ring is a number.
pub(super) fn crossing() -> Crossing<'static> {
    let area = Lines::new(LINES);
    let (sends, receives) = ring(SLOTS as u32);
    let writes = Writes { area: area.clone(), ring: sends };
    Crossing::new("limit", writes, Reads { area, ring: receives })
}

struct Writes {
    area: Lines,
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
                prefetch_write(std::ptr::from_ref(area.of(number)).cast());
            }
            for number in numbers.clone() {
                let [first, rest @ ..] = area.of(number);
                // Relaxed: the ring publishes the line.
                first.store(number, Relaxed);
                rest.iter().for_each(|word| word.store(u64::from_ne_bytes([STAMP; 8]), Relaxed));
            }
            Passed { items: ring.send_burst(BURST, &mut numbers.into_iter()) as u64, wrong: 0 }
        })
    }
}

struct Reads {
    area: Lines,
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
                prefetch(std::ptr::from_ref(area.of(number)).cast());
                if let Some(place) = places.next() {
                    *place = number;
                }
            });
            // Relaxed: the ring published the line.
            let wrong = |(number, wanted): &(&u64, u64)| area.of(**number)[0].load(Relaxed) != *wanted;
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
        let (mut gives, mut takes) = crossing().ends;
        assert_eq!((gives.pass(), gives.done.items), (256, 256));
        // The reading side expects the numbers from 1 on.
        takes.done.items = 1;
        assert_eq!((takes.pass(), takes.done.wrong), (256, 256));
    }
}
