//! `hardening`: the cost of each part of a memory's hardening for a page, an object, a frame, and a slab that is
//! allocated and freed.

use std::cell::Cell;
use std::hint::black_box;

use netmem::limits::PAGE_SIZE;
use netmem::page::{Hardening, Memory, MemoryConfig};
use netmem::pool::{Batch, Pool, PoolConfig};
use netmem::slab::{Cache, CacheConfig};
use netmem::sync::Worker;

use super::pages::{Hand, label};
use super::slab_objects::{Block, alloc};
use super::{Experiment, check_all_freed};
use crate::bench::{Bench, Comparison, Cores, SetUpError};
use crate::json::Ratio;
use crate::method::ratio::{BesideOne, TOO_FEW};
use crate::method::round::Variant;
use crate::method::window::OpLoop;
use crate::metric::Metric;
use crate::sources;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "hardening",
    source: sources::NONE.key,
    question: "What does each part of a memory's hardening cost a page, an object, a frame, and a slab that comes and goes?",
    seconds: 20,
    keys: &[],
    run,
};

/// The setting, and the name of its variant.
const SETTINGS: [(&str, &str); 6] = [
    ("off", "netmem"),
    ("guard", "netmem/guard"),
    ("random", "netmem/random"),
    ("clear", "netmem/clear"),
    ("canary", "netmem/canary"),
    ("all", "netmem/all"),
];

/// An object of 256 bytes, whose first line is written.
type Object = Block<8, 24>;
const OBJECT: usize = size_of::<Object>();
/// Frames that are allocated at the same time.
const BURST: usize = 32;
/// Frames of a pool.
const FRAMES: usize = 1024;

/// A memory under one setting, with its cache and pool.
struct Scene {
    name: &'static str,
    memory: Memory,
    worker: Worker,
    objects: Cache<Object>,
    /// A cache that keeps no empty slab.
    fresh: Cache<Object>,
    pool: Pool,
    refused: Cell<u64>,
}

