//! The common parts of the page experiments: a worker that allocates and frees pages, the names of its operations,
//! and the final check.

use std::cell::Cell;
use std::hint::black_box;

use netmem::limits::PAGE_SIZE;
use netmem::page::{Memory, Page, PageStats};
use netmem::sync::Worker;
use serde_json::Value;

use crate::bench::{Bench, SetUpError};
use crate::json::{Published, params};
use crate::method::round::{Label, Series};
use crate::rivals::{Held, Rival};

/// The key of the source of all page experiments.
pub(super) const SOURCE: &str = crate::sources::PAGES.key;

/// Bytes written into a touched page: one cache line.
pub(super) const LINE: usize = 64;

/// The value of every byte of a written line.
const STAMP: u8 = 0xa5;

/// A worker of its own, with room for the pages that it holds.
pub(super) struct Hand<'a> {
    memory: &'a Memory,
    worker: Worker,
    places: Vec<Option<Page>>,
    /// Counts failed allocations.
    refused: &'a Cell<u64>,
}

impl<'a> Hand<'a> {
    /// Makes a worker with empty lists that holds `count` blocks at once.
    pub(super) fn new(memory: &'a Memory, count: usize, refused: &'a Cell<u64>) -> Result<Self, SetUpError> {
        let worker = memory.worker().map_err(SetUpError::at("worker"))?;
        Ok(Self { memory, worker, places: (0..count).map(|_| None).collect(), refused })
    }

    /// Allocates and frees one page, `ops` times. If `TOUCH`, writes its first line.
    #[inline(never)]
    pub(super) fn one<const TOUCH: bool>(&mut self, ops: u32) {
        self.round_trips::<TOUCH>(0, ops);
    }

    /// The same with a block of 2^`order` pages, of an order that the compiler does not know.
    #[inline(never)]
    pub(super) fn one_of<const TOUCH: bool>(&mut self, order: u8, ops: u32) {
        self.round_trips::<TOUCH>(black_box(order), ops);
    }

    #[inline(always)]
    fn round_trips<const TOUCH: bool>(&mut self, order: u8, ops: u32) {
        let mut refused = 0;
        for _ in 0..ops {
            match self.memory.alloc(&mut self.worker, order) {
                Some(mut page) => {
                    if TOUCH {
                        write_line(&mut page);
                    }
                    // As in the rivals' loop: memory may have been read and written, and the page stays in a register.
                    black_box(());
                    self.memory.free(&mut self.worker, page);
                }
                None => refused += 1,
            }
        }
        self.refuse(refused);
    }

    /// Allocates `count` pages with one call each, then frees them in the same way, until `ops` pages were freed.
    #[inline(never)]
    pub(super) fn one_by_one<const TOUCH: bool>(&mut self, ops: u32) {
        let mut refused = 0;
        for part in parts(ops, self.places.len()) {
            for place in &mut self.places[..part] {
                *place = self.memory.alloc(&mut self.worker, 0);
                refused += u64::from(place.is_none());
            }
            self.touch::<TOUCH>(part);
            for page in black_box(&mut self.places)[..part].iter_mut().filter_map(Option::take) {
                self.memory.free(&mut self.worker, page);
            }
        }
        self.refuse(refused);
    }

    /// The same with one call for all pages.
    #[inline(never)]
    pub(super) fn in_bulk<const TOUCH: bool>(&mut self, ops: u32) {
        let mut refused = 0;
        for part in parts(ops, self.places.len()) {
            let filled = self.memory.alloc_bulk(&mut self.worker, &mut self.places[..part]);
            refused += (part - filled) as u64;
            self.touch::<TOUCH>(part);
            self.memory.free_bulk(&mut self.worker, &mut black_box(&mut self.places)[..part]);
        }
        self.refuse(refused);
    }

    /// Writes the first line of every held page.
    #[inline(always)]
    fn touch<const TOUCH: bool>(&mut self, part: usize) {
        if TOUCH {
            self.places[..part].iter_mut().flatten().for_each(write_line);
        }
    }

    fn refuse(&self, refused: u64) {
        self.refused.set(self.refused.get() + refused);
    }
}

/// Divides `ops` into parts of `count`.
fn parts(ops: u32, count: usize) -> impl Iterator<Item = usize> {
    let ops = ops as usize;
    (0..ops).step_by(count.max(1)).map(move |done| count.min(ops - done))
}

/// Writes the first line of a page.
#[inline(always)]
pub(super) fn write_line(page: &mut Page) {
    if let Some(line) = page.bytes_mut().first_chunk_mut::<LINE>() {
        *line = [STAMP; LINE];
        black_box(());
    }
}

