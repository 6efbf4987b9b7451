//! The controls: one worker with as many pages out as a ring holds, one with none, and one that allocates and frees
//! many at once, alone and while another core does the same.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use netmem::page::{Memory, Page};
use netmem::ring::{Receiver, Sender, ring};
use netmem::sync::Worker;

use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::experiments::pages::{Hand, cycles, label};
use crate::method::clock::Tsc;
use crate::method::poll::beside;
use crate::method::round::{Label, Series, Variant};
use crate::method::window::{OpLoop, Windows, sample};
use crate::metric::Metric;

/// Pages allocated at once while two workers run in parallel: more than a list holds, so both access the node.
const MANY: usize = 1_024;

/// Pages between two progress reports of the other core.
const STEP: usize = 64;

/// Minimum progress reports in a window that counts.
const STEPS_MIN: u64 = 8;

/// Pages in a window with the other core running.
const WINDOW: u32 = 2 * MANY as u32;

/// The results of the controls.
pub(super) struct Alone {
    /// In the order of [`NONE_OUT`], pages in flight, [`ALONE`], [`BESIDE`].
    pub(super) series: Vec<Series>,
    pub(super) refused: u64,
}

pub(super) const NONE_OUT: usize = 0;
const UNDER_WAY: usize = 1;
pub(super) const ALONE: usize = 2;
pub(super) const BESIDE: usize = 3;

/// Measures the controls. `slots` is the size of the ring.
pub(super) fn measure(
    bench: &mut Bench<'_>,
    clock: &Tsc,
    memory: &Memory,
    slots: usize,
    peer_core: usize,
) -> Result<Alone, SetUpError> {
    let refused = Cell::new(0);
    let mut none_out = Hand::new(memory, 0, &refused)?;
    let mut under_way = UnderWay::new(memory, slots / 2)?;
    let mut alone = Hand::new(memory, MANY, &refused)?;
    let hand = Hand::new(memory, MANY, &refused)?;
    let other = Other::new(memory)?;
    let named = |variant, out: usize| label(variant, &[("outstanding", out.into()), ("order", 0.into())]);
    let loop_of =
        |label, body| Box::new(OpLoop::of(MANY as u32, label, clock, body)) as Box<dyn Variant + '_>;
    let mut side_by_side = SideBySide { label: named("netmem/beside", MANY), clock, hand, other, peer_core };
    let mut variants: [Box<dyn Variant + '_>; 4] = [
        loop_of(named("netmem/one-worker", 0), Box::new(|ops| none_out.one::<false>(ops))),
        loop_of(named("netmem/one-worker", slots / 2), Box::new(|ops| under_way.turn(ops))),
        loop_of(named("netmem/alone", MANY), Box::new(|ops| alone.one_by_one::<false>(ops))),
        Box::new(&mut side_by_side),
    ];
    let compare = |a, b| Comparison { a, b, metric: Metric::NsPerOp };
    let comparisons = [compare(UNDER_WAY, NONE_OUT), compare(BESIDE, ALONE)];
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Cross, bench.effort());
    drop(variants);
    let single = cycles(
        145.0,
        "Linux of early 2017, release not told, alloc_pages and put_page on one core, none outstanding",
    );
    for (series, published) in series.iter().zip([Some(single), None, None, None]) {
        bench.row(series, Metric::NsPerOp, None);
        bench.row(series, Metric::CyclesPerOp, published);
    }
    let missing = under_way.settle();
    bench.check("one worker: as many pages out as meant", missing == 0, format!("{missing} missing"));
    Ok(Alone { series, refused: refused.get() + side_by_side.other.refused })
}

/// The progress of the other core, on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Steps(AtomicU64);

/// The worker on the other core, which repeats the same work. It shares no cache line with the measured worker.
#[repr(align(128))]
struct Other<'a> {
    memory: &'a Memory,
    worker: Worker,
    places: Vec<Option<Page>>,
    refused: u64,
}

impl<'a> Other<'a> {
    fn new(memory: &'a Memory) -> Result<Self, SetUpError> {
        let worker = memory.worker().map_err(SetUpError::at("worker"))?;
        Ok(Self { memory, worker, places: (0..MANY).map(|_| None).collect(), refused: 0 })
    }

