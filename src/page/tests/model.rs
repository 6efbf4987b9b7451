//! Sequences of operations against a model, checked after every step: no overlap, nothing lost, counts right,
//! contents intact.
//!
//! `NETMEM_STEPS` says how many steps are taken in all.

use super::*;
use crate::limits::PAGE_SIZE;
use crate::page::{DescriptorSize, Lists, Owner, OwnerId, SharedPage, Watermarks};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

const WORKERS: usize = 2;
const STEPS_EACH: usize = 400;

/// The operations of a test.
#[derive(Debug, Clone)]
enum Op {
    Alloc { worker: usize, order: u8 },
    Urgent { worker: usize, order: u8 },
    OrSingle { worker: usize, order: u8 },
    Free { worker: usize, pick: usize },
    Drop { pick: usize },
    Bulk { worker: usize, n: usize, keep: usize },
    FreeBulk { worker: usize, n: usize },
    Share { pick: usize, keeps: bool },
    Clone { pick: usize },
    Release { worker: Option<usize>, pick: usize },
    Reclaim { pick: usize },
    Decay { worker: usize },
    Home { worker: usize, node: usize },
    Leave { worker: usize },
    Lists { lists: Lists },
    Watermarks { min: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let (worker, pick, order) = (0..WORKERS, any::<usize>(), 0..=10u8);
    prop_oneof![
        8 => (worker.clone(), 0..=3u8).prop_map(|(worker, order)| Op::Alloc { worker, order }),
        3 => (worker.clone(), order.clone()).prop_map(|(worker, order)| Op::Alloc { worker, order }),
        1 => (worker.clone(), order.clone()).prop_map(|(worker, order)| Op::Urgent { worker, order }),
        1 => (worker.clone(), order).prop_map(|(worker, order)| Op::OrSingle { worker, order }),
        9 => (worker.clone(), pick).prop_map(|(worker, pick)| Op::Free { worker, pick }),
        1 => pick.prop_map(|pick| Op::Drop { pick }),
        4 => (worker.clone(), 1..=128usize, 0..=128usize)
            .prop_map(|(worker, n, keep)| Op::Bulk { worker, n, keep }),
        4 => (worker.clone(), 1..=128usize).prop_map(|(worker, n)| Op::FreeBulk { worker, n }),
        2 => (pick, any::<bool>()).prop_map(|(pick, keeps)| Op::Share { pick, keeps }),
        2 => pick.prop_map(|pick| Op::Clone { pick }),
        4 => (prop::option::of(worker.clone()), pick).prop_map(|(worker, pick)| Op::Release { worker, pick }),
        1 => pick.prop_map(|pick| Op::Reclaim { pick }),
        1 => worker.clone().prop_map(|worker| Op::Decay { worker }),
        1 => (worker.clone(), 0..3usize).prop_map(|(worker, node)| Op::Home { worker, node }),
        1 => worker.prop_map(|worker| Op::Leave { worker }),
        1 => lists().prop_map(|lists| Op::Lists { lists }),
        1 => (0..700usize).prop_map(|min| Op::Watermarks { min }),
    ]
}

fn lists() -> impl Strategy<Value = Lists> {
    prop_oneof![
        Just(Lists::Brouer2017),
        Just(Lists::Linux2017),
        Just(Lists::Linux2021),
        (0..200usize, 0..70usize).prop_map(|(high, batch)| Lists::Fixed { high, batch }),
        (0..100usize, 0..600usize).prop_map(|(least, most)| Lists::Tuned { least, most }),
    ]
}

fn watermarks(min: usize) -> Watermarks {
    Watermarks { min, low: min + min / 2, high: min + min }
}

fn settings() -> impl Strategy<Value = MemoryConfig> {
    let descriptor =
        prop::sample::select(vec![DescriptorSize::Compact, DescriptorSize::Bytes56, DescriptorSize::Bytes64]);
    let min = prop_oneof![Just(0usize), 0..500usize];
    (lists(), descriptor, 1..=2usize, min, any::<bool>()).prop_map(
        |(lists, descriptor, nodes, min, statistics)| {
            let watermarks = watermarks(min);
            MemoryConfig { lists, descriptor, nodes, watermarks, statistics, ..config(8, WORKERS) }
        },
    )
}

/// Pages that owners kept, by the word they were shared with.
static KEPT: Mutex<BTreeMap<u64, Page>> = Mutex::new(BTreeMap::new());

/// The two owners: the first keeps, the second does not.
fn owners() -> [OwnerId; 2] {
    static OWNERS: OnceLock<[OwnerId; 2]> = OnceLock::new();
    *OWNERS.get_or_init(|| {
        let keep = |_: Option<&mut Worker>, page: Page, word: u64| {
            assert!(KEPT.lock().unwrap().insert(word, page).is_none());
            None
        };
        let free = |_: Option<&mut Worker>, page: Page, _: u64| Some(page);
        [keep as fn(Option<&mut Worker>, Page, u64) -> Option<Page>, free]
            .map(|release| OwnerId::register(Owner { release, early: Some(|_, _, _| ()) }).unwrap())
    })
}

/// Blocks that are out.
enum Held {
    Alone(Page),
    Shared { claims: Vec<SharedPage>, keeps: bool, word: u64 },
}

impl Held {
    fn bytes(&self) -> &[u8] {
        match self {
            Held::Alone(page) => page.bytes(),
            Held::Shared { claims, .. } => claims[0].bytes(),
        }
    }

