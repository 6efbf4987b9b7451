//! Every interleaving, under loom (and one of them without): a pool that is made smaller, closed, or adopted, while
//! another worker gives frames back or leaves.

use crate::page::{Memory, MemoryConfig};
use crate::pool::{DmaMap, Frame, Pool, PoolConfig};
use crate::ring::tests::{model, thread};
use crate::sync::Worker;
use crate::sys::region::Lent;
use std::time::Duration;

/// A pool of four frames on two pages, of a memory of four: loom watches every atomic of every page and chunk.
pub(crate) fn tiny(cache: usize) -> (Memory, [Worker; 2], Pool) {
    let lent = Lent::bytes(vec![0; (4 << 12) + 4095].into(), drop).unwrap();
    let memory = Memory::lent(lent, &MemoryConfig { workers: 2, ..MemoryConfig::default() }).unwrap();
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    let config = PoolConfig {
        frames: 4,
        cache,
        refill: cache.div_ceil(2),
        dma: DmaMap::Umem,
        ..PoolConfig::default()
    };
    let pool = Pool::new(&memory, &mut workers[0], &config).unwrap();
    (memory, workers, pool)
}

/// All frames of the pool, by page.
fn all_of(pool: &Pool, w: &mut Worker) -> [[Frame; 2]; 2] {
    let mut frames: Vec<Frame> = std::iter::from_fn(|| pool.alloc(w)).collect();
    frames.sort_by_key(Frame::id);
    let [a, b, c, d] = <[Frame; 4]>::try_from(frames).unwrap();
    [[a, b], [c, d]]
}

#[test]
fn a_pool_made_smaller_while_frames_come_back_keeps_one_page_and_gives_the_other_back_once() {
    model(|| {
        let (memory, [mut w, mut other], pool) = tiny(2);
        let [[a, b], [c, d]] = all_of(&pool, &mut w);
        [a, c].into_iter().for_each(|frame| frame.free(&mut w));
        let giver = thread::spawn(move || {
            b.free(&mut other);
            d.free(&mut other);
            other
        });
        pool.resize(2).unwrap();
        let mine = pool.alloc(&mut w);
        let other = giver.join().unwrap();
        mine.into_iter().for_each(|frame| frame.free(&mut w));
        // Those that were still on the remote free queue are looked at now.
        pool.resize(2).unwrap();
        let ledger = pool.ledger();
        assert!(ledger.all_freed() && ledger.total == 2, "{ledger:?}");
        assert_eq!((pool.mapped_pages(), pool.inflight(), pool.leaving_pages()), (1, 2, 0));
        assert_eq!(all_out(&pool, &mut w), 2);
        drop((pool, w, other));
        assert_eq!(memory.stats().free, memory.stats().total);
    });
}

/// How many frames can be had at once; they are given back.
fn all_out(pool: &Pool, w: &mut Worker) -> usize {
    let frames: Vec<Frame> = std::iter::from_fn(|| pool.alloc(w)).collect();
    frames.into_iter().map(|frame| frame.free(w)).count()
}

#[test]
fn the_last_frame_that_comes_back_while_its_pool_closes_gives_the_pages_back_once() {
    model(|| {
        let (memory, [mut w, mut other], pool) = tiny(2);
        let [[a, b], [c, d]] = all_of(&pool, &mut w);
        [a, b].into_iter().for_each(|frame| frame.free(&mut w));
        c.free(&mut other);
        let giver = thread::spawn(move || {
            d.free(&mut other);
            other
        });
        pool.close();
        let other = giver.join().unwrap();
        pool.close_and_wait(Duration::ZERO).unwrap();
        assert_eq!((pool.mapped_pages(), pool.inflight()), (0, 0));
        drop((pool, w, other));
        assert_eq!(memory.stats().free, memory.stats().total);
    });
}

#[test]
fn no_frame_is_lost_when_the_owner_leaves_while_its_pool_closes() {
    model(|| {
        let (memory, [mut w, other], pool) = tiny(2);
        all_out(&pool, &mut w);
        let leaver = thread::spawn(move || drop(w));
        pool.close();
        leaver.join().unwrap();
        pool.close_and_wait(Duration::ZERO).unwrap();
        drop((pool, other));
        assert_eq!(memory.stats().free, memory.stats().total);
    });
}

#[test]
fn who_waits_while_another_closes_the_pool_does_not_find_it_empty_while_a_frame_is_out() {
    model(|| {
        let (_memory, [mut w, other], pool) = tiny(2);
        let frame = pool.alloc(&mut w).unwrap();
        let closer = {
            let pool = pool.clone();
            thread::spawn(move || pool.close())
        };
        assert!(pool.close_and_wait(Duration::ZERO).is_err());
        closer.join().unwrap();
        frame.free(&mut w);
        pool.close_and_wait(Duration::ZERO).unwrap();
        drop((pool, w, other));
    });
}

#[test]
fn a_ledger_that_is_made_while_its_pool_closes_looks_at_no_frame_that_has_left() {
    model(|| {
        let (memory, [mut w, mut other], pool) = tiny(2);
        // Two onto the ring, two onto the stack.
        all_of(&pool, &mut w).into_iter().flatten().for_each(|frame| frame.free(&mut other));
        let closer = {
            let pool = pool.clone();
            thread::spawn(move || pool.close())
        };
        assert_eq!(pool.ledger().miscounted, 0);
        closer.join().unwrap();
        drop((pool, w, other));
        assert_eq!(memory.stats().free, memory.stats().total);
    });
}

#[test]
fn the_owner_gives_a_page_back_that_leaves_with_its_last_frame_while_the_last_handle_goes() {
    model(|| {
        let (memory, [mut w, other], pool) = tiny(0);
        let frame = pool.alloc(&mut w).unwrap();
        pool.resize(2).unwrap();
        let closer = thread::spawn(move || drop(pool));
        frame.free(&mut w);
        closer.join().unwrap();
        drop((w, other));
        assert_eq!(memory.stats().free, memory.stats().total);
    });
}

#[test]
fn a_pool_is_adopted_while_its_owner_leaves_and_loses_no_frame() {
    model(|| {
        let (memory, [mut w, mut other], pool) = tiny(2);
        let frame = pool.alloc(&mut w).unwrap();
        let leaving = thread::spawn(move || drop(w));
        frame.free(&mut other);
        pool.adopt(&mut other);
        let mine = pool.alloc(&mut other);
        leaving.join().unwrap();
        mine.into_iter().for_each(|frame| frame.free(&mut other));
        assert!(pool.adopt(&mut other), "at the latest now");
        let all: Vec<_> = std::iter::from_fn(|| pool.alloc(&mut other)).collect();
        assert_eq!(all.len(), 4);
        all.into_iter().for_each(|frame| frame.free(&mut other));
        let ledger = pool.ledger();
        assert!(ledger.all_freed() && ledger.balanced(), "{ledger:?}");
        drop((pool, other));
        assert_eq!(memory.stats().free, memory.stats().total);
    });
}
