//! The barn grows and shrinks with demand.

use super::*;

/// Bytes of the memory.
const BYTES: usize = 8 << 20;
/// Objects in the ten sheaves that each barn may keep without demand.
const WITHOUT: u64 = 10 * 64;
/// Objects in an eighth of the memory: the bound on what all barns keep beyond that.
const BEYOND: u64 = 4096;
/// Objects in a worker's two sheaves.
const SHEAVES: u64 = 128;

fn large_memory() -> Memory {
    Memory::new(&MemoryConfig { bytes: BYTES, backing: BackingPreference::Small, ..MemoryConfig::default() })
        .unwrap()
}

/// Allocates so many objects, and frees them.
fn hold(cache: &Cache<Big>, w: &mut crate::sync::Worker, n: usize) {
    let mut held = Vec::new();
    assert!(cache.alloc_bulk(w, n, &mut held, || [0; 32]));
    cache.free_bulk(w, &mut held);
}

/// Seen: 8,192 objects held at once came from their slabs each time, for five times what those of a sheaf cost.
#[test]
fn objects_that_were_held_at_once_come_from_the_barn_the_next_time() {
    let memory = large_memory();
    let mut w = memory.worker().unwrap();
    let cache = cache::<Big>(&memory);
    hold(&cache, &mut w, 1500);
    hold(&cache, &mut w, 1500);
    let before = cache.stats();
    assert!(before.barn + before.cached >= 1500, "{before:?}");
    for _ in 0..10 {
        hold(&cache, &mut w, 1500);
    }
    let after = cache.stats();
    let slabs = (after.alloc_slab, after.free_slab, after.sheaf_refill, after.sheaf_flush);
    assert_eq!(slabs, (before.alloc_slab, before.free_slab, before.sheaf_refill, before.sheaf_flush));
    assert_eq!(after.barn_get - before.barn_get, after.barn_put - before.barn_put);
    assert!(cache.validate().is_empty());
}

#[test]
fn the_barns_of_a_memory_keep_no_more_than_an_eighth_of_it_beyond_ten_sheaves_each() {
    let memory = large_memory();
    let mut w = memory.worker().unwrap();
    let (first, second) = (cache::<Big>(&memory), cache::<Big>(&memory));
    for cache in [&first, &second] {
        for _ in 0..4 {
            hold(cache, &mut w, 10_000);
            let stats = cache.stats();
            assert!(stats.barn <= WITHOUT + BEYOND && stats.cached <= SHEAVES, "{stats:?}");
        }
    }
    assert_eq!((first.stats().barn, second.stats().barn), (WITHOUT + BEYOND, WITHOUT));
    // What one gives up the other may have.
    first.shrink();
    assert_eq!((first.stats().barn, first.stats().slabs), (0, 0));
    (0..2).for_each(|_| hold(&second, &mut w, 10_000));
    assert_eq!(second.stats().barn, WITHOUT + BEYOND);
    drop(second);
    (0..2).for_each(|_| hold(&first, &mut w, 10_000));
    assert_eq!(first.stats().barn, WITHOUT + BEYOND);
}

#[test]
fn sheaves_that_stay_unused_go_back_into_their_slabs() {
    let memory = large_memory();
    let mut w = memory.worker().unwrap();
    let cache = cache::<Big>(&memory);
    hold(&cache, &mut w, 1500);
    hold(&cache, &mut w, 1500);
    let (mut before, held) = (cache.stats().barn, cache.stats().slabs);
    for _ in 0..100_000 {
        hold(&cache, &mut w, 200);
        let now = cache.stats().barn;
        assert!(now <= before + SHEAVES + 200, "{now} after {before}");
        before = now;
        if now <= WITHOUT {
            break;
        }
    }
    let stats = cache.stats();
    assert!(stats.barn <= WITHOUT && stats.slabs < held, "{stats:?}, {held} slabs before");
    assert!(cache.validate().is_empty());
}

/// Seen: the barn counted the bytes that the type asked for, of which objects of one byte take eight.
#[test]
fn what_barns_keep_is_counted_by_the_room_that_objects_take() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let cache = cache::<u8>(&memory);
    let capacity = cache.get("sheaf_capacity").unwrap() as u64;
    let beyond = memory.stats().total * 4096 / 8 / 8;
    for _ in 0..3 {
        let mut held = Vec::new();
        assert!(cache.alloc_bulk(&mut w, 60_000, &mut held, || 7));
        cache.free_bulk(&mut w, &mut held);
        let stats = cache.stats();
        assert!(stats.barn <= 10 * capacity + beyond, "{stats:?}");
    }
    assert!(cache.stats().barn > 10 * capacity, "the barn has grown");
}

/// Seen: two workers that each went to and fro at the edge of a sheaf moved four sheaves in each round.
#[test]
fn workers_that_go_to_and_fro_stay_off_the_barn() {
    let memory = large_memory();
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    let cache = cache::<Big>(&memory);
    // Each has one object in its main sheaf and none in its spare sheaf, and the barn has full sheaves of both.
    let mut held = Vec::new();
    for w in &mut workers {
        hold(&cache, w, 4 * 64);
        assert!(cache.alloc_bulk(w, 127, &mut held, || [0; 32]));
    }
    let before = cache.stats();
    for _ in 0..100 {
        for w in &mut workers {
            hold(&cache, w, 2);
        }
    }
    let after = cache.stats();
    let exchanges = after.barn_get + after.barn_put - before.barn_get - before.barn_put;
    assert!(exchanges <= 8, "{exchanges} in 200 rounds");
}

/// Seen: each sheaf of objects that one worker allocates and another frees crossed by an exchange of its own, and the
/// barn's lines cost more than the objects'.
#[test]
fn objects_that_are_freed_elsewhere_cross_by_two_sheaves_an_exchange() {
    let memory = large_memory();
    let (mut allocates, mut frees) = (memory.worker().unwrap(), memory.worker().unwrap());
    let cache = cache::<Big>(&memory);
    let mut pass = |times: usize| {
        let mut held = Vec::new();
        for _ in 0..times {
            assert!(cache.alloc_bulk(&mut allocates, 512, &mut held, || [0; 32]));
            cache.free_bulk(&mut frees, &mut held);
        }
        let stats = cache.stats();
        [stats.barn_get, stats.barn_put, stats.alloc_slowpath + stats.free_slowpath]
    };
    // The first ones are new, and some of them stay in the sheaves of the other worker.
    let before = pass(2);
    let after = pass(10);
    let [got, put, slow] = [0, 1, 2].map(|at| after[at] - before[at]);
    assert_eq!((got, put), (80, 80), "sheaves of 64 objects that crossed");
    assert_eq!(slow, 80, "exchanges of both workers");
    assert!(cache.validate().is_empty());
}