    /// As its number at both ends.
    fn check(&self, number: u32) {
        let bytes = self.bytes();
        assert_eq!(
            (&bytes[..4], bytes.last_chunk()),
            (&number.to_ne_bytes()[..], Some(&number.to_ne_bytes()))
        );
    }

    fn order(&self) -> u8 {
        match self {
            Held::Alone(page) => page.order(),
            Held::Shared { claims, .. } => claims[0].order(),
        }
    }
}

/// A memory, its workers, and the expected state of the blocks that are out.
struct Model {
    memory: Memory,
    workers: Vec<Worker>,
    /// By number, with each block's pages.
    held: BTreeMap<u32, (u32, Held)>,
    nodes: usize,
    words: u64,
    name: u64,
}

impl Model {
    fn new(config: &MemoryConfig, name: u64) -> Self {
        let memory = Memory::new(config).unwrap();
        let workers = (0..WORKERS).map(|_| memory.worker().unwrap()).collect();
        Model { memory, workers, held: BTreeMap::new(), nodes: config.nodes, words: 0, name }
    }

    fn pages(&self) -> u64 {
        self.held.values().map(|(pages, _)| u64::from(*pages)).sum()
    }

    fn insert(&mut self, mut page: Page, order: u8) {
        let (number, pages) = (page.number().get(), 1u32 << order);
        assert_eq!((page.order(), page.bytes().len()), (order, PAGE_SIZE << order));
        assert!(page.address().addr().is_multiple_of(PAGE_SIZE << order) && page.node() < self.nodes);
        let before = self.held.range(..number).next_back().map(|(&n, &(pages, _))| n + pages);
        assert!(before.is_none_or(|end| end <= number), "overlaps the block before");
        let after = self.held.range(number..).next().map(|(&n, _)| n);
        assert!(after.is_none_or(|start| number + pages <= start), "overlaps the block after");
        page.bytes_mut()[..4].copy_from_slice(&number.to_ne_bytes());
        *page.bytes_mut().last_chunk_mut().unwrap() = number.to_ne_bytes();
        self.held.insert(number, (pages, Held::Alone(page)));
    }

    /// Some block that satisfies `want`, its contents checked.
    fn pick(&mut self, pick: usize, want: fn(&Held) -> bool) -> Option<(u32, Held)> {
        let number = *self.held.keys().nth(pick % self.held.len().max(1))?;
        let (&number, _) = self.held.range(number..).find(|(_, (_, held))| want(held))?;
        let (_, held) = self.held.remove(&number)?;
        held.check(number);
        Some((number, held))
    }

