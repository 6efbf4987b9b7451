//! Settings that are changed while the pool runs, and pages that leave it.

use super::*;
use crate::page::Watermarks;
use crate::pool::PoolError;

fn growing(memory: &Memory, w: &mut Worker, frames: usize, capacity: usize, frame_size: usize) -> Pool {
    let config = PoolConfig {
        frames,
        capacity,
        frame_size,
        cache: 32,
        refill: 16,
        dma: DmaMap::Umem,
        ..PoolConfig::default()
    };
    Pool::new(memory, w, &config).unwrap()
}

fn all(pool: &Pool, w: &mut Worker) -> Vec<Frame> {
    std::iter::from_fn(|| pool.alloc(w)).collect()
}

/// Seen: the refill of a small pool was that of a larger cache, and its own numbers were refused.
#[test]
fn the_cache_of_a_small_pool_has_numbers_that_can_be_set_again() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 16, ..PoolConfig::default() }).unwrap();
    let (cache, refill) = pool.cache();
    assert_eq!((cache, refill), (16, 16));
    pool.set_cache(cache, refill).unwrap();
    assert_eq!(pool.cache(), (cache, refill));
}

#[test]
fn a_pool_grows_to_its_capacity_and_no_further() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = growing(&memory, &mut w, 16, 64, 2048);
    let mut held = all(&pool, &mut w);
    assert_eq!((held.len(), pool.frames(), pool.capacity()), (16, 16, 64));
    pool.resize(41).unwrap();
    held.extend(all(&pool, &mut w));
    assert_eq!((held.len(), pool.frames()), (42, 42), "whole pages");
    for frames in [0, 65, usize::MAX] {
        assert!(matches!(pool.resize(frames), Err(PoolError::Range { .. })), "{frames}");
    }
    drop(held);
    assert_eq!(check(&pool, 0).total, 42);
}

#[test]
fn a_pool_made_smaller_gives_pages_back_at_once_or_with_their_last_frame() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    for frame_size in [2048, 4096, 16384] {
        let pool = growing(&memory, &mut w, 64, 0, frame_size);
        let pages = frame_size.div_ceil(4096) as u64;
        let mut held = all(&pool, &mut w);
        let free = memory.stats().free + memory.stats().cached;
        held.drain(..20).for_each(|frame| frame.free(&mut w));
        held.drain(..10).for_each(|frame| frame.free(&mut other));
        pool.resize(8).unwrap();
        let total = check(&pool, held.len() as u64).total;
        assert!((34..=36).contains(&total), "{total}: the free frames have left");
        assert!(
            pool.alloc(&mut w).is_some_and(|_| total > 34) || total == 34,
            "halves of pages are still used"
        );
        while let Some(frame) = held.pop() {
            frame.free(&mut w);
            check(&pool, held.len() as u64);
        }
        let ledger = check(&pool, 0);
        assert_eq!((ledger.total, pool.inflight(), pool.leaving_pages()), (8, 8, 0), "{frame_size}");
        assert_eq!(pool.mapped_pages(), (8 * frame_size / 4096) as u64);
        let stats = memory.stats();
        assert_eq!(
            stats.free + stats.cached - free,
            pages * 56 * frame_size as u64 / frame_size as u64 / if frame_size == 2048 { 2 } else { 1 }
        );
        assert_eq!(pool.stats().released, 56);
        assert_eq!(all(&pool, &mut w).len(), 8);
        pool.close_and_wait(Duration::ZERO).unwrap();
    }
}

#[test]
fn frames_of_a_smaller_pool_that_others_send_home_leave_with_the_next_cold_call() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = growing(&memory, &mut w, 32, 0, 2048);
    let held = all(&pool, &mut w);
    pool.resize(4).unwrap();
    held.into_iter().for_each(|frame| frame.free(&mut other));
    assert_eq!(check(&pool, 0).returning, 32);
    assert!(pool.alloc(&mut w).is_some());
    pool.resize(4).unwrap();
    assert_eq!((check(&pool, 0).total, pool.leaving_pages()), (4, 0));
    pool.resize(32).unwrap();
    let mut batch = Batch::new();
    assert!(pool.alloc_bulk(&mut other, &mut batch, 32), "and up again");
}

