//! Lines of frames: what is counted and kept on the way into one and out again.

use super::*;
use crate::pool::{LINE_MAX, Line};

/// A line with the next `n` frames of `batch`.
fn line(batch: &mut Batch, n: usize) -> Line {
    let mut line = Line::new(7);
    assert_eq!(batch.drain().move_to_line(&mut line, n), n);
    line
}

#[test]
fn frames_come_out_of_lines_as_they_went_in_and_are_queued_between() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let (pool, second) = (pool(&memory, &mut w, 64), pool(&memory, &mut w, 64));
    for traced in [false, true] {
        pool.trace(traced);
        let mut batch = Batch::new();
        pool.alloc_burst(&mut w, &mut batch, 9);
        second.alloc_burst(&mut w, &mut batch, 9);
        pool.alloc_burst(&mut w, &mut batch, 2);
        let ids: Vec<_> = batch.iter().map(Frame::id).collect();
        // Of one pool, of both, empty, of the other, and the rest.
        let mut lines: Vec<Line> = [7, 5, 0, 6, 2].map(|n| line(&mut batch, n)).into();
        assert!(batch.is_empty());
        Line::enter(&mut lines, Place::Queued, &w);
        let at = |pool: &Pool| (pool.ledger().queued, pool.ledger().owned, pool.ledger().balanced());
        assert_eq!((at(&pool), at(&second)), ((11, 0, true), (9, 0, true)));
        let queued = pool.holders().iter().filter(|h| h.place == Some(Place::Queued)).map(|h| h.frames).sum();
        assert_eq!(if traced { queued } else { 11_u64 }, 11);
        lines.into_iter().for_each(|line| line.unload(&mut batch));
        Place::Queued.leave_from(&other, &batch, 0);
        assert_eq!((at(&pool), at(&second)), ((0, 11, true), (0, 9, true)));
        assert_eq!(batch.iter().map(Frame::id).collect::<Vec<_>>(), ids);
        batch.free(&mut other);
        assert!(pool.ledger().all_home() && second.ledger().all_home());
    }
}

#[test]
fn a_line_that_is_dropped_sends_its_frames_home_from_wherever_they_are_counted() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 64);
    let mut batch = Batch::new();
    pool.alloc_burst(&mut w, &mut batch, 10);
    let listed = line(&mut batch, 4);
    let mut sent = [line(&mut batch, 6)];
    Line::enter(&mut sent, Place::Queued, &w);
    assert_eq!((pool.ledger().queued, pool.ledger().owned), (6, 4));
    drop(listed);
    assert_eq!((pool.ledger().queued, pool.ledger().owned), (6, 0));
    drop(sent);
    assert!(pool.ledger().all_home());
}

#[test]
fn a_line_takes_seven_and_a_batch_takes_as_many_as_it_has_room_for() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 128);
    let (mut batch, mut full) = (Batch::new(), Batch::new());
    pool.alloc_burst(&mut w, &mut batch, 9);
    let mut line = Line::new(0);
    assert_eq!(batch.drain().move_to_line(&mut line, 9), LINE_MAX);
    assert_eq!(batch.drain().move_to_line(&mut line, 9), 0);
    assert_eq!((line.room(), batch.len()), (0, 2));
    pool.alloc_burst(&mut w, &mut full, 57);
    line.unload(&mut full);
    assert_eq!(full.room(), 0);
    // A line of two fits where there is just room for two, though not for seven.
    drop(full.pop());
    drop(full.pop());
    let mut line = Line::new(0);
    batch.drain().move_to_line(&mut line, 2);
    line.unload(&mut full);
    assert_eq!((full.room(), pool.ledger().owned), (0, 64));
    full.free(&mut w);
    assert!(pool.ledger().all_home());
}

#[test]
#[should_panic(expected = "2 frames for 1 places")]
fn a_line_is_not_unloaded_where_it_has_no_room() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 128);
    let (mut batch, mut full) = (Batch::new(), Batch::new());
    pool.alloc_burst(&mut w, &mut batch, 2);
    pool.alloc_burst(&mut w, &mut full, 63);
    line(&mut batch, 2).unload(&mut full);
}
