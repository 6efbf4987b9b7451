//! `page-fast-path`: one order-0 page, allocated and freed repeatedly, so that only the per-worker list is used.
//! Node statistics are on or off. Compared with a bare `Vec` and general allocators with blocks of 4 KiB.

use std::cell::Cell;
use std::hint::black_box;

use netmem::limits::PAGE_SIZE;
use netmem::page::{Memory, MemoryConfig};
use serde_json::Value;

use super::Experiment;
use super::pages::{Hand, SOURCE, check_pages, cycles, label, note_memory, rival_loop};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::{Published, Ratio};
use crate::method::ratio::{BesideOne, TOO_FEW};
use crate::method::round::{Series, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use crate::rivals;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "page-fast-path",
    source: SOURCE,
    question: "What does the fast path of the page allocator cost, and how much of it are its statistics?",
    seconds: 5,
    keys: &[],
    run,
};

const WITH: usize = 0;
const WITHOUT: usize = 1;
/// The same as [`WITH`], with the first line of each page written.
const TOUCHED: usize = 2;
const LIMIT: usize = 3;
/// Two positions for each rival: untouched and touched.
const RIVALS: usize = 4;

/// Number of ids in the `Vec` of the bare bound.
const LIMIT_IDS: u32 = 1_024;

/// The maximum cost of an order-0 page, as a share of the fastest general allocator's block.
const TARGET: f64 = 0.4;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let clock = bench.clock;
    let memory = Memory::new(&MemoryConfig::default()).map_err(SetUpError::at("memory"))?;
    let refused = Cell::new(0);
    let mut ids: Vec<u32> = (0..LIMIT_IDS).collect();
    let boxed = |name, own: &[(&str, Value)], body| -> Box<dyn Variant + '_> {
        Box::new(OpLoop::new(label(name, own), &clock, body))
    };
    let netmem = |name, statistics, touch: bool| -> Result<Box<dyn Variant + '_>, SetUpError> {
        let (memory, mut hand) = (&memory, Hand::new(&memory, 0, &refused)?);
        let stats = if statistics { "on" } else { "off" };
        let own = [("order", 0.into()), ("stats", stats.into()), ("touch", touch.into())];
        let body = move |ops| {
            memory.set_statistics(statistics);
            if touch { hand.one::<true>(ops) } else { hand.one::<false>(ops) }
        };
        Ok(boxed(name, &own, Box::new(body)))
    };
    let mut variants = vec![
        netmem("netmem", true, false)?,
        netmem("netmem/stats-off", false, false)?,
        netmem("netmem", true, true)?,
        boxed("limit", &[], Box::new(|ops| pop_and_push(&mut ids, ops))),
    ];
    for rival in rivals::all() {
        for touch in [false, true] {
            let body = rival_loop(rival, PAGE_SIZE, 1, touch, &refused);
            variants.push(boxed(rival.name, &[("touch", touch.into())], body));
        }
    }
    let series = bench.measure(&mut variants, &comparisons(), Cores::Same);
    drop(variants);
    rows(bench, &series);
    ids.sort_unstable();
    bench.check("the bound kept its ids", ids.iter().copied().eq(0..LIMIT_IDS), format!("{} ids", ids.len()));
    check_pages(bench, "netmem", &memory, refused.get());
    check_fast(bench, &memory);
    note_memory(bench, &memory);
    findings(bench, &series);
    Ok(())
}

fn comparisons() -> Vec<Comparison> {
    let compare = |a, b| Comparison { a, b, metric: Metric::NsPerOp };
    let mut comparisons = vec![compare(WITH, WITHOUT), compare(WITH, LIMIT), compare(WITHOUT, LIMIT)];
    for place in (0..rivals::all().len()).map(|rival| RIVALS + 2 * rival) {
        comparisons.extend([compare(WITH, place), compare(TOUCHED, place + 1)]);
    }
    comparisons
}

/// The bare bound: pops one id off a `Vec` and pushes it back, `ops` times.
#[inline(never)]
fn pop_and_push(ids: &mut Vec<u32>, ops: u32) {
    for _ in 0..ops {
        if let Some(id) = black_box(&mut *ids).pop() {
            ids.push(black_box(id));
        }
    }
}

fn rows(bench: &mut Bench<'_>, series: &[Series]) {
    for (place, series) in series.iter().enumerate() {
        bench.row(series, Metric::NsPerOp, None);
        bench.row(series, Metric::CyclesPerOp, published(place));
    }
}

