//! The ledger's places, and the pool's two wrapping counters.

use super::*;

#[test]
fn frames_are_counted_at_every_place_by_whoever_brings_and_fetches_them() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let (pool, second) = (pool(&memory, &mut w, 64), pool(&memory, &mut other, 64));
    let mut batch = Batch::new();
    for place in [FrameState::Ready, FrameState::Posted, FrameState::Queued] {
        for i in 0..30 {
            let pool = if i % 10 < 7 { &pool } else { &second };
            batch.push(pool.alloc(&mut w).unwrap()).unwrap();
        }
        place.enter(Some(&w), &batch[..20]);
        place.enter(None, &batch[20..]);
        let at = |pool: &Pool| {
            let ledger = pool.ledger();
            assert!(ledger.balanced(), "{ledger:?}");
            (ledger.owned, ledger.out(), [ledger.ready, ledger.posted, ledger.queued][place as usize])
        };
        assert_eq!((at(&pool), at(&second)), ((0, 21, 21), (0, 9, 9)), "{place:?}");
        place.fetch(Some(&other), &batch[..10]);
        assert_eq!((at(&pool), at(&second)), ((7, 21, 14), (3, 9, 6)), "{place:?}");
        let mut rest = Batch::new();
        batch.drain().skip(10).for_each(|frame| rest.push(frame).unwrap());
        place.fetch(Some(&w), &rest);
        assert_eq!((at(&pool).2, at(&second).2), (0, 0), "{place:?}");
        rest.free(&mut other);
        assert!(pool.ledger().all_freed() && second.ledger().all_freed());
    }
}

#[test]
fn a_closed_pool_says_at_which_place_frames_still_are() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let frames: Vec<Frame> = (0..6).map(|_| pool.alloc(&mut w).unwrap()).collect();
    for (place, n) in [(FrameState::Ready, 1), (FrameState::Posted, 2), (FrameState::Queued, 3)] {
        place.enter(Some(&w), &frames[..n]);
        let out = pool.close_and_wait(Duration::ZERO).unwrap_err();
        assert_eq!((out.0.out(), out.0.balanced(), out.0.owned), (6, true, 6 - n as u64));
        place.fetch(Some(&w), &frames[..n]);
    }
    let said = pool.close_and_wait(Duration::ZERO).unwrap_err().to_string();
    assert!(said.contains("6 of 16") && said.contains("6 with the program"), "{said}");
    drop(frames);
    pool.close_and_wait(Duration::ZERO).unwrap();
}

#[test]
fn a_pool_counts_its_frames_right_across_the_wrap_of_its_counters() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    for start in [u64::MAX - 3, u64::from(u32::MAX) - 3] {
        let pool = pool(&memory, &mut w, 64);
        pool.shared.inflight.start_at(start);
        let mut batch = Batch::new();
        assert_eq!(pool.alloc_burst(&mut w, &mut batch, 64), 64);
        assert_eq!((pool.inflight(), check(&pool, 64).total), (64, 64));
        batch.free(&mut w);
        pool.close_and_wait(Duration::ZERO).unwrap();
        assert_eq!(pool.inflight(), 0);
    }
}

/// Seen: a batch kept the pool of frames that it had no more, and read it after it was gone.
#[test]
fn an_empty_batch_follows_no_pool_that_is_gone() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let mut batch = Batch::new();
    let gone = pool(&memory, &mut w, 16);
    assert_eq!(gone.alloc_burst(&mut w, &mut batch, 4), 4);
    batch.free(&mut w);
    drop(gone);
    // Registering another pool lets go of what is left of the first.
    let next = pool(&memory, &mut w, 16);
    assert_eq!(batch.put_each(1, |_, _| unreachable!("no frame")), 0);
    assert_eq!(next.alloc_burst(&mut w, &mut batch, 4), 4);
    assert_eq!(batch.put_each(2, |_, bytes| bytes.fill(7)), 4);
}
