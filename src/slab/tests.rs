//! The slab stage against a model, and what happens at its edges.

use super::{Cache, CacheConfig, CacheError, Object};
use crate::page::{Memory, MemoryConfig};
use crate::sys::region::BackingWish;
use proptest::prelude::*;
use std::sync::Arc;

type Big = [u64; 32];

fn memory(workers: usize) -> Memory {
    let config = MemoryConfig { bytes: 2 << 20, workers, backing: BackingWish::Small, statistics: true };
    Memory::new(&config).unwrap()
}

fn cache<T: Send>(memory: &Memory, sheaf: usize) -> Cache<T> {
    Cache::new(memory, &CacheConfig { sheaf: Some(sheaf), min_partial: 2, ..CacheConfig::default() }).unwrap()
}

/// What a test may do to a cache with two workers.
#[derive(Debug, Clone)]
enum Op {
    Alloc { worker: usize },
    Bulk { worker: usize, n: usize },
    Free { worker: usize, pick: usize },
    FreeMany { worker: usize, n: usize },
    Drop { pick: usize },
}

fn op() -> impl Strategy<Value = Op> {
    let w = 0..2usize;
    prop_oneof![
        3 => w.clone().prop_map(|worker| Op::Alloc { worker }),
        2 => (w.clone(), 0..120usize).prop_map(|(worker, n)| Op::Bulk { worker, n }),
        3 => (w.clone(), any::<usize>()).prop_map(|(worker, pick)| Op::Free { worker, pick }),
        2 => (w, 0..150usize).prop_map(|(worker, n)| Op::FreeMany { worker, n }),
        1 => any::<usize>().prop_map(|pick| Op::Drop { pick }),
    ]
}

fn play(ops: &[Op]) {
    let memory = memory(2);
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    let cache = cache::<Big>(&memory, 6);
    let mut held: Vec<Object<Big>> = Vec::new();
    let mut stamp = 0;
    for op in ops {
        match *op {
            Op::Alloc { worker } => {
                stamp += 1;
                held.extend(cache.alloc(&mut workers[worker], [stamp; 32]));
            }
            Op::Bulk { worker, n } => {
                let before = held.len();
                let done = cache.alloc_bulk(&mut workers[worker], n, &mut held, || {
                    stamp += 1;
                    [stamp; 32]
                });
                assert_eq!(held.len() - before, if done { n } else { 0 });
            }
            Op::Free { worker, pick } if !held.is_empty() => {
                let object = held.swap_remove(pick % held.len());
                let first = object[0];
                assert_eq!(cache.free(&mut workers[worker], object), [first; 32], "contents intact");
            }
            Op::FreeMany { worker, n } => {
                let rest = held.split_off(held.len() - n.min(held.len()));
                assert!(rest.iter().all(|object| object.iter().all(|&word| word == object[0])));
                cache.free_bulk(&mut workers[worker], rest);
            }
            Op::Drop { pick } if !held.is_empty() => drop(held.swap_remove(pick % held.len())),
            Op::Free { .. } | Op::Drop { .. } => {}
        }
        let mut at: Vec<usize> = held.iter().map(|object| std::ptr::from_ref(&**object).addr()).collect();
        at.sort_unstable();
        assert!(at.windows(2).all(|pair| pair[0] + 256 <= pair[1]), "objects overlap");
        assert!(held.iter().all(|object| object[0] == object[31]), "contents intact");
    }
    drop((held, cache, workers));
    assert_eq!(memory.stats().free, memory.stats().total, "all pages back");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn no_sequence_of_operations_loses_overlaps_or_spoils_an_object(ops in prop::collection::vec(op(), 1..150)) {
        play(&ops);
    }
}

