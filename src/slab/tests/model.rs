//! Operation sequences against a model that is checked after every step.

use super::*;
use crate::slab::Object;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

/// What a test may do to a cache with two workers.
#[derive(Debug, Clone)]
enum Op {
    Alloc { worker: usize },
    Bulk { worker: usize, n: usize },
    Free { worker: usize, pick: usize },
    FreeMany { worker: usize, n: usize },
    Drop { pick: usize },
    WorkerLeaves { worker: usize },
    Shrink,
    Validate,
    Order(usize),
    MinPartial(usize),
    CpuPartial(usize),
    SheafCapacity(usize),
}

fn op() -> impl Strategy<Value = Op> {
    let w = 0..2usize;
    prop_oneof![
        12 => w.clone().prop_map(|worker| Op::Alloc { worker }),
        8 => (w.clone(), 0..120usize).prop_map(|(worker, n)| Op::Bulk { worker, n }),
        12 => (w.clone(), any::<usize>()).prop_map(|(worker, pick)| Op::Free { worker, pick }),
        8 => (w.clone(), 0..150usize).prop_map(|(worker, n)| Op::FreeMany { worker, n }),
        4 => any::<usize>().prop_map(|pick| Op::Drop { pick }),
        1 => w.prop_map(|worker| Op::WorkerLeaves { worker }),
        1 => Just(Op::Shrink),
        1 => Just(Op::Validate),
        1 => (0..3usize).prop_map(Op::Order),
        1 => (0..12usize).prop_map(Op::MinPartial),
        1 => (0..40usize).prop_map(Op::CpuPartial),
        1 => (1..70usize).prop_map(Op::SheafCapacity),
    ]
}

struct Play {
    memory: Memory,
    workers: [Option<crate::sync::Worker>; 2],
    cache: Cache<Big>,
    held: Vec<Object<Big>>,
    stamp: u64,
}

impl Play {
    fn new((layer, word): (Layer, WordForm)) -> Play {
        let memory = memory(2);
        let workers = [Some(memory.worker().unwrap()), Some(memory.worker().unwrap())];
        let cache = Cache::new(&memory, &config(layer, word)).unwrap();
        Play { memory, workers, cache, held: Vec::new(), stamp: 0 }
    }

    fn step(&mut self, op: &Op) {
        let Play { memory, workers, cache, held, stamp } = self;
        match *op {
            Op::Alloc { worker } => {
                *stamp += 1;
                held.extend(cache.alloc(workers[worker].as_mut().unwrap(), [*stamp; 32]));
            }
            Op::Bulk { worker, n } => {
                let before = held.len();
                let done = cache.alloc_bulk(workers[worker].as_mut().unwrap(), n, held, || {
                    *stamp += 1;
                    [*stamp; 32]
                });
                assert_eq!(held.len() - before, if done { n } else { 0 });
            }
            Op::Free { worker, pick } if !held.is_empty() => {
                let object = held.swap_remove(pick % held.len());
                let first = object[0];
                assert_eq!(
                    cache.take(workers[worker].as_mut().unwrap(), object),
                    [first; 32],
                    "contents intact"
                );
            }
            Op::FreeMany { worker, n } => {
                let mut rest = held.split_off(held.len() - n.min(held.len()));
                cache.free_bulk(workers[worker].as_mut().unwrap(), &mut rest);
                assert!(rest.is_empty());
            }
            Op::Drop { pick } if !held.is_empty() => drop(held.swap_remove(pick % held.len())),
            Op::Free { .. } | Op::Drop { .. } => {}
            Op::WorkerLeaves { worker } => {
                workers[worker] = None;
                workers[worker] = memory.worker().ok();
            }
            Op::Shrink => cache.shrink(),
            Op::Validate => assert!(cache.validate().is_empty()),
            Op::Order(order) => cache.set("order", order).unwrap(),
            Op::MinPartial(n) => cache.set("min_partial", n).unwrap(),
            Op::CpuPartial(n) => drop(cache.set("cpu_partial", n)),
            Op::SheafCapacity(n) => drop(cache.set("sheaf_capacity", n)),
        }
    }

    fn check(&self, op: &Op) {
        let mut at: Vec<usize> =
            self.held.iter().map(|object| std::ptr::from_ref(&**object).addr()).collect();
        at.sort_unstable();
        assert!(at.windows(2).all(|pair| pair[0] + 256 <= pair[1]), "objects overlap after {op:?}");
        let intact = |object: &Object<Big>| **object == [object[0]; 32];
        assert!(self.held.iter().all(intact), "contents intact after {op:?}");
        let stats = self.cache.stats();
        let kept = stats.cached + stats.barn;
        assert!(stats.slabs * 64 >= self.held.len() as u64 + kept, "{stats:?} after {op:?}");
    }

    fn end(self) {
        let Play { memory, workers, cache, held, .. } = self;
        let out = held.len() as u64;
        let live = cache.destroy().map_or_else(|live| (live.len(), Some(live.cache)), |()| (0, None));
        assert_eq!(live.0, out, "destroy counts what is out");
        drop(held);
        live.1.into_iter().for_each(|cache| cache.destroy().unwrap());
        drop(workers);
        assert_eq!(memory.stats().free, memory.stats().total, "all pages back");
    }
}

/// The total number of steps: `NETMEM_STEPS`, otherwise 60,000.
fn steps() -> usize {
    std::env::var("NETMEM_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(60_000)
}

#[test]
fn no_sequence_of_operations_loses_overlaps_or_spoils_an_object() {
    const LENGTH: usize = if cfg!(miri) { 50 } else { 150 };
    let cases = (steps() / LENGTH / KINDS.len()).max(1) as u32;
    for kind in KINDS {
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let ops = prop::collection::vec(op(), LENGTH);
        let played = TestRunner::new(config).run(&ops, |ops| {
            let mut play = Play::new(kind);
            for op in &ops {
                play.step(op);
                play.check(op);
            }
            play.end();
            Ok(())
        });
        played.unwrap_or_else(|failed| panic!("{kind:?}: {failed}"));
    }
}
