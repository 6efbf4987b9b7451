//! The holders of frames, by call site, place and age. Tracing does not disturb frames that are freed late.

use super::*;
use crate::pool::{Fragments, Holder};

/// The frames of each holder whose call was in this line.
fn of_line(holders: &[Holder], line: u32) -> u64 {
    let here =
        |holder: &&Holder| holder.site.is_some_and(|site| site.line() == line && site.file() == file!());
    holders.iter().filter(here).map(|holder| holder.frames).sum()
}

#[test]
fn every_way_to_allocate_is_named_by_the_line_that_calls_it() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 128);
    let before = pool.alloc(&mut w).unwrap();
    pool.trace(true);
    assert!(pool.is_traced());
    let (mut batch, mut fragments) = (Batch::new(), Fragments::new(&pool));
    let first = line!() + 1;
    let one = pool.alloc(&mut w).unwrap();
    let shared = pool.alloc(&mut other).unwrap().share();
    assert_eq!(pool.alloc_burst(&mut w, &mut batch, 20), 20);
    assert!(pool.alloc_bulk(&mut other, &mut batch, 30));
    let piece = fragments.alloc(&mut w, 100).unwrap();
    let clone = shared.clone();
    let holders = pool.holders();
    let lines: Vec<u64> = (first..first + 5).map(|line| of_line(&holders, line)).collect();
    assert_eq!(lines, [1, 1, 20, 30, 1], "{holders:?}");
    assert_eq!(holders.iter().find(|holder| holder.site.is_none()).map(|holder| holder.frames), Some(1));
    assert!(holders.is_sorted_by(|a, b| a.frames >= b.frames));
    batch.free(&mut w);
    shared.free(&mut w);
    drop((one, before));
    let holders = pool.holders();
    assert_eq!((holders.len(), of_line(&holders, first + 1), of_line(&holders, first + 4)), (2, 1, 1));
    check(&pool, 2);
    drop((clone, piece, fragments));
    assert_eq!(pool.holders(), []);
    assert!(check(&pool, 0).all_freed());
}

#[test]
fn without_tracing_holders_are_a_number_and_tracing_that_ends_leaves_no_trace() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 64);
    assert_eq!(pool.holders(), []);
    let kept = pool.alloc(&mut w).unwrap();
    let unknown = Holder { site: None, frames: 1, oldest: Duration::ZERO, state: None };
    assert_eq!(pool.holders(), std::slice::from_ref(&unknown));
    pool.trace(true);
    drop(pool.alloc(&mut w).unwrap());
    pool.trace(false);
    assert_eq!(pool.holders(), [unknown]);
    let mut batch = Batch::new();
    pool.alloc_burst(&mut w, &mut batch, 10);
    batch.free(&mut w);
    assert!(check(&pool, 1).cached >= 10, "the cache is used again");
    pool.trace(true);
    assert_eq!(
        pool.holders().iter().map(|holder| (holder.site, holder.frames)).collect::<Vec<_>>(),
        [(None, 1)]
    );
    drop(kept);
}

#[test]
fn a_closed_pool_names_who_still_has_frames_in_every_place_and_everything_comes_back() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 64);
    pool.trace(true);
    let mut at =
        [FrameState::Posted, FrameState::Queued, FrameState::Ready].map(|place| (place, Batch::new()));
    for (place, batch) in &mut at {
        pool.alloc_burst(&mut w, batch, 10);
        place.enter(Some(&w), batch);
    }
    let first = line!() + 1;
    let clone = pool.alloc(&mut w).unwrap().share();
    let piece = Fragments::new(&pool).alloc(&mut w, 64).unwrap();
    let mut never = pool.alloc(&mut w).unwrap();
    let elsewhere = pool.alloc(&mut other).unwrap();
    never.put(3).unwrap();
    never.data_mut().copy_from_slice(b"yes");
    elsewhere.free(&mut other);
    std::thread::sleep(Duration::from_millis(5));
    let out = pool.close_and_wait(Duration::from_millis(2)).unwrap_err();
    assert_eq!((out.0.out(), out.0.owned, out.0.posted, out.0.queued, out.0.ready), (33, 3, 10, 10, 10));
    for (place, _) in &at {
        let there: u64 = out.1.iter().filter(|h| h.state == Some(*place)).map(|h| h.frames).sum();
        assert_eq!(there, 10, "{place:?}");
    }
    assert_eq!([0, 1, 2, 3].map(|line| of_line(&out.1, first + line)), [1, 1, 1, 0], "{out}");
    assert!(out.1.iter().all(|holder| holder.oldest >= Duration::from_millis(5)));
    let said = out.to_string();
    assert!(said.contains(&format!("{}:{first}", file!())) && said.contains("with a device"), "{said}");
    let mapped = pool.mapped_pages();
    for (place, mut batch) in at {
        place.fetch(Some(&other), &batch);
        batch.free(&mut other);
    }
    drop((clone, piece));
    let last = pool.close_and_wait(Duration::ZERO).unwrap_err();
    assert_eq!((last.1.len(), of_line(&last.1, first + 2)), (1, 1), "{last}");
    assert_eq!((pool.mapped_pages(), never.data()), (mapped, &b"yes"[..]), "nothing is unmapped early");
    drop(never);
    pool.close_and_wait(Duration::ZERO).unwrap();
    assert_eq!((pool.mapped_pages(), pool.inflight(), pool.holders()), (0, 0, Vec::new()));
    drop((pool, w, other));
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn a_place_is_forgotten_when_frames_leave_it() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    pool.trace(true);
    let frames = [pool.alloc(&mut w).unwrap()];
    FrameState::Posted.enter(Some(&w), &frames);
    assert_eq!(pool.holders()[0].state, Some(FrameState::Posted));
    FrameState::Posted.fetch(None, &frames);
    assert_eq!(pool.holders()[0].state, None);
}
