//! Frames in arrays of the caller, and single frames, on the shortest path.

use super::{check, memory, pool};
use crate::pool::{Frame, Pool};
use crate::sync::Worker;
use std::mem::MaybeUninit;

/// Allocates `n` frames, or as many as there are, into an array.
#[allow(unsafe_code)]
fn alloc(pool: &Pool, w: &mut Worker, n: usize) -> Vec<Option<Frame>> {
    let mut places: Vec<MaybeUninit<Frame>> = (0..n).map(|_| MaybeUninit::uninit()).collect();
    let got = pool.alloc_into(w, &mut places);
    // SAFETY: the first `got` were written.
    places.into_iter().take(got).map(|place| Some(unsafe { place.assume_init() })).collect()
}

#[allow(unsafe_code)]
fn free(mut frames: Vec<Option<Frame>>, w: &mut Worker) {
    // SAFETY: the claims are forgotten.
    unsafe {
        Frame::free_all(&frames, w);
        frames.set_len(0);
    }
}

#[test]
fn an_array_is_filled_beyond_a_batch_and_up_to_the_last_frame_and_all_come_home() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 256);
    for (n, got) in [(0, 0), (1, 1), (32, 32), (33, 33), (200, 200), (1000, 256)] {
        for w in [&mut w, &mut other] {
            let frames = alloc(&pool, w, n);
            let ids: std::collections::BTreeSet<_> = frames.iter().flatten().map(Frame::id).collect();
            assert_eq!((frames.len(), ids.len()), (got, got), "of {n}");
            assert!(frames.iter().flatten().all(|frame| frame.is_empty() && frame.headroom() >= 64));
            check(&pool, got as u64);
            free(frames, w);
            check(&pool, 0);
        }
    }
}

#[test]
fn an_array_of_two_pools_with_gaps_goes_home_to_each() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let (first, second) = (pool(&memory, &mut w, 128), pool(&memory, &mut w, 128));
    let mut frames = alloc(&first, &mut w, 70);
    frames.insert(3, None);
    frames.extend(alloc(&second, &mut w, 20));
    free(frames, &mut w);
    let mut frames = alloc(&first, &mut w, 9);
    frames.insert(0, None);
    frames.extend(alloc(&second, &mut w, 3));
    free(frames, &mut w);
    free(vec![None, None], &mut w);
    check(&first, 0);
    check(&second, 0);
}

/// Frees the frames of an array. Returns whether they took the shortest path.
#[allow(unsafe_code)]
fn free_cached(mut frames: Vec<Option<Frame>>, w: &mut Worker) -> bool {
    // SAFETY: the claims are forgotten if they have ended.
    unsafe {
        let is_done = Frame::free_all_cached(&frames, w);
        if is_done {
            frames.set_len(0);
        }
        free(frames, w);
        is_done
    }
}

#[test]
fn of_an_array_all_or_nothing_is_done_where_that_costs_least() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let (first, second) = (pool(&memory, &mut w, 64), pool(&memory, &mut w, 64));
    let mut places = [const { MaybeUninit::uninit() }; 8];
    assert!(!first.alloc_cached_into(&mut w, &mut places), "the cache was never filled");
    let [frames, foreign] = [&first, &second].map(|pool| alloc(pool, &mut w, 8));
    // Without a membarrier the owner has to fence, and nothing is done at once.
    let at_once = free_cached(frames, &mut w);
    check(&first, 0);
    assert!(!first.alloc_cached_into(&mut other, &mut places), "not the owner");
    check(&first, 0);
    let mut more = [const { MaybeUninit::uninit() }; 64];
    assert!(!first.alloc_cached_into(&mut w, &mut more), "more than the cache ever has");
    assert_eq!(first.alloc_cached_into(&mut w, &mut places), at_once);
    check(&first, if at_once { 8 } else { 0 });
    let mut frames = alloc(&first, &mut w, if at_once { 0 } else { 8 });
    // SAFETY: all were written, if any.
    #[allow(unsafe_code)]
    frames.extend(places.into_iter().filter(|_| at_once).map(|place| Some(unsafe { place.assume_init() })));
    let (half, gap) = (frames.split_off(4), vec![frames.pop().flatten(), None]);
    let mixed = frames.into_iter().chain(foreign).collect();
    assert!(!free_cached(mixed, &mut w), "of two pools");
    assert!(!free_cached(gap, &mut w), "one is none");
    assert!(!free_cached(half, &mut other), "not the owner");
    assert!(!free_cached(Vec::new(), &mut w), "there are none");
    check(&first, 0);
    check(&second, 0);
}

