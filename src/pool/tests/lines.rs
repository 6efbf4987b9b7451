//! Lines of frames: what is counted and kept on the way into one and out again.

use super::*;
use crate::pool::{LINE_MAX, Line};
use crate::ring::{Receiver, Sender, ring};

/// A lane of lines.
fn lane() -> (Sender<Line>, Receiver<Line>) {
    ring(16)
}

/// Queues the next `n` frames of `batch` as one line.
fn queue(sender: &mut Sender<Line>, w: &Worker, batch: &mut Batch, n: usize) {
    FrameState::Queued.enter_batch(w, batch, n);
    let mut frames = batch.hand_over(FrameState::Queued, w, n);
    let mut lengths = std::iter::once(n).chain(std::iter::repeat(0));
    let sent = sender.send_each(2, |slot| frames.load(slot, lengths.next().unwrap_or(0), 7));
    assert_eq!(sent, usize::from(n > 0), "no line is empty");
}

/// Takes all lines there is room for; returns how many.
fn take(receiver: &mut Receiver<Line>, w: &Worker, batch: &mut Batch) -> usize {
    let before = batch.len();
    let lines = receiver.recv_each(16, |line| {
        assert_eq!((line.word, line.mark()), (7, None));
        Line::unload(line, batch);
    });
    batch.taken_back(FrameState::Queued, w, before);
    FrameState::Queued.leave_last(w, batch, batch.len() - before);
    lines
}

#[test]
fn frames_come_out_of_lines_as_they_went_in_and_are_queued_between() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let (pool, second) = (pool(&memory, &mut w, 64), pool(&memory, &mut w, 64));
    let (mut sender, mut receiver) = lane();
    for traced in [false, true] {
        pool.trace(traced);
        let mut batch = Batch::new();
        pool.alloc_burst(&mut w, &mut batch, 9);
        second.alloc_burst(&mut w, &mut batch, 9);
        pool.alloc_burst(&mut w, &mut batch, 2);
        let ids: Vec<_> = batch.iter().map(Frame::id).collect();
        // Of one pool, of both, none, of the other, and the rest.
        [7, 5, 0, 6, 2].into_iter().for_each(|n| queue(&mut sender, &w, &mut batch, n));
        assert!(batch.is_empty());
        let at = |pool: &Pool| (pool.ledger().queued, pool.ledger().owned, pool.ledger().balanced());
        assert_eq!((at(&pool), at(&second)), ((11, 0, true), (9, 0, true)));
        let queued =
            pool.holders().iter().filter(|h| h.state == Some(FrameState::Queued)).map(|h| h.frames).sum();
        assert_eq!(if traced { queued } else { 11_u64 }, 11);
        assert_eq!(take(&mut receiver, &other, &mut batch), 4);
        assert_eq!((at(&pool), at(&second)), ((0, 11, true), (0, 9, true)));
        assert_eq!(batch.iter().map(Frame::id).collect::<Vec<_>>(), ids);
        batch.free(&mut other);
        assert!(pool.ledger().all_freed() && second.ledger().all_freed());
    }
}

#[test]
fn frames_of_lines_that_nobody_takes_go_home() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let (pool, second) = (pool(&memory, &mut w, 64), pool(&memory, &mut w, 64));
    let (mut sender, receiver) = lane();
    let mut batch = Batch::new();
    pool.alloc_burst(&mut w, &mut batch, 8);
    queue(&mut sender, &w, &mut batch, 6);
    second.alloc_burst(&mut w, &mut batch, 3);
    queue(&mut sender, &w, &mut batch, 5);
    assert_eq!((pool.ledger().queued, second.ledger().queued), (8, 3));
    drop((sender, receiver));
    assert!(pool.ledger().all_freed() && second.ledger().all_freed());
}

#[test]
fn a_line_takes_seven_and_waits_for_a_batch_that_has_room() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 128);
    let (mut sender, mut receiver) = lane();
    let (mut batch, mut full) = (Batch::new(), Batch::new());
    pool.alloc_burst(&mut w, &mut batch, 9);
    let mut frames = batch.drain();
    FrameState::Queued.enter(Some(&w), frames.as_slice());
    assert_eq!(sender.send_each(3, |slot| frames.load(slot, 9, 7)), 2);
    drop(frames);
    pool.alloc_burst(&mut w, &mut full, 58);
    assert_eq!((take(&mut receiver, &w, &mut full), full.room()), (0, 6));
    drop(full.pop());
    assert_eq!((take(&mut receiver, &w, &mut full), full.room()), (1, 0));
    // Two frames fit where there is just room for two, though not for seven.
    drop(full.pop());
    assert_eq!(take(&mut receiver, &w, &mut full), 0);
    drop(full.pop());
    assert_eq!((take(&mut receiver, &w, &mut full), full.room()), (1, 0));
    assert_eq!((LINE_MAX, pool.ledger().owned), (7, 64));
    full.free(&mut w);
    assert!(pool.ledger().all_freed());
}

#[test]
fn a_callback_that_panics_loses_no_frame_of_a_line_of_two_pools() {
    let memory = panics::memory_without_lists();
    let (mut w, mut batch) = (memory.worker().unwrap(), Batch::new());
    let open = panics::three(&memory, &mut w, &mut batch);
    let (mut sender, receiver) = lane();
    queue(&mut sender, &w, &mut batch, 3);
    drop(sender);
    assert!(panics::panics(|| drop(receiver)));
    assert!(check(&open, 0).all_freed());
}