/// Seen: they stayed on the remote free queue as long as the depot had a frame for each allocation.
#[test]
fn frames_that_others_send_home_leave_although_the_owner_finds_enough_in_the_depot() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = growing(&memory, &mut w, 32, 0, 2048);
    let mut held = all(&pool, &mut w);
    pool.resize(4).unwrap();
    let half = held.pop().unwrap();
    let second = held.iter().position(|frame| frame.id().get() == half.id().get() ^ 1).unwrap();
    let second = held.swap_remove(second);
    half.free(&mut w);
    held.into_iter().for_each(|frame| frame.free(&mut other));
    let ledger = check(&pool, 1);
    assert_eq!((ledger.free, ledger.returning, ledger.total), (1, 30, 32));
    pool.alloc(&mut w).unwrap().free(&mut w);
    let ledger = check(&pool, 1);
    assert_eq!((ledger.returning, ledger.total, pool.leaving_pages()), (0, 4, 0));
    drop(second);
}

#[test]
fn after_the_last_page_too_many_the_cache_is_used_again() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = growing(&memory, &mut w, 32, 0, 2048);
    let held = all(&pool, &mut w);
    pool.resize(8).unwrap();
    let mut one = held.into_iter();
    let last = one.next_back();
    one.for_each(|frame| frame.free(&mut w));
    assert!(check(&pool, 1).cached <= 8);
    last.into_iter().for_each(|frame| frame.free(&mut w));
    let mut batch = Batch::new();
    pool.alloc_burst(&mut w, &mut batch, 4);
    batch.free(&mut w);
    assert!(check(&pool, 0).cached > 0);
}

#[test]
fn the_cache_changes_its_size_while_it_is_full() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 128);
    for (cache, refill, cached) in [(64, 32, 64), (4, 4, 4), (0, 0, 0), (1, 1, 1), (32, 16, 32)] {
        let mut batch = Batch::new();
        pool.set_cache(cache, refill).unwrap();
        assert_eq!(pool.cache(), (cache, refill));
        assert_eq!(pool.alloc_burst(&mut w, &mut batch, 64), 64);
        check(&pool, 64);
        for _ in 0..64 {
            batch.pop().into_iter().for_each(|frame| pool.free(&mut w, frame));
        }
        let ledger = check(&pool, 0);
        assert!(ledger.all_freed() && ledger.cached <= cached, "{ledger:?}");
        assert_eq!(ledger.cached > 0, cache > 0, "{ledger:?}");
    }
    assert!(pool.set_cache(1 << 17, 1).is_err() && pool.set_cache(8, 9).is_err());
    assert!(pool.set_cache(8, 0).is_err());
}

#[test]
fn pages_of_another_node_are_used_once_and_their_frames_waived() {
    let config = MemoryConfig {
        bytes: 8 << 20,
        workers: 1,
        nodes: 2,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 32);
    let mut held = all(&pool, &mut w);
    held.truncate(16);
    pool.set_node(Some(1));
    assert_eq!((check(&pool, 16).total, pool.stats().alloc.waive), (16, 16), "the free frames have left");
    held.into_iter().for_each(|frame| frame.free(&mut w));
    assert_eq!((check(&pool, 0).total, pool.stats().alloc.waive, pool.mapped_pages()), (0, 32, 0));
    for round in 1..=3 {
        pool.alloc(&mut w).unwrap().free(&mut w);
        assert_eq!(
            check(&pool, 0).total % 2,
            0,
            "node 0 is still where the worker's pages come from: {round}"
        );
    }
    memory.set_home_node(&mut w, 1);
    pool.set_node(Some(1));
    drop(all(&pool, &mut w));
    let waived = pool.stats().alloc.waive;
    assert_eq!(check(&pool, 0).total, 32);
    drop(all(&pool, &mut w));
    assert_eq!((pool.stats().alloc.waive, pool.leaving_pages()), (waived, 0), "pages of the right node stay");
}

