//! `page-fast-path`: one order-0 page, allocated and freed again and again, so that only the per-worker list is
//! at work; node statistics on and off.

use std::cell::{Cell, RefCell};
use std::hint::black_box;

use netmem::limits::PAGE_SIZE;
use netmem::page::{Memory, MemoryConfig, PageStats};
use netmem::sync::Worker;

use super::Experiment;
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::{Published, params};
use crate::method::round::{Label, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "page-fast-path",
    source: "004_4959864586ce918c.txt",
    question: "What does the fast path of the page allocator cost, and how much of it are its statistics?",
    seconds: 2,
    keys: &[],
    run,
};

const WITH: usize = 0;
const WITHOUT: usize = 1;
const LIMIT: usize = 2;

/// Ids that the bare bound keeps in its `Vec`.
const LIMIT_IDS: u32 = 1_024;

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let clock = bench.clock;
    let memory = Memory::new(&MemoryConfig::default()).map_err(SetUpError::at("memory"))?;
    let worker = RefCell::new(memory.worker().map_err(SetUpError::at("worker"))?);
    let refused = Cell::new(0);
    let netmem = |name: &str, statistics: bool| {
        let (memory, worker, refused) = (&memory, &worker, &refused);
        let body = move |ops| {
            memory.set_statistics(statistics);
            refused.set(refused.get() + alloc_and_free(memory, &mut worker.borrow_mut(), ops));
        };
        let stats = if statistics { "on" } else { "off" };
        Box::new(OpLoop::new(label(name, &[("stats", stats)]), &clock, Box::new(body))) as Box<dyn Variant>
    };
    let mut ids: Vec<u32> = (0..LIMIT_IDS).collect();
    let limit = OpLoop::new(label("limit", &[]), &clock, Box::new(|ops| pop_and_push(&mut ids, ops)));
    let mut variants = [netmem("netmem", true), netmem("netmem/stats-off", false), Box::new(limit)];
    let compare = |a, b| Comparison { a, b, metric: Metric::NsPerOp };
    let comparisons = [compare(WITH, WITHOUT), compare(WITH, LIMIT), compare(WITHOUT, LIMIT)];
    let series = bench.measure(&mut variants, &comparisons, Cores::Same);
    drop(variants);

    let published = [Some(with_statistics()), Some(without_statistics()), None];
    for (series, published) in series.iter().zip(published) {
        bench.row(series, Metric::NsPerOp, None);
        bench.row(series, Metric::CyclesPerOp, published);
    }
    let refused = refused.get();
    bench.check("every allocation succeeded", refused == 0, format!("{refused} refused"));
    ids.sort_unstable();
    bench.check("the bound kept its ids", ids.iter().copied().eq(0..LIMIT_IDS), format!("{} ids", ids.len()));
    check_pages(bench, &memory);
    findings(bench, &memory);
    Ok(())
}

/// Allocates and frees one page `ops` times; returns how often there was none.
#[inline(never)]
fn alloc_and_free(memory: &Memory, worker: &mut Worker, ops: u32) -> u64 {
    let mut refused = 0;
    for _ in 0..ops {
        match memory.alloc(worker, 0) {
            Some(page) => memory.free(worker, black_box(page)),
            None => refused += 1,
        }
    }
    refused
}

/// The bare bound: one id off a `Vec` and back on, `ops` times.
#[inline(never)]
fn pop_and_push(ids: &mut Vec<u32>, ops: u32) {
    for _ in 0..ops {
        if let Some(id) = black_box(&mut *ids).pop() {
            ids.push(black_box(id));
        }
    }
}

fn label(variant: &str, own: &[(&str, &str)]) -> Label {
    let mut params = params([
        ("work", "page".into()),
        ("burst", 1.into()),
        ("cores", "same".into()),
        ("bytes", PAGE_SIZE.into()),
        ("touch", false.into()),
        ("order", 0.into()),
    ]);
    params.extend(own.iter().map(|&(name, value)| (name.to_owned(), value.into())));
    Label { variant: variant.to_owned(), params }
}

fn with_statistics() -> Published {
    Published {
        value: 143.0,
        unit: "cycles".to_owned(),
        of: "Linux 4.11-rc1, order-0 alloc and free of one page, NUMA statistics on (276 before Mel Gorman's work)"
            .to_owned(),
    }
}

fn without_statistics() -> Published {
    Published {
        value: 97.0,
        unit: "cycles".to_owned(),
        of: "Linux 4.11-rc1, the same with CONFIG_NUMA and zone_statistics() off".to_owned(),
    }
}

/// Every page is where it was, and what was timed was the fast path.
fn check_pages(bench: &mut Bench<'_>, memory: &Memory) {
    let PageStats { total, free, cached, allocated, freed, missed, .. } = memory.stats();
    bench.check(
        "pages conserved",
        free + cached == total,
        format!("{free} free + {cached} cached of {total}"),
    );
    bench.check("every page came back", allocated == freed, format!("{allocated} allocated, {freed} freed"));
    let rare = missed * 1_000 <= allocated;
    bench.check("the per-worker list sufficed", rare, format!("{missed} of {allocated} asked the node"));
}

/// What the source found, and whether it holds here.
fn findings(bench: &mut Bench<'_>, memory: &Memory) {
    bench.note(format!("memory: {}", memory.region().backing()));
    bench.note("cycles are ticks of the time stamp counter; pages are not touched, as in the source");
    let Some(ratio) = bench.reported_ratio("netmem", "netmem/stats-off") else { return };
    let (median, low, high) = (ratio.median, ratio.low, ratio.high);
    let verdict =
        if low > 1.0 { "they cost something here too" } else { "they cost nothing that shows here" };
    bench.note(format!(
        "the source: statistics are 46 of 143 cycles, so the time with them is 1.47 of the time without; \
         here it is {median} ({low} to {high}): {verdict}",
    ));
}