#[test]
fn every_object_of_the_memory_can_be_had_and_an_allocation_beyond_gives_the_value_back() {
    let memory = memory(2);
    let (mut a, mut b) = (memory.worker().unwrap(), memory.worker().unwrap());
    let cache = cache::<Big>(&memory, 26);
    let mut held = Vec::new();
    while let Ok(object) = cache.alloc(&mut a, [1; 32]) {
        held.push(object);
    }
    assert_eq!(held.len() as u64, memory.stats().total * 16);
    assert_eq!(cache.alloc(&mut b, [9; 32]).err(), Some([9; 32]));
    cache.free(&mut a, held.pop().unwrap());
    assert!(cache.alloc(&mut b, [2; 32]).is_ok(), "the one that lies in another worker's sheaf is found");
    assert!(!cache.alloc_bulk(&mut b, 3, &mut held, || [3; 32]), "all or nothing");
    cache.free_bulk(&mut b, held);
}

#[test]
fn objects_freed_on_another_thread_are_used_again_and_memory_stays_bounded() {
    let memory = memory(2);
    let mut w = memory.worker().unwrap();
    let cache = cache::<Big>(&memory, 26);
    for _ in 0..50 {
        let mut held = Vec::new();
        assert!(cache.alloc_bulk(&mut w, 2000, &mut held, || [7; 32]));
        let (cache, mut other) = (cache.clone(), memory.worker().unwrap());
        std::thread::spawn(move || cache.free_bulk(&mut other, held)).join().unwrap();
    }
    let stats = cache.stats();
    assert!(stats.slabs <= 2000 / 16 + 30, "{stats:?}");
}

#[test]
fn two_threads_that_free_into_the_same_slabs_lose_nothing() {
    let memory = memory(2);
    let mut w = memory.worker().unwrap();
    let cache = cache::<Big>(&memory, 4);
    for _ in 0..30 {
        let mut held = Vec::new();
        assert!(cache.alloc_bulk(&mut w, 512, &mut held, || [7; 32]));
        let (mut mine, mut theirs) = (Vec::new(), Vec::new());
        for (i, object) in held.into_iter().enumerate() {
            if i % 2 == 0 { mine.push(object) } else { theirs.push(object) }
        }
        let thread = std::thread::spawn(move || drop(theirs));
        cache.free_bulk(&mut w, mine);
        thread.join().unwrap();
    }
    drop((cache, w));
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn an_object_that_outlives_its_cache_is_still_good_and_its_value_dropped_once() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let value = Arc::new(5);
    let cache = cache::<Arc<i32>>(&memory, 8);
    let object = cache.alloc(&mut w, Arc::clone(&value)).unwrap();
    drop(cache);
    assert!(memory.stats().free + memory.stats().cached < memory.stats().total);
    assert_eq!((**object, Arc::strong_count(&value)), (5, 2));
    drop((memory, w));
    drop(object);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn an_object_freed_into_another_cache_goes_home_to_its_own() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let (ours, theirs) = (cache::<Big>(&memory, 8), cache::<Big>(&memory, 8));
    let object = ours.alloc(&mut w, [1; 32]).unwrap();
    assert_eq!(theirs.free(&mut w, object), [1; 32]);
    assert_eq!((theirs.stats().cached, ours.stats().free_slowpath), (0, 1));
}

#[test]
fn large_and_odd_objects_get_slabs_that_hold_them() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let odd = cache::<[u8; 3000]>(&memory, 4).alloc(&mut w, [3; 3000]).unwrap();
    let huge = cache::<[u8; 20_000]>(&memory, 4).alloc(&mut w, [4; 20_000]).unwrap();
    let unit = cache::<()>(&memory, 4).alloc(&mut w, ()).unwrap();
    assert!(odd.iter().all(|&b| b == 3) && huge.iter().all(|&b| b == 4));
    drop((odd, huge, unit));
    let too_large = Cache::<[u8; 100_000]>::new(&memory, &CacheConfig::default());
    assert!(matches!(too_large, Err(CacheError::Size { .. })));
    let no_sheaf = CacheConfig { sheaf: Some(0), ..CacheConfig::default() };
    assert!(matches!(Cache::<u64>::new(&memory, &no_sheaf), Err(CacheError::Range { .. })));
}
