//! Another worker becomes a pool's owner.

use super::{check, memory, pool};
use crate::pool::Batch;

#[test]
fn what_the_cache_holds_and_what_comes_home_is_the_new_owners() {
    let memory = memory(3);
    let mut workers = [(); 3].map(|()| memory.worker().unwrap());
    let [first, second, other] = &mut workers;
    let pool = pool(&memory, first, 128);
    let mut batch = Batch::new();
    assert!(pool.alloc_bulk(first, &mut batch, 64));
    batch.free(first);
    let cached = check(&pool, 0).cached;
    assert!(cached > 0);
    assert!(!pool.hand_over(second, other), "the second is not the owner");
    assert!(pool.hand_over(first, second));
    assert_eq!(check(&pool, 0).cached, cached, "the cache is as it was");

    let fast = pool.stats().alloc.fast;
    let frame = pool.alloc(first).unwrap();
    assert_eq!(pool.stats().alloc.fast, fast, "for the first it is a depot now");
    pool.alloc(second).unwrap().free(second);
    assert_eq!(pool.stats().alloc.fast, fast + 1, "out of the cache");
    frame.free(first);
    assert_eq!(check(&pool, 0).returning, 1, "by the remote free queue");
    let mut all = Vec::new();
    all.extend(std::iter::from_fn(|| pool.alloc(second)));
    assert_eq!(all.len(), 128);
    all.into_iter().for_each(|frame| frame.free(other));
    assert!(check(&pool, 0).all_freed());
}

#[test]
fn a_pool_is_adopted_once_and_only_when_its_owner_has_left() {
    let memory = memory(3);
    let [first, mut second, mut third] = [(); 3].map(|()| memory.worker().unwrap());
    let mut first = Some(first);
    let pool = pool(&memory, first.as_mut().unwrap(), 128);
    let out = pool.alloc(first.as_mut().unwrap()).unwrap();
    assert!(!pool.adopt(&mut second), "the owner is there");
    drop(first.take());
    assert!(pool.adopt(&mut second));
    assert!(!pool.adopt(&mut third), "it has an owner");
    let mut successor = memory.worker().unwrap();
    assert_eq!(successor.slot(), 0);
    let fast = pool.stats().alloc.fast;
    pool.alloc(&mut successor).unwrap().free(&mut successor);
    assert_eq!(pool.stats().alloc.fast, fast, "who claims the old owner's slot does not own the pool");
    pool.alloc(&mut second).unwrap().free(&mut second);
    pool.alloc(&mut second).unwrap().free(&mut second);
    assert!(pool.stats().alloc.fast > fast);
    out.free(&mut third);
    assert!(check(&pool, 0).all_freed());
}

#[test]
fn a_worker_of_another_memory_becomes_no_owner() {
    let (here, there) = (memory(1), memory(1));
    let (mut w, mut foreign) = (here.worker().unwrap(), there.worker().unwrap());
    let pool = pool(&here, &mut w, 16);
    assert!(!pool.hand_over(&mut w, &mut foreign) && !pool.hand_over(&mut foreign, &mut w));
    drop(w);
    assert!(!pool.adopt(&mut foreign));
    assert!(pool.alloc(&mut foreign).is_some_and(|frame| pool.owns(&frame)));
}

/// Found: the pool could not be adopted, although the worker owned it already.
#[test]
fn a_worker_that_gets_the_slot_of_the_owner_that_left_owns_the_pool() {
    let memory = memory(1);
    let mut first = memory.worker().unwrap();
    let pool = pool(&memory, &mut first, 16);
    drop(first);
    let mut heir = memory.worker().unwrap();
    assert!(pool.adopt(&mut heir));
    let fast = pool.stats().alloc.fast;
    (0..2).for_each(|_| pool.alloc(&mut heir).unwrap().free(&mut heir));
    assert!(pool.stats().alloc.fast > fast);
    assert!(check(&pool, 0).all_freed());
}
