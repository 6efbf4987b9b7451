//! The page stage against a model, and what happens at its edges.

use super::{Memory, MemoryConfig, Page};
use crate::limits::PAGE_SIZE;
use crate::sys::region::BackingWish;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn memory(mib: usize, workers: usize) -> Memory {
    Memory::new(&MemoryConfig { bytes: mib << 20, workers, backing: BackingWish::Small, statistics: true })
        .unwrap()
}

/// What a test may do to a memory with two workers.
#[derive(Debug, Clone)]
enum Op {
    Alloc { worker: usize, order: u8 },
    Free { worker: usize, pick: usize },
    Drop { pick: usize },
    Bulk { worker: usize, n: usize },
    WorkerLeaves { worker: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let worker = 0..2usize;
    prop_oneof![
        5 => (worker.clone(), 0..=10u8).prop_map(|(worker, order)| Op::Alloc { worker, order }),
        4 => (worker.clone(), any::<usize>()).prop_map(|(worker, pick)| Op::Free { worker, pick }),
        1 => any::<usize>().prop_map(|pick| Op::Drop { pick }),
        1 => (worker.clone(), 1..100usize).prop_map(|(worker, n)| Op::Bulk { worker, n }),
        1 => worker.prop_map(|worker| Op::WorkerLeaves { worker }),
    ]
}

/// Pages held, by their number; each stamped with it in its first and last word.
#[derive(Default)]
struct Held(BTreeMap<u32, Page>);

impl Held {
    fn insert(&mut self, mut page: Page, order: u8) {
        let (number, pages) = (page.number().get(), 1 << order);
        assert_eq!((page.order(), page.bytes().len()), (order, PAGE_SIZE << order));
        let before = self.0.range(..number).next_back().map(|(&n, p)| n + (1 << p.order()));
        assert!(before.is_none_or(|end| end <= number), "overlaps the block before");
        let after = self.0.range(number..).next().map(|(&n, _)| n);
        assert!(after.is_none_or(|start| number + pages <= start), "overlaps the block after");
        page.bytes_mut()[..4].copy_from_slice(&number.to_ne_bytes());
        page.bytes_mut().last_chunk_mut::<4>().unwrap().copy_from_slice(&number.to_ne_bytes());
        self.0.insert(number, page);
    }

    fn remove(&mut self, pick: usize) -> Option<Page> {
        let number = *self.0.keys().nth(pick % self.0.len().max(1))?;
        let page = self.0.remove(&number)?;
        assert_eq!(page.bytes()[..4], number.to_ne_bytes(), "contents intact");
        assert_eq!(page.bytes().last_chunk(), Some(&number.to_ne_bytes()), "contents intact");
        Some(page)
    }

    fn pages(&self) -> u64 {
        self.0.values().map(|page| 1 << page.order()).sum()
    }
}

fn play(ops: &[Op]) {
    let memory = memory(8, 2);
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    let mut held = Held::default();
    for op in ops {
        match *op {
            Op::Alloc { worker, order } => match memory.alloc(&mut workers[worker], order) {
                Some(page) => held.insert(page, order),
                None => assert!(order > 0 || held.pages() == memory.stats().total, "false empty"),
            },
            Op::Free { worker, pick } => {
                held.remove(pick).into_iter().for_each(|page| memory.free(&mut workers[worker], page));
            }
            Op::Drop { pick } => drop(held.remove(pick)),
            Op::Bulk { worker, n } => {
                let mut pages: Vec<Option<Page>> = (0..n).map(|_| None).collect();
                let got = memory.alloc_bulk(&mut workers[worker], &mut pages);
                assert_eq!(pages.iter().flatten().count(), got);
                pages.drain(..n / 2).flatten().for_each(|page| held.insert(page, 0));
                memory.free_bulk(&mut workers[worker], &mut pages);
            }
            Op::WorkerLeaves { worker } => {
                let slot = workers[worker].slot();
                let spare = std::mem::replace(&mut workers[worker], self::memory(2, 1).worker().unwrap());
                drop(spare);
                workers[worker] = memory.worker().unwrap();
                assert_eq!(workers[worker].slot(), slot);
            }
        }
        let stats = memory.stats();
        assert_eq!(stats.free + stats.cached + held.pages(), stats.total, "conservation after {op:?}");
    }
    drop((held, workers));
    let stats = memory.stats();
    assert_eq!((stats.free, stats.cached), (stats.total, 0));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_sequence_of_operations_loses_overlaps_or_spoils_a_page(ops in prop::collection::vec(op(), 1..300)) {
        play(&ops);
    }
}

#[test]
fn a_worker_gets_the_pages_that_lie_in_another_ones_list() {
    let memory = memory(2, 2);
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    let all: Vec<Page> = std::iter::from_fn(|| memory.alloc(&mut a, 0)).collect();
    assert_eq!(all.len() as u64, memory.stats().total);
    all.into_iter().take(40).for_each(|page| memory.free(&mut a, page));
    assert!(memory.stats().cached > 0, "some lie with the first worker");
    assert_eq!(
        std::iter::from_fn(|| memory.alloc(&mut b, 0)).collect::<Vec<_>>().len() as u64,
        memory.stats().total
    );
}

#[test]
fn a_full_block_can_be_made_again_after_all_its_pages_were_scattered_over_lists() {
    let memory = memory(4, 2);
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pages: Vec<Page> = std::iter::from_fn(|| memory.alloc(&mut a, 0)).collect();
    for (i, page) in pages.into_iter().enumerate() {
        memory.free(if i % 2 == 0 { &mut a } else { &mut b }, page);
    }
    assert_eq!(memory.alloc(&mut a, 10).map(|page| page.order()), Some(10));
}

#[test]
fn a_page_out_keeps_the_memory_after_its_last_handle() {
    let memory = memory(2, 1);
    let mut w = memory.worker().unwrap();
    let mut page = memory.alloc(&mut w, 1).unwrap();
    drop(memory);
    page.bytes_mut().fill(0xa5);
    assert!(page.bytes().iter().all(|&b| b == 0xa5));
    drop(w);
    drop(page);
}

#[test]
fn a_page_freed_into_another_memory_goes_home_to_its_own() {
    let (ours, theirs) = (memory(2, 1), memory(2, 1));
    let (mut w, mut v) = (ours.worker().unwrap(), theirs.worker().unwrap());
    let page = ours.alloc(&mut w, 0).unwrap();
    theirs.free(&mut v, page);
    assert_eq!(theirs.stats().cached, 0);
    drop(w);
    assert_eq!(ours.stats().free, ours.stats().total);
}

#[test]
fn a_worker_of_another_memory_gets_pages_by_the_shared_way() {
    let (ours, theirs) = (memory(2, 1), memory(2, 1));
    let mut stranger = theirs.worker().unwrap();
    let page = ours.alloc(&mut stranger, 0).unwrap();
    ours.free(&mut stranger, page);
    assert_eq!(ours.stats().free, ours.stats().total);
}

#[test]
fn zero_and_too_many_workers_are_refused() {
    for workers in [0, 65] {
        assert!(Memory::new(&MemoryConfig { workers, ..MemoryConfig::default() }).is_err());
    }
}