impl Scene {
    fn new((parts, name): (&str, &'static str)) -> Result<Scene, SetUpError> {
        let hardening: Hardening = parts.parse().map_err(SetUpError::at("hardening"))?;
        let config = MemoryConfig { bytes: 16 << 20, hardening, ..MemoryConfig::default() };
        let memory = Memory::new(&config).map_err(SetUpError::at("memory"))?;
        let mut worker = memory.worker().map_err(SetUpError::at("worker"))?;
        let cache = |name: &str, min_partial| {
            let config =
                CacheConfig { name: name.into(), merge: false, min_partial, ..CacheConfig::default() };
            Cache::new(&memory, &config).map_err(SetUpError::at("cache"))
        };
        let (objects, fresh) = (cache("objects", None)?, cache("fresh", Some(0))?);
        let config = PoolConfig { frames: FRAMES, ..PoolConfig::default() };
        let pool = Pool::new(&memory, &mut worker, &config).map_err(SetUpError::at("pool"))?;
        Ok(Scene { name, memory, worker, objects, fresh, pool, refused: Cell::new(0) })
    }

    #[inline(never)]
    fn object(&mut self, ops: u32) {
        for stamp in 0..ops {
            match alloc(&self.objects, &mut self.worker, stamp.into()) {
                Some(object) => self.objects.free(&mut self.worker, black_box(object)),
                None => self.refuse(1),
            }
        }
    }

    /// The slab is allocated for this object and freed with it.
    #[inline(never)]
    fn slab(&mut self, ops: u32) {
        for stamp in 0..ops {
            match alloc(&self.fresh, &mut self.worker, stamp.into()) {
                Some(object) => self.fresh.free(&mut self.worker, black_box(object)),
                None => self.refuse(1),
            }
            self.fresh.shrink();
        }
    }

    #[inline(never)]
    fn frames(&mut self, ops: u32) {
        let mut batch = Batch::new();
        for _ in (0..ops).step_by(BURST) {
            let got = self.pool.alloc_burst(&mut self.worker, &mut batch, BURST);
            self.refuse((BURST - got) as u64);
            black_box(&mut batch).free(&mut self.worker);
        }
    }

    fn refuse(&self, refused: u64) {
        self.refused.set(self.refused.get() + refused);
    }
}

/// A measured work: its name, the bytes of one item, the number of items at the same time, and the function.
type Work = (&'static str, usize, usize, fn(&mut Scene, u32));

const WORKS: [Work; 3] = [
    ("object", OBJECT, 1, Scene::object),
    ("slab", OBJECT, 1, Scene::slab),
    ("frame", 2048, BURST, Scene::frames),
];

fn run(bench: &mut Bench<'_>) -> Result<(), SetUpError> {
    let mut scenes = SETTINGS.into_iter().map(Scene::new).collect::<Result<Vec<_>, _>>()?;
    let clock = bench.clock;
    for (work, bytes, burst, body) in WORKS {
        let own = [("work", work.into()), ("bytes", bytes.into()), ("burst", burst.into())];
        let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
        for scene in &mut scenes {
            let named = label(scene.name, &own);
            variants.push(Box::new(OpLoop::of(
                burst as u32,
                named,
                &clock,
                Box::new(|ops| body(scene, ops)),
            )));
        }
        measure(bench, &mut variants);
        if work == "object"
            && let Some(ratio) = bench.reported_ratio("netmem/random", "netmem")
        {
            let note = at_rest("random", ratio);
            bench.note(note);
        }
    }
    let mut hands = Vec::new();
    for scene in &scenes {
        hands.push((scene.name, Hand::new(&scene.memory, 0, &scene.refused)?));
    }
    let mut variants: Vec<Box<dyn Variant + '_>> = Vec::new();
    for (name, hand) in &mut hands {
        let named = label(name, &[("bytes", PAGE_SIZE.into())]);
        variants.push(Box::new(OpLoop::new(named, &clock, Box::new(|ops| hand.one::<false>(ops)))));
    }
    measure(bench, &mut variants);
    drop(variants);
    drop(hands);
    scenes.into_iter().for_each(|scene| end(bench, scene));
    notes(bench);
    Ok(())
}

/// Measures each setting, compared with no hardening.
fn measure<'a>(bench: &mut Bench<'_>, variants: &mut [Box<dyn Variant + 'a>]) {
    let against_off: Vec<Comparison> =
        (1..SETTINGS.len()).map(|a| Comparison { a, b: 0, metric: Metric::NsPerOp }).collect();
    let series = bench.measure_with(variants, &against_off, Cores::Same, bench.effort());
    series.iter().for_each(|series| bench.row(series, Metric::NsPerOp, None));
}

/// Checks that every frame is back in its pool, that nothing was refused, and that no misuse was found, since there is
/// none.
fn end(bench: &mut Bench<'_>, scene: Scene) {
    let Scene { name, memory, worker, objects, fresh, pool, refused } = scene;
    let found = objects.found().len() + fresh.found().len();
    bench.check(&format!("{name}: no misuse found"), found == 0, format!("{found} found"));
    check_all_freed(bench, name, &pool);
    drop((objects, fresh, pool, worker));
    let (stats, refused) = (memory.stats(), refused.get());
    let detail = format!("{refused} refused");
    bench.check(&format!("{name}: every allocation succeeded"), refused == 0, detail);
    let detail = format!("{} free + {} cached of {}", stats.free, stats.cached, stats.total);
    bench.check(&format!("{name}: pages conserved"), stats.free + stats.cached == stats.total, detail);
    let (guards, refused) = memory.guard_pages();
    let detail = format!("{guards} guard pages left, {refused} refused");
    bench.check(&format!("{name}: guard pages"), (guards, refused) == (0, 0), detail);
}

fn notes(bench: &mut Bench<'_>) {
    bench.note(
        "no source published figures for this; netmem is the same memory without any part, in the same rounds",
    );
    bench.note(
        "slab: an object whose slab is allocated for it and freed with it, for which guard makes two system calls \
         and random draws numbers; object, page and frame: no memory is new, so guard and random do nothing",
    );
    bench.note("page, all: with clear and random together a page is chosen from 16 that are taken from the node, and the \
         others are put back");
}

/// Says whether a part costs time for objects whose slab is not new, by its ratio.
fn at_rest(part: &str, ratio: &Ratio) -> String {
    let Ratio { median, low, high, .. } = ratio;
    let found = match ratio.beside_one() {
        BesideOne::TooFew => TOO_FEW,
        BesideOne::Above => "it costs something where nothing is fresh",
        BesideOne::Around | BesideOne::Below => "no cost is seen where nothing is fresh",
    };
    format!("{part}: an object takes {median} ({low} to {high}) times the time: {found}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_serves_every_work_and_all_is_back() {
        for setting in SETTINGS {
            let mut scene = Scene::new(setting).unwrap();
            for (.., body) in WORKS {
                body(&mut scene, 100);
            }
            let report = crate::bench::tests::report_of(false, |bench| end(bench, scene));
            assert!(report.ok(), "{setting:?}: {:?}", report.checks);
        }
    }

    #[test]
    fn a_part_costs_something_only_if_the_whole_interval_says_so() {
        let ratio = |low| Ratio {
            a: "netmem/random".into(),
            b: "netmem".into(),
            params: Default::default(),
            metric: "ns_per_op".into(),
            median: 1.2,
            low,
            high: 1.3,
            undecided: false,
            too_few: false,
        };
        assert!(at_rest("random", &ratio(1.1)).ends_with("it costs something where nothing is fresh"));
        assert!(at_rest("random", &ratio(0.9)).ends_with("no cost is seen where nothing is fresh"));
        // Seen: after one set-up it costs something, or nothing.
        for low in [0.9, 1.1] {
            let few = Ratio { too_few: true, ..ratio(low) };
            assert!(at_rest("random", &few).ends_with("too few set-ups or rounds to tell"));
        }
    }
}
