//! `pool-recycle`: the cost of a page for a packet, allocated and freed, in these cases: a pool keeps pages mapped,
//! a driver keeps them by the call at their last release, a driver checks whether the head of a queue is free, and
//! nothing is kept. Mappings cost nothing or much, and no or many pages are held at the time, in order or as a share of
//! all pages that is kept for long. Also whether a frame costs more if up to millions are in use.

mod driver;
mod held;
mod in_use;
mod iommu;
mod mixed;
mod synced;
mod trip;

use std::cell::RefCell;

use netmem::limits::PAGE_SIZE;
use netmem::page::{BackingPreference, Memory, MemoryConfig};
use netmem::sync::Worker;

use super::Experiment;
use super::pages::{SOURCE, note_memory};
use super::slab_windows::short;
use crate::bench::{Bench, Comparison, Cores, Effort, SetUpError};
use crate::json::{Published, params};
use crate::method::clock::{Clock, Tsc};
use crate::method::round::{Label, Series, Variant};
use crate::method::window::OpLoop;
use crate::metric::Metric;
use held::Outstanding;
use trip::{Account, Keeps, Turns, trip};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "pool-recycle",
    source: SOURCE,
    question: "What is a page pool worth that keeps pages mapped, beside the drivers' older trick and no recycling?",
    seconds: 350,
    keys: &[],
    run,
};

/// The cost of a mapping: nothing, a fast IOMMU, and a slow one.
const MAP_NS: [u32; 3] = [0, 100, 500];

/// Frames that are held when the next one is allocated. Then the oldest is freed.
const HELD: [usize; 4] = [0, 64, 1_024, 4_096];

/// Frames in the owner's cache, and pages in the queue of the older method.
const CACHE: usize = 512;

/// Pages for each method: the held ones, those in two caches and in the remote free queue, and some spare ones.
const PAGES: usize = 8_192;

/// One method to get a page and to give it back.
struct Kind {
    variant: &'static str,
    keeps: Keeps,
    /// Cycles of the kernel's page_pool, and its path.
    published: Option<(f64, &'static str)>,
}

const KINDS: [Kind; 9] = [
    Kind { variant: "netmem", keeps: Keeps::Pool, published: Some((19.0, "fast path")) },
    Kind {
        variant: "netmem/ring",
        keeps: Keeps::FreedElsewhere,
        published: Some((54.0, "through its ring")),
    },
    Kind { variant: "netmem/owner", keeps: Keeps::Owner, published: None },
    Kind { variant: "driver/queue", keeps: Keeps::Queue, published: None },
    Kind {
        variant: "driver/unkept",
        keeps: Keeps::Nobody,
        published: Some((238.0, "slow path: to the page allocator and back")),
    },
    Kind { variant: "netmem/page", keeps: Keeps::Stage, published: None },
    Kind { variant: "netmem/orphan", keeps: Keeps::Orphan, published: None },
    Kind { variant: "netmem/adopted", keeps: Keeps::Adopted, published: None },
    Kind { variant: "netmem/owner-early", keeps: Keeps::Claim, published: None },
];

const POOL: usize = 0;
const OWNER: usize = 2;
const QUEUE: usize = 3;
const UNKEPT: usize = 4;
const ORPHAN: usize = 6;
const ADOPTED: usize = 7;
const EARLY: usize = 8;

/// The shared parts of all groups of the run.
struct Scene<'a> {
    memory: &'a Memory,
    worker: &'a RefCell<Worker>,
    /// Frees the frames that come back through the remote free queue.
    other: &'a RefCell<Worker>,
    clock: &'a Tsc,
    effort: Effort,
}

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let clock = bench.clock;
    let config = MemoryConfig {
        bytes: (KINDS.len() + 1) * PAGES * PAGE_SIZE,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
    let worker = || memory.worker().map(RefCell::new).map_err(SetUpError::at("worker"));
    let (worker, other) = (worker()?, worker()?);
    let scene = Scene {
        memory: &memory,
        worker: &worker,
        other: &other,
        clock: &clock,
        effort: short(bench.effort(), 1),
    };
    for map_ns in MAP_NS {
        for held in HELD.into_iter().filter(|_| !bench.stopped()).collect::<Vec<_>>() {
            group(&scene, bench, map_ns, held)?;
        }
    }
    mixed::measure(&scene, bench)?;
    synced::measure(&scene, bench)?;
    in_use::measure(bench, bench.effort())?;
    note_memory(bench, &memory);
    bench.note(format!(
        "netmem: the pool keeps pages and their mapping; /ring: the same, freed by a worker that does not own the \
         pool; /owner: a driver without a pool keeps them by the call at a shared page's last release; \
         /owner-early: it has a claim on each page, and is called when that is the only one; \
         driver/queue: a driver's queue of {CACHE} pages whose head is used again if no other claim on it exists; \
         driver/unkept: every page is mapped when it is allocated and unmapped when it comes back; netmem/page: \
         only the page stage, never mapped. These five contain nothing but the page stage and the described steps. \
         netmem/orphan: a pool whose owner has left; netmem/adopted: the same, adopted by the worker that uses it"
    ));
    bench.note(
        "a mapping is a model: it takes the core this number of nanoseconds at each map and each unmap; 0 is a UMEM",
    );
    Ok(())
}