/// Returns true if the first line is as it was written.
#[inline(always)]
pub(super) fn line_is_written(page: &Page) -> bool {
    page.bytes().first_chunk::<LINE>() == Some(&[STAMP; LINE])
}

/// Returns a rival's loop as the body of a variant: blocks of `bytes`, `count` allocated at once.
pub(super) fn rival_loop<'a>(
    rival: &'a Rival,
    bytes: usize,
    count: usize,
    touch: bool,
    refused: &'a Cell<u64>,
) -> Box<dyn FnMut(u32) + 'a> {
    let mut held = Held::new(count);
    Box::new(move |ops| {
        let none = match count {
            1 => rival.single(bytes, touch, ops),
            _ => rival.bulk(&mut held, bytes, touch, ops),
        };
        refused.set(refused.get() + none);
    })
}

/// Names a variant that allocates order-0 pages on one core and touches none, with its own parameters.
pub(super) fn label(variant: &str, own: &[(&str, Value)]) -> Label {
    let mut params = params([
        ("work", "page".into()),
        ("burst", 1.into()),
        ("cores", "same".into()),
        ("bytes", PAGE_SIZE.into()),
        ("touch", false.into()),
    ]);
    params.extend(own.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
    Label { variant: variant.to_owned(), params }
}

/// Returns a figure of a kernel, in cycles.
pub(super) fn cycles(value: f64, of: &str) -> Published {
    Published { value, unit: "cycles".to_owned(), of: of.to_owned() }
}

/// Returns the median in nanoseconds, or `None` if no window counts.
pub(super) fn median_ns(bench: &Bench<'_>, series: &Series) -> Option<f64> {
    use crate::method::clock::Clock;
    series.at(0.5).map(|ticks| ticks / bench.clock.ticks_per_ns())
}

/// Checks that no allocation failed, and that every page of `memory` is where it was at the start.
pub(super) fn check_pages(bench: &mut Bench<'_>, name: &str, memory: &Memory, refused: u64) {
    let PageStats { total, free, cached, allocated, freed, .. } = memory.stats();
    bench.check(&format!("{name}: every allocation succeeded"), refused == 0, format!("{refused} refused"));
    bench.check(
        &format!("{name}: pages conserved"),
        free + cached == total && allocated == freed,
        format!("{free} free + {cached} cached of {total}; counted {allocated} out, {freed} back"),
    );
}

/// Notes the properties of a run's memory.
pub(super) fn note_memory(bench: &mut Bench<'_>, memory: &Memory) {
    bench.note(format!("memory: {} MiB, {}", memory.bytes() >> 20, memory.region().backing()));
    bench.note("cycles are ticks of the time stamp counter");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tests::report_of;
    use netmem::page::MemoryConfig;

    #[test]
    fn parts_are_as_large_as_the_hand_and_the_last_is_the_rest() {
        assert_eq!(parts(10, 4).collect::<Vec<_>>(), [4, 4, 2]);
        assert_eq!(parts(8, 8).collect::<Vec<_>>(), [8]);
        assert_eq!(parts(0, 8).count(), 0);
    }

    #[test]
    fn every_page_that_a_hand_allocates_is_freed() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let refused = Cell::new(0);
        let mut hand = Hand::new(&memory, 300, &refused).unwrap();
        hand.one_of::<true>(3, 10);
        hand.one_by_one::<false>(700);
        hand.in_bulk::<true>(900);
        assert_eq!((memory.stats().allocated, refused.get()), (10 + 700 + 900, 0));
        let report = report_of(false, |bench| check_pages(bench, "pages", &memory, refused.get()));
        assert!(report.ok(), "{:?}", report.checks);
    }

    #[test]
    fn a_page_that_is_out_and_one_that_was_refused_fail_their_checks() {
        let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..MemoryConfig::default() }).unwrap();
        let refused = Cell::new(0);
        Hand::new(&memory, 2_000, &refused).unwrap().one_by_one::<true>(2_000);
        let mut worker = memory.worker().unwrap();
        let mut page = memory.alloc(&mut worker, 0).unwrap();
        write_line(&mut page);
        assert!(line_is_written(&page));
        page.bytes_mut()[LINE - 1] = 0;
        assert!(!line_is_written(&page));
        let checks = report_of(false, |bench| check_pages(bench, "pages", &memory, refused.get())).checks;
        assert_eq!(checks.iter().filter(|check| !check.ok).count(), 2, "{checks:?}");
    }
}