/// Frees the frames of an array, which belong to this pool. Returns whether they took the shortest path.
#[allow(unsafe_code)]
fn free_cached_to(pool: &Pool, mut frames: Vec<Option<Frame>>, w: &mut Worker) -> bool {
    // SAFETY: they belong to the pool; the claims are forgotten if they have ended.
    unsafe {
        let is_done = pool.free_all_cached(w, &frames);
        if is_done {
            frames.set_len(0);
        }
        free(frames, w);
        is_done
    }
}

#[test]
fn an_array_that_is_freed_to_its_pool_goes_whole_or_stays() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 64);
    let frames = alloc(&pool, &mut w, 5);
    // Without a membarrier the owner has to fence, and nothing is done at once.
    let at_once = free_cached_to(&pool, frames, &mut w);
    for n in 0..=16 {
        let frames = alloc(&pool, &mut w, n);
        let ids: std::collections::BTreeSet<_> = frames.iter().flatten().map(Frame::id).collect();
        assert_eq!(ids.len(), n, "{n}: one is there twice");
        check(&pool, n as u64);
        assert!(!free_cached_to(&pool, frames, &mut other), "{n}: not the owner");
        let frames = alloc(&pool, &mut w, n);
        assert_eq!(free_cached_to(&pool, frames, &mut w), at_once, "{n}");
        check(&pool, 0);
    }
    let frames = alloc(&pool, &mut w, 64);
    assert!(!free_cached_to(&pool, frames, &mut w), "more than the cache has room for");
    check(&pool, 0);
}

#[test]
fn words_are_a_pools_if_all_their_numbers_are() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let (first, second) = (pool(&memory, &mut w, 64), pool(&memory, &mut w, 64));
    let [ours, theirs] = [&first, &second].map(|pool| alloc(pool, &mut w, 9));
    let word = |frame: &Frame| 7 << 32 | u64::from(frame.id().get());
    let [mut words, strange] = [&ours, &theirs].map(|all| all.iter().flatten().map(word).collect::<Vec<_>>());
    assert!(first.owns_words(&words) && second.owns_words(&strange) && first.owns_words(&[]));
    for other in [strange[0], 0, 7 << 32] {
        for at in [0, 5, 8] {
            let own = std::mem::replace(&mut words[at], other);
            assert!(!first.owns_words(&words), "{other:#x} at {at}");
            words[at] = own;
        }
    }
    free(ours, &mut w);
    free(theirs, &mut w);
    check(&first, 0);
    check(&second, 0);
}

#[test]
#[allow(unsafe_code)]
fn a_frame_that_is_freed_to_its_pool_goes_or_comes_back() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 64);
    let frame = pool.alloc(&mut w).unwrap();
    let id = frame.id();
    // SAFETY: it belongs to the pool.
    let frame = unsafe { pool.free_cached(&mut other, frame) }.expect_err("not the owner");
    check(&pool, 1);
    // SAFETY: as above.
    match unsafe { pool.free_cached(&mut w, frame) } {
        // Without a membarrier the owner has to fence.
        Err(frame) => frame.free(&mut w),
        Ok(()) => assert_eq!(pool.alloc_cached(&mut w).map(|frame| frame.id()), Some(id)),
    }
    check(&pool, 0);
}

#[test]
fn what_costs_least_is_refused_without_a_change_where_it_is_not_to_be_had() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 64);
    assert!(pool.alloc_cached(&mut w).is_none(), "the cache was never filled");
    let frame = pool.alloc(&mut w).unwrap();
    let id = frame.id();
    assert!(pool.alloc_cached(&mut other).is_none(), "not the owner");
    let frame = frame.free_cached(&mut other).expect_err("not the owner");
    check(&pool, 1);
    match frame.free_cached(&mut w) {
        // Without a membarrier the owner has to fence.
        Err(frame) => frame.free(&mut w),
        Ok(()) => assert_eq!(pool.alloc_cached(&mut w).map(|frame| frame.id()), Some(id)),
    }
    check(&pool, 0);
    // More than the cache has room for.
    let frames = alloc(&pool, &mut w, 64);
    let refused: Vec<_> =
        frames.into_iter().flatten().filter_map(|frame| frame.free_cached(&mut w).err()).collect();
    assert!(refused.len() >= 32, "{}", refused.len());
    refused.into_iter().for_each(|frame| frame.free(&mut w));
    check(&pool, 0);
}
