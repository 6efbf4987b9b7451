//! Makes each allocation fail in turn: nothing is lost. Also runs everything at once on several threads.

use super::*;
use crate::page::Lists;
use crate::pool::Fragments;
use crate::rounds::stride;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Everything that takes pages, on two workers. Returns how often it did not get the requested number.
fn scenario(memory: &Memory, clears: bool) -> usize {
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let config = PoolConfig {
        frames: 40,
        capacity: 80,
        frame_size: 4096,
        cache: 8,
        refill: 4,
        dma: DmaMap::Umem,
        init_on_alloc: clears,
        ..PoolConfig::default()
    };
    let pool = Pool::new(memory, &mut w, &config).unwrap();
    let mut fragments = Fragments::new(&pool);
    let mut refused = 0;
    let mut held: Vec<Frame> =
        (0..20).filter_map(|i| pool.alloc(if i % 3 == 0 { &mut other } else { &mut w })).collect();
    refused += 20 - held.len();
    let mut batch = Batch::new();
    refused += usize::from(!pool.alloc_bulk(&mut w, &mut batch, 15));
    let piece = fragments.alloc(&mut w, 500);
    refused += usize::from(piece.is_none());
    let shared = held.pop().map(Frame::share);
    let clone = shared.clone();
    pool.resize(80).unwrap();
    pool.trace(true);
    refused += usize::from(pool.alloc_burst(&mut other, &mut batch, 30) < 30);
    check(
        &pool,
        (held.len() + batch.len()) as u64 + u64::from(shared.is_some()) + u64::from(piece.is_some()),
    );
    pool.resize(10).unwrap();
    batch.free(&mut other);
    pool.trace(false);
    drop((piece, shared));
    refused += usize::from(pool.alloc(&mut w).is_none() && pool.ledger().total < 10);
    held.drain(..).for_each(|frame| frame.free(&mut w));
    drop((fragments, clone));
    assert!(check(&pool, 0).all_freed());
    pool.close_and_wait(Duration::ZERO).unwrap();
    assert_eq!((pool.mapped_pages(), pool.inflight()), (0, 0));
    refused
}

#[test]
fn the_failure_of_any_one_allocation_loses_no_frame() {
    for clears in [false, true] {
        let lists = Lists::Fixed { high: 0, batch: 0 };
        let config = MemoryConfig {
            bytes: 4 << 20,
            workers: 2,
            lists,
            backing: BackingPreference::Small,
            ..MemoryConfig::default()
        };
        let memory = Memory::new(&config).unwrap();
        assert_eq!(scenario(&memory, clears), 0, "cleared: {clears}: enough without a failure");
        let mut seen = 0;
        for n in (0..120).step_by(stride(20)) {
            memory.refuse(n);
            seen += scenario(&memory, clears);
            let stats = memory.stats();
            assert_eq!((stats.free, stats.cached), (stats.total, 0), "cleared: {clears}, allocation {n}");
        }
        assert!(seen > 0, "cleared: {clears}: some failure is seen by the caller");
    }
}

#[test]
fn a_pool_is_resized_traced_tuned_and_closed_while_threads_use_it() {
    for clears in [false, true] {
        let memory = memory(3);
        let mut workers = [memory.worker().unwrap(), memory.worker().unwrap(), memory.worker().unwrap()];
        let config = PoolConfig {
            frames: 64,
            capacity: 200,
            frame_size: 4096,
            cache: 32,
            refill: 16,
            dma: DmaMap::Umem,
            init_on_alloc: clears,
            ..PoolConfig::default()
        };
        let pool = Pool::new(&memory, &mut workers[0], &config).unwrap();
        let done = AtomicBool::new(false);
        let (give, take) = std::sync::mpsc::sync_channel::<Frame>(64);
        let take = std::sync::Mutex::new(take);
        std::thread::scope(|scope| {
            for (i, w) in workers.iter_mut().enumerate() {
                let (pool, give, take, done) = (&pool, give.clone(), &take, &done);
                scope.spawn(move || {
                    let mut batch = Batch::new();
                    while !done.load(Relaxed) {
                        pool.alloc_burst(w, &mut batch, 1 + 7 * i);
                        if let Some(frame) = batch.pop() {
                            let shared = frame.share();
                            let _ = shared.clone().into_frame().map(|frame| give.try_send(frame));
                            shared.into_frame().into_iter().for_each(|frame| drop(give.try_send(frame)));
                        }
                        batch.free(w);
                        let came = take.lock().unwrap().try_recv();
                        came.into_iter().for_each(|frame| frame.free(w));
                    }
                });
            }
            for round in (0..60).step_by(stride(15)) {
                pool.resize(1 + (round * 67) % 200).unwrap();
                pool.set_cache((round * 11) % 40, ((round * 11) % 40).div_ceil(2)).unwrap();
                pool.trace(round % 4 == 0);
                assert!(pool.holders().iter().map(|holder| holder.frames).sum::<u64>() <= 200);
                std::thread::sleep(Duration::from_micros(200));
            }
            pool.close();
            done.store(true, Relaxed);
        });
        drop((give, take));
        pool.close_and_wait(Duration::from_secs(5)).unwrap();
        assert_eq!((pool.mapped_pages(), pool.inflight()), (0, 0), "cleared: {clears}");
        drop((pool, workers));
        assert_eq!(memory.stats().free, memory.stats().total, "cleared: {clears}");
    }
}