    fn pick_alone(&mut self, pick: usize) -> Option<Page> {
        match self.pick(pick, |held| matches!(held, Held::Alone(_)))? {
            (_, Held::Alone(page)) => Some(page),
            _ => unreachable!("picked a page"),
        }
    }

    fn put(&mut self, number: u32, held: Held) {
        self.held.insert(number, (1 << held.order(), held));
    }

    fn step(&mut self, op: &Op) {
        match *op {
            Op::Alloc { worker, order } => {
                let page = self.memory.alloc(&mut self.workers[worker], order);
                self.got(page, order, false);
            }
            Op::Urgent { worker, order } => {
                let page = self.memory.alloc_with_reserve(&mut self.workers[worker], order);
                self.got(page, order, true);
            }
            Op::OrSingle { worker, order } => {
                let page = self.memory.alloc_or_single(&mut self.workers[worker], order);
                let order = page.as_ref().map_or(0, Page::order);
                self.got(page, order, false);
            }
            Op::Free { worker, pick } => {
                let page = self.pick_alone(pick);
                page.into_iter().for_each(|page| self.memory.free(&mut self.workers[worker], page));
            }
            Op::Drop { pick } => drop(self.pick_alone(pick)),
            Op::Bulk { worker, n, keep } => self.bulk(worker, n, keep),
            Op::FreeBulk { worker, n } => {
                let mut pages: Vec<_> =
                    (0..n).map(|i| if i % 7 == 6 { None } else { self.pick_alone(i) }).collect();
                self.memory.free_bulk(&mut self.workers[worker], &mut pages);
                assert!(pages.iter().all(Option::is_none));
            }
            Op::Decay { worker } => self.memory.decay(&mut self.workers[worker]),
            Op::Home { worker, node } => {
                assert_eq!(self.memory.set_home_node(&mut self.workers[worker], node), node < self.nodes);
            }
            Op::Leave { worker } => {
                drop(self.workers.remove(worker));
                self.workers.insert(worker, self.memory.worker().unwrap());
            }
            Op::Lists { lists } => {
                self.memory.set_lists(lists);
                assert_eq!(self.memory.lists(), lists);
            }
            Op::Watermarks { min } => {
                assert_eq!(self.memory.set_watermarks(watermarks(min)), Ok(()));
                assert_eq!(self.memory.watermarks(), watermarks(min));
            }
            ref shared => self.step_shared(shared),
        }
    }

    /// Records the result of an allocation.
    fn got(&mut self, page: Option<Page>, order: u8, urgent: bool) {
        let stats = self.memory.stats();
        match page {
            Some(page) => {
                assert!(urgent || !page.is_reserve());
                self.insert(page, order);
            }
            None if urgent => assert!(order > 0 || stats.free + stats.cached == 0, "false empty"),
            None => assert!(order > 0 || stats.cached == 0, "false empty: some are with workers"),
        }
    }

    fn bulk(&mut self, worker: usize, n: usize, keep: usize) {
        let mut pages = places(n);
        pages[n / 2] = self.pick_alone(n);
        let full = pages[n / 2].as_ref().map(|page| (page.number(), page.order()));
        let missing = n - usize::from(full.is_some());
        let got = self.memory.alloc_bulk(&mut self.workers[worker], &mut pages);
        assert_eq!(pages.iter().flatten().count(), got + n - missing);
        assert!(got == missing || self.memory.stats().cached == 0, "false empty");
        if let Some((number, order)) = full {
            let page = pages[n / 2].take().unwrap();
            assert_eq!(page.number(), number, "a full place is left alone");
            self.insert(page, order);
        }
        let rest = pages.split_off(keep.min(n));
        pages.into_iter().flatten().for_each(|page| self.insert(page, 0));
        let mut rest = rest;
        self.memory.free_bulk(&mut self.workers[worker], &mut rest);
        assert!(rest.iter().all(Option::is_none));
    }

