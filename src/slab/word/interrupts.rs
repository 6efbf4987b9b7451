//! Cache lines of a thread that represent the lines touched by disabling and enabling interrupts in [hansen14-page]:
//! those of its task, and those of paravirtualisation.

use std::cell::{Cell, OnceCell};
use std::hint::black_box;

/// A pair of cache lines, which a core may fetch together.
#[repr(align(128))]
struct Line(Cell<u64>);

/// The number of lines, of which two are cold at each change: 4 MiB, more than a core's own caches hold.
const COLD: usize = 1 << 15;

thread_local! {
    static HOT: [Line; 2] = const { [Line(Cell::new(0)), Line(Cell::new(0))] };
    static FAR: OnceCell<Box<[Line]>> = const { OnceCell::new() };
    static PLACE: Cell<usize> = const { Cell::new(0) };
}

/// Switches off and on again: each writes both lines.
fn off_and_on(lines: [&Line; 2]) {
    let all = lines.into_iter().chain(lines);
    all.for_each(|line| line.0.set(black_box(line.0.get() + 1)));
}

/// Uses lines that every change writes.
#[cold]
pub(super) fn switch() {
    HOT.with(|[task, virt]| off_and_on([task, virt]));
}

/// Uses lines that were written [`COLD`] / 2 changes ago.
#[cold]
pub(super) fn switch_cold() {
    let (task, virt) = (PLACE.get(), next(PLACE.get()));
    PLACE.set(next(virt));
    FAR.with(|far| {
        let lines = far.get_or_init(|| (0..COLD).map(|_| Line(Cell::new(0))).collect());
        off_and_on([&lines[task], &lines[virt]]);
    });
}

/// The line after this one. All lines come up once before one repeats, in an order that a prefetcher does not follow. A
/// linear congruence of full period (Hull and Dobell, 1962): an odd increment, a multiplier of 1 modulo 4.
fn next(place: usize) -> usize {
    (place * 25_173 + 13_849) % COLD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cold_line_comes_up_once_before_one_does_again() {
        let mut seen = vec![false; COLD];
        let mut place = 0;
        while !std::mem::replace(&mut seen[place], true) {
            place = next(place);
        }
        assert_eq!((place, seen.iter().all(|&line| line)), (0, true));
    }
}
