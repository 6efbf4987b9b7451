//! `page-outstanding`: N order-0 pages are allocated before the first is freed. The worker's lists are those that
//! [brouer17-pages] measured, those of Linux in 2017, those of Linux since 2021, and self-tuning ones. Past the
//! list's size every batch needs an access to the node. Each list is compared with the tuned one, and each with itself
//! without statistics, inside the rounds. Then the same in memories of several sizes.

mod knee;
mod size;

use std::cell::Cell;

use netmem::page::{Lists, Memory, MemoryConfig};

use super::Experiment;
use super::pages::{Hand, SOURCE, check_pages, label, median_ns};
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::method::clock::Tsc;
use crate::method::round::{Label, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use knee::Point;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "page-outstanding",
    source: SOURCE,
    question: "What does a page cost when N are out at once, and where does the worker's list end?",
    seconds: 20,
    keys: &[],
    run,
};

/// One kind of worker's list.
struct Kind {
    name: &'static str,
    lists: Lists,
    /// Pages that it holds, and pages moved at once, or `None` if it tunes itself.
    fixed: Option<(usize, usize)>,
}

/// Maximum pages of the self-tuning list, more than any fixed list holds.
const TUNED_MOST: usize = 1_008;

const KINDS: [Kind; 4] = [
    Kind { name: "brouer-2017", lists: Lists::Brouer2017, fixed: Some((128, 32)) },
    Kind { name: "linux-2017", lists: Lists::Linux2017, fixed: Some((186, 31)) },
    Kind { name: "linux-2021", lists: Lists::Linux2021, fixed: Some((252, 63)) },
    Kind { name: "tuned", lists: Lists::Tuned { least: 63, most: TUNED_MOST }, fixed: None },
];

/// Maximum pages allocated at once.
const MOST: usize = 8_192;

/// Room for [`MOST`] pages allocated at once, and for lists of every kind at their full size. A worker's list of
/// single pages may hold total / (4 * workers), here 1,365.
const MEMORY_BYTES: usize = 64 << 20;

/// Two that are timed and one that is counted.
const WORKERS: usize = 3;

/// Turns in which node accesses are counted, and turns before that, which fill the lists.
const TURNS: u32 = 8;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let (clock, refused) = (bench.clock, Cell::new(0));
    let memory = |kind: &Kind| {
        let config =
            MemoryConfig { bytes: MEMORY_BYTES, workers: WORKERS, lists: kind.lists, ..Default::default() };
        Memory::new(&config).map_err(SetUpError::at("memory"))
    };
    let memories: Vec<Memory> = KINDS.iter().map(memory).collect::<Result<_, _>>()?;
    let effort = bench.effort().shared_by(4);
    let mut points: [Vec<Point>; KINDS.len()] = Default::default();
    for held in held() {
        let costs = measure(bench, &clock, &memories, &refused, held, effort)?;
        for (((kind, memory), points), Cost { ns, offset }) in
            KINDS.iter().zip(&memories).zip(&mut points).zip(costs)
        {
            let visits = visits(memory, held, &refused)?;
            bench.figure(
                named("netmem", kind, held, "on", Some("node visits per page")),
                Metric::Count,
                visits,
                None,
            );
            points.push(Point { held, visits, ns, offset });
        }
    }
    for (kind, memory) in KINDS.iter().zip(&memories) {
        check_pages(bench, kind.name, memory, refused.get());
    }
    findings(bench, &points, &memories);
    size::group(bench, effort)
}

/// Returns the numbers of held pages: powers of two, and the numbers around the end of each fixed list.
fn held() -> Vec<usize> {
    let mut held: Vec<usize> = (0..=MOST.ilog2()).map(|power| 1 << power).collect();
    for (high, batch) in KINDS.iter().filter_map(|kind| kind.fixed) {
        held.extend([high - 1, high, high + 1, high + batch]);
    }
    held.sort_unstable();
    held.dedup();
    held
}

/// What a page costs with a list of one kind, in nanoseconds.
struct Cost {
    ns: Option<f64>,
    /// What statistics add to it.
    offset: Option<f64>,
}

/// Measures `held` pages allocated at once, each kind with and without statistics. Returns the median with statistics,
/// and the median of what they add inside a round, both in nanoseconds. Every variant begins with a fresh worker, so
/// that no list is half filled by another.
fn measure(
    bench: &mut Bench<'_>,
    clock: &Tsc,
    memories: &[Memory],
    refused: &Cell<u64>,
    held: usize,
    effort: Effort,
) -> Result<Vec<Cost>, SetUpError> {
    let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
    for (statistics, name, stats) in [(true, "netmem", "on"), (false, "netmem/stats-off", "off")] {
        for (kind, memory) in KINDS.iter().zip(memories) {
            let mut hand = Hand::new(memory, held, refused)?;
            let body = move |ops| {
                memory.set_statistics(statistics);
                hand.one_by_one::<false>(ops);
            };
            let label = named(name, kind, held, stats, None);
            variants.push(Box::new(OpLoop::of(held as u32, label, clock, Box::new(body))));
        }
    }
    let series = bench.measure_with(&mut variants, &comparisons(), Cores::Same, effort);
    for series in &series {
        bench.row(series, Metric::NsPerOp, None);
        bench.row(series, Metric::CyclesPerOp, None);
    }
    let (on, off) = series.split_at(KINDS.len());
    let seed = bench.setting("seed");
    let both = on.iter().zip(off).map(|(on, off)| {
        let ns = median_ns(bench, on);
        let offset = ns.zip(on.over(off, seed)).map(|(ns, ratio)| ns * (1.0 - 1.0 / ratio.median));
        Cost { ns, offset }
    });
    Ok(both.collect())
}

