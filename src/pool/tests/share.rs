//! Frames with several holders.

use super::*;
use crate::pool::SharedFrame;

fn filled(pool: &Pool, w: &mut Worker) -> Frame {
    let mut frame = pool.alloc(w).unwrap();
    frame.put(100).unwrap();
    frame.data_mut().iter_mut().enumerate().for_each(|(i, byte)| *byte = i as u8);
    frame
}

#[test]
fn every_claim_has_a_view_of_its_own_that_only_narrows() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let whole = filled(&pool, &mut w).share();
    let mut middle = whole.clone();
    middle.pull(10).unwrap();
    middle.trim(20).unwrap();
    assert_eq!(middle.data(), &whole.data()[10..30]);
    assert!(middle.pull(21).is_err() && middle.trim(21).is_err());
    assert_eq!((middle.len(), whole.len(), middle.id() == whole.id()), (20, 100, true));
    let mut none = middle.clone();
    none.pull(20).unwrap();
    assert!(none.is_empty() && none.data().is_empty());
    assert_eq!(whole.holders(), 3);
}

#[test]
fn a_frame_is_exclusive_again_only_with_its_one_holder() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let first = filled(&pool, &mut w).share();
    assert!(first.is_unique());
    let second = first.clone();
    let first = first.into_frame().unwrap_err();
    assert!(!first.is_unique() && !second.is_unique());
    second.free(&mut w);
    check(&pool, 1);
    let mut frame = first.into_frame().unwrap();
    assert_eq!((frame.len(), frame.data()[99]), (100, 99));
    frame.data_mut().fill(1);
    assert!(frame.push(10).is_ok());
    frame.free(&mut w);
    assert!(check(&pool, 0).all_freed());
}

#[test]
fn the_last_of_the_claims_brings_the_frame_home_whoever_lets_go_last_and_however() {
    let memory = memory(2);
    let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
    let pool = pool(&memory, &mut w, 16);
    let ways: [fn(SharedFrame, &mut Worker); 3] = [
        |claim, w| claim.free(w),
        |claim, _| drop(claim),
        |claim, w| claim.release().into_iter().for_each(|f| f.free(w)),
    ];
    for way in ways {
        let claims: Vec<SharedFrame> = vec![filled(&pool, &mut w).share(); 3];
        for (left, claim) in (0..3).rev().zip(claims) {
            way(claim, if left == 0 { &mut other } else { &mut w });
            let ledger = check(&pool, u64::from(left > 0));
            assert_eq!(ledger.all_freed(), left == 0);
        }
    }
    assert!(pool.alloc_bulk(&mut w, &mut Batch::new(), 16), "all of them are to be had again");
}

#[test]
fn a_clone_keeps_a_closed_pool_and_its_pages() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let first = filled(&pool, &mut w).share();
    let second = first.clone();
    assert_eq!(pool.close_and_wait(Duration::ZERO).unwrap_err().0.owned, 1);
    first.free(&mut w);
    drop(pool);
    assert!(memory.stats().free < memory.stats().total, "nothing is given back early");
    assert_eq!(second.data()[7], 7);
    drop((second, w));
    assert_eq!(memory.stats().free, memory.stats().total);
}

#[test]
fn two_threads_that_clone_and_let_go_at_once_bring_a_frame_home_once() {
    let memory = memory(3);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 16);
    let mut others = [memory.worker().unwrap(), memory.worker().unwrap()];
    for _ in 0..crate::rounds::rounds(200) {
        let claim = filled(&pool, &mut w).share();
        std::thread::scope(|scope| {
            for other in &mut others {
                let mine = claim.clone();
                scope.spawn(move || {
                    let more: Vec<_> = vec![mine.clone(); 5];
                    assert_eq!(mine.data()[99], 99);
                    more.into_iter().for_each(|claim| claim.free(other));
                    drop(mine);
                });
            }
            drop(claim);
        });
        assert!(check(&pool, 0).all_freed());
    }
}