    fn step_shared(&mut self, op: &Op) {
        let is_shared: fn(&Held) -> bool = |held| matches!(held, Held::Shared { .. });
        match *op {
            Op::Share { pick, keeps } => {
                let Some(page) = self.pick_alone(pick) else { return };
                self.words += 1;
                let word = self.name << 32 | self.words;
                let (number, owner) = (page.number().get(), owners()[usize::from(!keeps)]);
                self.put(number, Held::Shared { claims: vec![page.share(owner, word)], keeps, word });
            }
            Op::Clone { pick } => {
                let Some((number, mut held)) = self.pick(pick, is_shared) else { return };
                if let Held::Shared { claims, .. } = &mut held {
                    claims.push(claims[0].clone());
                }
                self.put(number, held);
            }
            Op::Release { worker, pick } => {
                let Some((number, Held::Shared { mut claims, keeps, word })) = self.pick(pick, is_shared)
                else {
                    return;
                };
                let claim = claims.swap_remove(pick % claims.len());
                assert_eq!((claim.holders() as usize, claim.word()), (claims.len() + 1, word));
                match worker {
                    Some(worker) => claim.release(&mut self.workers[worker]),
                    None => drop(claim),
                }
                if !claims.is_empty() {
                    self.put(number, Held::Shared { claims, keeps, word });
                } else if keeps {
                    let page = KEPT.lock().unwrap().remove(&word).expect("the owner kept it");
                    assert_eq!(page.number().get(), number);
                    self.put(number, Held::Alone(page));
                }
            }
            Op::Reclaim { pick } => {
                let Some((number, Held::Shared { mut claims, keeps, word })) = self.pick(pick, is_shared)
                else {
                    return;
                };
                match claims.pop().expect("one at least").into_page() {
                    Ok(page) => {
                        assert!(claims.is_empty());
                        self.put(number, Held::Alone(page));
                    }
                    Err(claim) => {
                        claims.push(claim);
                        assert!(claims.len() > 1);
                        self.put(number, Held::Shared { claims, keeps, word });
                    }
                }
            }
            _ => unreachable!("not about shared pages: {op:?}"),
        }
    }

    fn check(&self, op: &Op) {
        let stats = self.memory.stats();
        assert_eq!(stats.free + stats.cached + self.pages(), stats.total, "conservation after {op:?}");
        assert!(stats.cached <= stats.total / 2, "workers keep more than their share");
        let nodes = (0..self.nodes).map(|node| self.memory.node_stats(node).unwrap());
        let (total, free) = nodes.fold((0, 0), |(total, free), node| (total + node.total, free + node.free));
        assert_eq!((total, free), (stats.total, stats.free));
    }
}

fn play(config: &MemoryConfig, ops: &[Op]) {
    static NAMES: AtomicUsize = AtomicUsize::new(0);
    let mut model = Model::new(config, NAMES.fetch_add(1, Relaxed) as u64);
    for op in ops {
        model.step(op);
        model.check(op);
    }
    let Model { memory, workers, held, .. } = model;
    for (number, (_, held)) in held {
        held.check(number);
        let kept = match held {
            Held::Alone(page) => Some(page),
            Held::Shared { claims, word, .. } => {
                drop(claims);
                KEPT.lock().unwrap().remove(&word)
            }
        };
        drop(kept);
    }
    drop(workers);
    let stats = memory.stats();
    assert_eq!((stats.free, stats.cached), (stats.total, 0), "everything is home");
}

#[test]
fn no_sequence_of_operations_loses_overlaps_or_spoils_a_page() {
    let steps = std::env::var("NETMEM_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(100_000);
    let cases = u32::try_from(steps / STEPS_EACH).unwrap().max(1);
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let sequence = (settings(), prop::collection::vec(op(), STEPS_EACH));
    let ran = TestRunner::new(config).run(&sequence, |(config, ops)| {
        play(&config, &ops);
        Ok(())
    });
    ran.unwrap();
}