/// Returns the comparisons of each kind with statistics and without, and of the source's list with the tuned one.
fn comparisons() -> Vec<Comparison> {
    let of = |(a, b)| Comparison { a, b, metric: Metric::NsPerOp };
    let statistics = (0..KINDS.len()).map(|kind| (kind, kind + KINDS.len()));
    statistics.chain([(0, KINDS.len() - 1)]).map(of).collect()
}

fn named(variant: &str, kind: &Kind, held: usize, stats: &str, of: Option<&str>) -> Label {
    let mut label = label(
        variant,
        &[
            ("order", 0.into()),
            ("lists", kind.name.into()),
            ("outstanding", held.into()),
            ("stats", stats.into()),
        ],
    );
    label.params.extend(of.map(|of| ("of".to_owned(), of.into())));
    label
}

/// Returns the number of node accesses of a fresh worker for one page, once its list is full.
fn visits(memory: &Memory, held: usize, refused: &Cell<u64>) -> Result<f64, SetUpError> {
    let mut hand = Hand::new(memory, held, refused)?;
    memory.set_statistics(true);
    let ops = TURNS * held as u32;
    hand.one_by_one::<false>(ops);
    let before = memory.stats();
    hand.one_by_one::<false>(ops);
    let after = memory.stats();
    let visits = after.missed - before.missed + after.overflowed - before.overflowed;
    Ok(visits as f64 / f64::from(ops))
}

/// Checks the knee of each fixed list, and describes the curve of the time.
fn findings(bench: &mut Bench<'_>, points: &[Vec<Point>], memories: &[Memory]) {
    for (kind, points) in KINDS.iter().zip(points) {
        if let Some((high, _)) = kind.fixed {
            let (ok, detail) = knee::check(points, high);
            bench.check(&format!("{}: the knee is at the list's {high} pages", kind.name), ok, detail);
        }
        let end = kind.fixed.map_or_else(|| knee::last_without(points).unwrap_or(0), |(high, _)| high);
        bench.note(format!(
            "{}: {}",
            kind.name,
            knee::shape(points, end, kind.fixed.map(|(_, batch)| batch))
        ));
        bench.note(format!("{}: {}", kind.name, knee::offset(points)));
    }
    if let Some(memory) = memories.first() {
        let share = memory.stats().total / (4 * WORKERS as u64);
        let detail = format!("the memory allows {share} pages in each, {TUNED_MOST} are asked for at most");
        bench.check("no worker's list is cut short", share >= TUNED_MOST as u64, detail);
        bench.note(format!(
            "memory: {} MiB for each kind, {}",
            memory.bytes() >> 20,
            memory.region().backing()
        ));
    }
    bench.note("pages are not touched; one operation is one page allocated and freed");
    bench.note(
        "a ratio netmem / netmem with the settings outstanding and stats divides the time of the list brouer-2017 by that of the tuned list, in the same rounds",
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knee_has_points_on_both_sides_and_the_ends_are_there() {
        let held = held();
        assert_eq!((held.first(), held.last()), (Some(&1), Some(&MOST)));
        assert!(held.is_sorted());
        for point in [127, 128, 129, 160, 185, 186, 187, 217, 251, 252, 253, 315] {
            assert!(held.contains(&point), "{point} in {held:?}");
        }
    }

    #[test]
    fn a_fixed_list_visits_the_node_past_its_end_and_not_before() {
        for kind in &KINDS[..3] {
            let config = MemoryConfig {
                bytes: MEMORY_BYTES,
                workers: WORKERS,
                lists: kind.lists,
                ..Default::default()
            };
            let (memory, refused) = (Memory::new(&config).unwrap(), Cell::new(0));
            let (high, batch) = kind.fixed.unwrap();
            assert_eq!(visits(&memory, high, &refused), Ok(0.0), "{}", kind.name);
            let past = visits(&memory, high + 1, &refused).unwrap();
            let far = visits(&memory, 4_096, &refused).unwrap();
            assert!(0.0 < past && past < far, "{}: {past}, {far}", kind.name);
            assert!(far < 2.5 / batch as f64, "{}: {far}", kind.name);
        }
    }
}