    /// Allocates all pages and frees them. `steps` counts the progress.
    fn turn(&mut self, Steps(steps): &Steps) {
        for places in self.places.chunks_mut(STEP) {
            for place in places {
                *place = self.memory.alloc(&mut self.worker, 0);
                self.refused += u64::from(place.is_none());
            }
            steps.fetch_add(1, Relaxed);
        }
        for places in self.places.chunks_mut(STEP) {
            for page in places.iter_mut().filter_map(Option::take) {
                self.memory.free(&mut self.worker, page);
            }
            steps.fetch_add(1, Relaxed);
        }
    }
}

/// One measured worker, with another running on the other core. A window counts only if the other one made progress
/// in it. So a worker that the system keeps from its core does not count as one that does not interfere.
struct SideBySide<'a> {
    label: Label,
    clock: &'a Tsc,
    hand: Hand<'a>,
    other: Other<'a>,
    peer_core: usize,
}

impl Variant for &mut SideBySide<'_> {
    fn label(&self) -> &Label {
        &self.label
    }

    fn round(&mut self, windows: usize) -> Windows {
        let SideBySide { clock, hand, other, peer_core, .. } = &mut **self;
        let steps = Steps::default();
        let (mut taken, mut starved) = (Vec::with_capacity(windows), 0);
        beside(Some(*peer_core), &mut || other.turn(&steps), || {
            for _ in 0..windows {
                let before = steps.0.load(Relaxed);
                let window = sample(*clock, 1, WINDOW, &mut |ops| hand.one_by_one::<false>(ops));
                match steps.0.load(Relaxed).wrapping_sub(before) {
                    0..STEPS_MIN => starved += 1,
                    _ => taken.extend(window),
                }
            }
        });
        Windows { starved, ..Windows::without_pauses(&taken, 0.0) }
    }
}

/// Pages that one worker sends to itself.
struct UnderWay<'a> {
    memory: &'a Memory,
    worker: Worker,
    to: Sender<Page>,
    from: Receiver<Page>,
    /// Pages that could not be allocated or were missing.
    missing: u64,
}

impl<'a> UnderWay<'a> {
    /// Puts `out` pages in flight.
    fn new(memory: &'a Memory, out: usize) -> Result<Self, SetUpError> {
        let worker = memory.worker().map_err(SetUpError::at("worker"))?;
        let (to, from) = ring(2 * out as u32);
        let mut way = Self { memory, worker, to, from, missing: 0 };
        (0..out).for_each(|_| way.send());
        Ok(way)
    }

    #[inline(always)]
    fn send(&mut self) {
        let sent = self.memory.alloc(&mut self.worker, 0).is_some_and(|page| self.to.send(page).is_ok());
        self.missing += u64::from(!sent);
    }

    /// `ops` times: allocates and sends one page, receives and frees the one that is longest in flight.
    #[inline(never)]
    fn turn(&mut self, ops: u32) {
        for _ in 0..ops {
            self.send();
            match self.from.recv() {
                Some(page) => self.memory.free(&mut self.worker, page),
                None => self.missing += 1,
            }
        }
    }

    /// Frees everything. Returns the number of missing pages.
    fn settle(mut self) -> u64 {
        while let Some(page) = self.from.recv() {
            self.memory.free(&mut self.worker, page);
        }
        self.missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::page::MemoryConfig;

    #[test]
    fn one_worker_keeps_its_pages_under_way() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let mut way = UnderWay::new(&memory, 100).unwrap();
        way.turn(1_000);
        let stats = memory.stats();
        assert_eq!(stats.total - stats.free - stats.cached, 100);
        assert_eq!(way.settle(), 0);
        assert_eq!(memory.stats().allocated, memory.stats().freed);
    }

    #[test]
    fn the_other_core_brings_back_what_it_takes_and_gives_signs_of_life() {
        let memory = Memory::new(&MemoryConfig::default()).unwrap();
        let (mut other, steps) = (Other::new(&memory).unwrap(), Steps::default());
        other.turn(&steps);
        assert_eq!((memory.stats().freed, other.refused), (MANY as u64, 0));
        assert_eq!(steps.0.into_inner(), 2 * (MANY / STEP) as u64);
    }
}