fn published(place: usize) -> Option<Published> {
    match place {
        WITH => Some(cycles(
            143.0,
            "Linux 4.11-rc1, order-0 alloc and free of one page, NUMA statistics on (276 before Mel Gorman's work)",
        )),
        WITHOUT => Some(cycles(97.0, "Linux 4.11-rc1, the same with CONFIG_NUMA and zone_statistics() off")),
        _ => None,
    }
}

/// Allocated pages from which on the list must have sufficed: more than are allocated to find the length of a window.
const MANY: u64 = 10_000;

/// Checks that the timed code was the fast path.
fn check_fast(bench: &mut Bench<'_>, memory: &Memory) {
    let stats = memory.stats();
    let rare = stats.missed * 1_000 <= stats.allocated;
    let detail = format!("{} of {} asked the node", stats.missed, stats.allocated);
    // The first pages of a list come from the node.
    let many = stats.allocated >= MANY;
    bench.check_done("the per-worker list sufficed", rare || many, rare || !many, detail);
}

/// Adds the source's findings and whether they hold here, and then the rivals.
fn findings(bench: &mut Bench<'_>, series: &[Series]) {
    bench.note("pages are not touched, as in the source, unless touch says that 64 bytes are written");
    if let Some(ratio) = bench.reported_ratio("netmem", "netmem/stats-off") {
        bench.note(statistics(ratio));
    }
    rivals::note_missing(bench);
    if rivals::all().is_empty() {
        return;
    }
    bench.note(
        "rivals: plain malloc(4096) and free, so their blocks need not be page-aligned; pages always are",
    );
    for (ours, untouched_or_touched) in [(WITH, 0), (TOUCHED, 1)] {
        let theirs: Vec<&Series> = series.iter().skip(RIVALS + untouched_or_touched).step_by(2).collect();
        if let (Some(ours), Some((name, ticks))) = (series[ours].at(0.5), fastest(&theirs)) {
            let written = if untouched_or_touched == 1 { "64 bytes written" } else { "untouched" };
            bench.note(format!("{written}: {}", verdict(ours / ticks, name)));
        }
    }
}

/// Returns the fastest of `series` by its median.
fn fastest<'a>(series: &[&'a Series]) -> Option<(&'a str, f64)> {
    let medians = series.iter().filter_map(|one| Some((one.label.variant.as_str(), one.at(0.5)?)));
    medians.min_by(|a, b| a.1.total_cmp(&b.1))
}

fn verdict(share: f64, name: &str) -> String {
    format!(
        "by the medians a page costs {share:.2} of a block of the fastest, {name}; whether the target of {TARGET} is \
         reached is told by the ratio's interval"
    )
}

fn statistics(ratio: &Ratio) -> String {
    let Ratio { median, low, high, .. } = ratio;
    let found = match ratio.beside_one() {
        BesideOne::TooFew => TOO_FEW,
        BesideOne::Above => "they cost something here too",
        BesideOne::Around | BesideOne::Below => "they cost nothing that shows here",
    };
    format!(
        "the source: statistics are 46 of 143 cycles, so the time with them is 1.47 of the time without; \
         here it is {median} ({low} to {high}): {found}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, ticks: f64) -> Series {
        let label = label(name, &[]);
        Series { rounds: vec![Some(ticks)], per_op: vec![ticks], ..Series::new(label) }
    }

    #[test]
    fn the_fastest_rival_is_the_one_that_is_scored() {
        let (slow, fast) = (series("glibc", 50.0), series("mimalloc", 20.0));
        assert_eq!(fastest(&[&slow, &fast]), Some(("mimalloc", 20.0)));
        assert_eq!(fastest(&[]), None);
        assert!(verdict(0.3, "mimalloc").starts_with("by the medians a page costs 0.30"));
    }

    #[test]
    fn statistics_cost_something_only_if_the_whole_interval_says_so() {
        let ratio = |low| Ratio {
            a: "netmem".into(),
            b: "netmem/stats-off".into(),
            params: Default::default(),
            metric: "ns_per_op".into(),
            median: 1.2,
            low,
            high: 1.3,
            undecided: false,
            too_few: false,
        };
        assert!(statistics(&ratio(1.1)).ends_with("here too"));
        assert!(statistics(&ratio(0.9)).ends_with("nothing that shows here"));
        // Seen: after one set-up they cost something, or nothing.
        for low in [0.9, 1.1] {
            assert!(
                statistics(&Ratio { too_few: true, ..ratio(low) })
                    .ends_with("too few set-ups or rounds to tell")
            );
        }
    }
}
