//! A shrinker is asked for its ready frames before an allocation fails.

use super::*;
use crate::pool::{Holder, Shrinker};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, Weak};

/// Keeps frames, and gives `each` of them back when asked.
struct Keeper {
    frames: Mutex<Vec<Frame>>,
    each: usize,
}

impl Shrinker for Keeper {
    fn relieve(&self, w: &mut Worker) -> usize {
        let mut frames = self.frames.lock().unwrap();
        let n = frames.len().min(self.each);
        frames.drain(..n).for_each(|frame| frame.free(w));
        n
    }

    fn ready(&self) -> u64 {
        self.frames.lock().unwrap().len() as u64
    }

    fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32)) {
        self.frames.lock().unwrap().iter().map(Frame::id).for_each(found);
    }

    fn close(&self) {
        self.frames.lock().unwrap().clear();
    }
}

#[test]
fn frames_that_are_kept_ready_are_counted_so_and_come_back_before_an_allocation_fails() {
    let memory = memory(2);
    let mut workers = [memory.worker().unwrap(), memory.worker().unwrap()];
    let pool = pool(&memory, &mut workers[0], 64);
    let frames = (0..20).map(|_| pool.alloc(&mut workers[0]).unwrap()).collect();
    let shrinker = Arc::new(Keeper { frames: Mutex::new(frames), each: 3 });
    let shrinker: Arc<dyn Shrinker> = shrinker;
    pool.add_shrinker(Arc::downgrade(&shrinker));
    assert_eq!((check(&pool, 0).ready, pool.ledger().out()), (20, 20));
    let mut held = Vec::new();
    for i in 0..64 {
        held.push(pool.alloc(&mut workers[i % 2]).expect("no false empty"));
    }
    assert_eq!((check(&pool, 64).ready, pool.failed()), (0, 0));
    assert!(pool.alloc(&mut workers[0]).is_none());
    drop(held);
    let mut batch = Batch::new();
    assert!(pool.alloc_bulk(&mut workers[1], &mut batch, 64), "in bulk as well");
}

/// Keeps nothing, and looks at the pool when that closes.
struct Observer {
    pool: Pool,
    seen: Mutex<Option<(Ledger, Vec<Holder>)>>,
}

impl Shrinker for Observer {
    fn relieve(&self, _: &mut Worker) -> usize {
        0
    }

    fn ready(&self) -> u64 {
        0
    }

    fn each_ready(&self, _: &mut dyn FnMut(NonZeroU32)) {}

    fn close(&self) {
        *self.seen.lock().unwrap() = Some((self.pool.ledger(), self.pool.holders()));
    }
}

/// Seen: 9.2e18 frames had a holder while the pool closed.
#[test]
fn while_a_pool_closes_holders_have_no_more_frames_than_it_has() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 64);
    // Every free frame is in the depot.
    pool.set_cache(0, 0).unwrap();
    let held = [(); 3].map(|()| pool.alloc(&mut w).unwrap());
    let observer = Arc::new(Observer { pool: pool.clone(), seen: Mutex::default() });
    let shrinker: Weak<Observer> = Arc::downgrade(&observer);
    pool.add_shrinker(shrinker);
    pool.close();
    let (ledger, holders) = observer.seen.lock().unwrap().take().expect("called");
    assert!(ledger.balanced(), "{ledger:?}");
    assert_eq!((ledger.owned, holders.iter().map(|holder| holder.frames).sum::<u64>()), (3, 3));
    drop(held);
    assert_eq!(pool.holders(), []);
}

#[test]
fn a_keeper_that_has_nothing_or_is_gone_changes_nothing() {
    let memory = memory(1);
    let mut w = memory.worker().unwrap();
    let pool = pool(&memory, &mut w, 2);
    let none: Arc<dyn Shrinker> = Arc::new(Keeper { frames: Mutex::default(), each: 1 });
    pool.add_shrinker(Arc::downgrade(&none));
    pool.add_shrinker(Weak::<Keeper>::new());
    let held = [pool.alloc(&mut w), pool.alloc(&mut w)];
    assert!(held.iter().all(Option::is_some) && pool.alloc(&mut w).is_none());
    assert_eq!(pool.failed(), 1);
}