#[test]
fn pages_out_of_the_reserve_go_back_with_their_last_frame() {
    let watermarks = Watermarks { min: 100, low: 120, high: 140 };
    let config = MemoryConfig {
        bytes: 2 << 20,
        workers: 1,
        watermarks,
        backing: BackingPreference::Small,
        ..MemoryConfig::default()
    };
    let memory = Memory::new(&config).unwrap();
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frames: 64, cache: 32, refill: 16, urgent: true, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let mut hog = Vec::new();
    while let Some(page) = memory.alloc(&mut w, 0) {
        hog.push(page);
    }
    let held: Vec<Frame> = (0..6).map(|_| pool.alloc(&mut w).expect("out of the reserve")).collect();
    assert_eq!((pool.leaving_pages(), pool.mapped_pages()), (3, 0));
    held.into_iter().for_each(|frame| frame.free(&mut w));
    assert_eq!((check(&pool, 0).total, pool.stats().released), (0, 6), "not recycled");
    drop(hog);
    pool.alloc(&mut w).unwrap().free(&mut w);
    assert!(check(&pool, 0).total > 0 && pool.leaving_pages() == 0, "other pages are kept");
    let unwilling = Pool::new(&memory, &mut w, &PoolConfig { urgent: false, ..config }).unwrap();
    let hog: Vec<_> = std::iter::from_fn(|| memory.alloc(&mut w, 0)).collect();
    assert!(unwilling.alloc(&mut w).is_none() && !hog.is_empty());
}

#[test]
fn the_kernels_counters_say_how_frames_were_got_and_where_they_went() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 128);
    let mut batch = Batch::new();
    assert!(pool.alloc_bulk(&mut w, &mut batch, 64));
    let stats = pool.stats();
    assert_eq!(
        (stats.alloc.fast, stats.alloc.slow, stats.alloc.empty, stats.alloc.slow_high_order),
        (0, 1, 1, 0)
    );
    batch.free(&mut w);
    let recycle = pool.stats().recycle;
    assert_eq!((recycle.cached + recycle.cache_full, recycle.ring), (64, 0));
    assert!(recycle.cache_full >= 32, "the cache holds 32: {recycle:?}");
    pool.alloc_burst(&mut w, &mut batch, 16);
    assert_eq!(pool.stats().alloc.fast, 16);
    pool.alloc_burst(&mut w, &mut batch, 48);
    assert_eq!(pool.stats().alloc.refill, 1);
    batch.free(&mut other);
    let stats = pool.stats();
    assert_eq!(
        (stats.recycle.ring, stats.recycle.ring_full),
        (32, 32),
        "the ring holds as many as the cache"
    );
    assert_eq!((stats.failed, stats.released), (0, 0));
    let jumbo = growing(&memory, &mut w, 8, 0, 16384);
    drop(jumbo.alloc(&mut w));
    assert_eq!((jumbo.stats().alloc.slow, jumbo.stats().alloc.slow_high_order), (0, 1));
}

#[test]
fn a_burst_that_is_larger_than_the_room_in_the_batch_comes_from_the_cache() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let config = PoolConfig { frames: 128, cache: 64, refill: 64, ..PoolConfig::default() };
    let pool = Pool::new(&memory, &mut w, &config).unwrap();
    let mut batch = Batch::new();
    assert_eq!(pool.alloc_burst(&mut w, &mut batch, 64), 64);
    batch.free(&mut w);
    assert_eq!(pool.alloc_burst(&mut w, &mut batch, 32), 32);
    let before = pool.stats().alloc;
    assert_eq!((pool.alloc_burst(&mut w, &mut batch, 64), batch.room()), (32, 0));
    let after = pool.stats().alloc;
    assert_eq!((after.fast - before.fast, after.refill), (32, before.refill));
    batch.free(&mut w);
    assert!(check(&pool, 0).all_freed());
}

#[test]
fn frames_of_two_pools_that_lie_in_turns_are_all_sent_to_their_own() {
    let memory = memory(3);
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap(), memory.worker().unwrap()];
    let [first, second, third] = &mut workers;
    let pools = [pool(&memory, first, 64), pool(&memory, second, 64)];
    let mut batch = Batch::new();
    for i in 0..64 {
        let frame = pools[i % 2].alloc(third).unwrap();
        batch.push(frame).unwrap();
    }
    batch.free(third);
    assert!(batch.is_empty());
    for pool in &pools {
        assert_eq!((check(pool, 0).returning, pool.stats().recycle.ring), (32, 32));
    }
}