/// Measures all methods with one cost of mapping and one number of held frames.
fn group(scene: &Scene<'_>, bench: &mut Bench<'_>, map_ns: u32, held: usize) -> Result<(), SetUpError> {
    let trips = KINDS.iter().map(|kind| trip(scene, kind.keeps, map_ns, Outstanding::in_order(held)));
    let mut trips: Vec<Box<dyn Turns + '_>> = trips.collect::<Result<_, _>>()?;
    let variant = |(trip, kind): (_, &Kind)| -> Box<dyn Variant + '_> {
        let trip: &mut Box<dyn Turns + '_> = trip;
        let label = label(kind.variant, map_ns, held);
        Box::new(OpLoop::new(label, scene.clock, Box::new(|ops| trip.run(ops))))
    };
    let mut variants: Vec<Box<dyn Variant + '_>> = trips.iter_mut().zip(&KINDS).map(variant).collect();
    let beside = |a, b| Comparison { a, b, metric: Metric::NsPerOp };
    let mut comparisons: Vec<Comparison> = (1..KINDS.len()).map(|b| beside(POOL, b)).collect();
    comparisons.extend([QUEUE, UNKEPT].map(|b| beside(OWNER, b)));
    comparisons.extend([beside(ADOPTED, ORPHAN), beside(EARLY, OWNER), beside(EARLY, QUEUE)]);
    let series = bench.measure_with(&mut variants, &comparisons, Cores::Same, scene.effort);
    drop(variants);
    for (one, kind) in series.iter().zip(&KINDS) {
        let source = kind.published.filter(|_| map_ns == 0 && held == 0);
        bench.row(one, Metric::CyclesPerOp, source.map(|(cycles, path)| published(cycles, path)));
        bench.row(one, Metric::NsPerOp, None);
    }
    for (trip, kind) in trips.into_iter().zip(&KINDS) {
        check(bench, kind, trip.settle(), (map_ns, held));
    }
    finding(bench, &series, map_ns, held);
    Ok(())
}

/// Checks that every page was allocated, kept its bytes and came back, and that it stayed mapped exactly where the
/// method keeps pages mapped.
fn check(bench: &mut Bench<'_>, kind: &Kind, account: Account, (map_ns, held): (u32, usize)) {
    let Account { refused, corrupted, missing, left, .. } = account;
    let what = format!("{}, mapping {map_ns} ns, {held} held", kind.variant);
    bench.check(
        &format!("{what}: every page came whole and was freed"),
        refused == 0 && corrupted == 0 && missing == 0,
        format!("{refused} refused, {corrupted} not as written, {missing} not freed"),
    );
    // Whether pages had to be unmapped, and whether all stayed mapped otherwise.
    let (done, kept) = match kind.keeps {
        Keeps::Pool
        | Keeps::FreedElsewhere
        | Keeps::Orphan
        | Keeps::Adopted
        | Keeps::Owner
        | Keeps::Claim => (true, left == 0),
        // The queue is as long as the cache. If more pages are held, no page in it is free when its turn comes.
        Keeps::Queue if held <= CACHE => (true, left == 0),
        Keeps::Queue | Keeps::Nobody | Keeps::Stage => (left > 0, true),
    };
    bench.check_done(
        &format!("{what}: pages recycled as they are to be"),
        done,
        kept,
        format!("{left} pages were unmapped"),
    );
}

/// Reports the gain of the pool, and of the call at the last release, over the older method and over no recycling.
fn finding(bench: &mut Bench<'_>, series: &[Series], map_ns: u32, held: usize) {
    let ns = |place: usize| {
        let ticks = series.get(place)?.at(0.5)?;
        Some(Metric::NsPerOp.of(ticks, bench.clock.ticks_per_ns()))
    };
    let all = [POOL, OWNER, QUEUE, UNKEPT].map(ns);
    let [Some(pool), Some(owner), Some(queue), Some(unkept)] = all else { return };
    bench.note(format!(
        "mapping {map_ns} ns, {held} held: the pool {pool:.1} ns a page, kept by the last release {owner:.1}, the \
         older method {queue:.1}, no recycling {unkept:.1}"
    ));
}

fn label(variant: &str, map_ns: u32, held: usize) -> Label {
    let params = params([
        ("work", "frame".into()),
        ("burst", 1.into()),
        ("cores", "same".into()),
        ("bytes", PAGE_SIZE.into()),
        ("touch", false.into()),
        ("map_ns", map_ns.into()),
        ("held", held.into()),
    ]);
    Label { variant: variant.to_owned(), params }
}

fn published(cycles: f64, path: &str) -> Published {
    let of = format!(
        "Linux 6.13 on an E5-1650 v4 at 3.6 GHz, page_pool's own benchmark ([brouer25-pool]), one page, {path}"
    );
    Published { value: cycles, unit: "cycles".to_owned(), of }
}
