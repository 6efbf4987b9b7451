//! Errors in the counts of frames that are free, on the remote free queue or kept ready: each of them unbalances the
//! ledger.

use super::*;
use crate::pool::Shrinker;
use crate::rounds::stride;
use crate::sync::shim::{Mutex, lock};
use std::num::NonZeroU32;
use std::sync::Arc;

/// A pool with frames in every place except devices and queues, another pool, and the worker that owns both.
struct Rig {
    pools: [Pool; 2],
    held: [Vec<Frame>; 2],
    w: Worker,
    _memory: Memory,
}

impl Rig {
    fn new() -> Rig {
        let memory = memory(2);
        let (mut w, mut other) = (memory.worker().unwrap(), memory.worker().unwrap());
        let pools = [64, 64].map(|frames| pool(&memory, &mut w, frames));
        let held = pools.each_ref().map(|pool| {
            let mut frames: Vec<_> = (0..60).map(|_| pool.alloc(&mut w).unwrap()).collect();
            // On the remote free queue, in the depot and in the cache.
            frames.drain(..9).for_each(|frame| frame.free(&mut other));
            frames.drain(..33).for_each(|frame| frame.free(&mut w));
            frames
        });
        let rig = Rig { pools, held, w, _memory: memory };
        rig.pools.iter().for_each(|pool| {
            let ledger = check(pool, 18);
            assert!(ledger.free > 0 && ledger.cached > 0 && ledger.returning == 9, "{ledger:?}");
        });
        rig
    }

    fn is_balanced(&self) -> bool {
        self.pools.iter().all(|pool| pool.ledger().balanced())
    }
}

/// Makes an error in a count of the first pool, by this many frames; the number may be negative.
type Miscount = fn(&mut Rig, &Pool, &Pool, i64);

const MISCOUNTS: [(&str, Miscount); 9] = [
    ("frames that the owner took", |_, pool, _, n| {
        pool.shared.local.slot().gauges().taken.add_shared(n.cast_unsigned());
    }),
    ("frames that the owner gave", |_, pool, _, n| {
        pool.shared.local.slot().gauges().given.add_shared(n.cast_unsigned());
    }),
    ("frames that another worker took", |rig, pool, _, n| {
        pool.shared.lanes.add(&rig.w, n.cast_unsigned(), |lane| &lane.taken);
    }),
    ("frames that another worker gave", |rig, pool, _, n| {
        pool.shared.lanes.add(&rig.w, n.cast_unsigned(), |lane| &lane.given);
    }),
    ("frames given without a worker", |_, pool, _, n| {
        pool.shared.lanes.shared_lane().given.add_shared(n.cast_unsigned());
    }),
    ("frames with their pages", |_, pool, _, n| match u32::try_from(n) {
        Ok(more) => pool.shared.inflight.hold(more),
        Err(_) => pool.shared.inflight.release(n.unsigned_abs() as u32),
    }),
    ("frames given that are another pool's", |rig, pool, other, n| {
        pool.shared.lanes.add(&rig.w, n.cast_unsigned(), |lane| &lane.given);
        other.shared.lanes.add(&rig.w, n.wrapping_neg().cast_unsigned(), |lane| &lane.given);
    }),
    ("frames taken that are another pool's", |rig, pool, other, n| {
        pool.shared.lanes.add(&rig.w, n.cast_unsigned(), |lane| &lane.taken);
        other.shared.lanes.add(&rig.w, n.wrapping_neg().cast_unsigned(), |lane| &lane.taken);
    }),
    ("frames taken and given", |rig, pool, _, n| {
        pool.shared.lanes.add(&rig.w, n.cast_unsigned(), |lane| &lane.taken);
        pool.shared.local.slot().gauges().given.add_shared(n.wrapping_neg().cast_unsigned());
    }),
];

#[test]
fn frames_miscounted_as_they_are_taken_or_given_are_seen() {
    for (name, miscount) in MISCOUNTS {
        for n in [1, -1, 2, -7, 18, 32, -32, 64, -64, 1 << 31].into_iter().step_by(stride(5)) {
            for first in (0..2).step_by(stride(2)) {
                let mut rig = Rig::new();
                let (pool, other) = (rig.pools[first].clone(), rig.pools[1 - first].clone());
                miscount(&mut rig, &pool, &other, n);
                assert!(!rig.is_balanced(), "{name}: {n} of pool {first}: {:?}", pool.ledger());
                miscount(&mut rig, &pool, &other, -n);
                assert!(rig.is_balanced(), "{name}: {n} of pool {first}, undone: {:?}", pool.ledger());
            }
        }
    }
}

/// Makes an error with a free frame of the first pool, or puts a frame of the other pool into the first.
type Misplace = fn(&mut Rig, &Pool, &Pool);

const MISPLACED: [(&str, Misplace); 8] = [
    ("one of the cache's is lost", |_, pool, _| {
        assert!(pool.shared.local.slot().steal(|local| local.lose()).unwrap().is_some());
    }),
    ("one of the cache's is there twice", |_, pool, _| {
        assert!(pool.shared.local.slot().steal(|local| local.double()).unwrap());
    }),
    ("one of the depot's is lost", |_, pool, _| {
        assert!(lock(&pool.shared.depot).spare.pop().is_some());
    }),
    ("one of the depot's is there twice", |_, pool, _| {
        let mut depot = lock(&pool.shared.depot);
        let id = depot.spare[0];
        pool.shared.put(&mut depot, id);
    }),
    ("one on the remote free queue is lost", |_, pool, _| {
        assert_eq!(pool.shared.remote_free.pop_ring(1, |_| ()), 1);
    }),
    ("one is on the remote free queue twice", |rig, pool, _| {
        let id = rig.held[0][0].id().get();
        assert_eq!(pool.shared.remote_free.push(pool.shared.frame_table.links(), &[id], |id| *id), 0);
    }),
    ("another pool's is freed into the cache", |_, pool, other| {
        let give = |ids: &[u32]| pool.shared.local.slot().steal(|local| local.give(ids[0])).unwrap();
        assert_eq!(other.shared.remote_free.pop_ring(1, |ids| assert!(give(ids))), 1);
    }),
    ("another pool's is on the remote free queue here", |rig, pool, other| {
        let at =
            rig.pools.iter().position(|one| std::ptr::eq(&raw const *one.shared, &raw const *other.shared));
        let frame = rig.held[at.unwrap()].pop().unwrap();
        pool.shared.lanes.add(&rig.w, 1, |lane| &lane.given);
        pool.shared
            .remote_free
            .push(pool.shared.frame_table.links(), &[frame.into_desc().id.get()], |id| *id);
    }),
];

/// Pools that must not be dropped any more.
static SPOILT: Mutex<Vec<(Rig, Pool, Pool)>> = Mutex::new(Vec::new());

#[test]
fn frames_that_are_lost_doubled_or_among_another_pools_free_ones_are_seen() {
    for (name, misplace) in MISPLACED {
        for first in [0, 1] {
            let mut rig = Rig::new();
            let (pool, other) = (rig.pools[first].clone(), rig.pools[1 - first].clone());
            misplace(&mut rig, &pool, &other);
            let (balanced, ledger) = (rig.is_balanced(), pool.ledger());
            // Closing such a pool would give its pages back too early.
            lock(&SPOILT).push((rig, pool, other));
            assert!(!balanced, "{name}, pool {first}: {ledger:?}");
        }
    }
}

/// A shrinker that reports this many frames, and names these.
struct Liar {
    said: u64,
    named: Vec<NonZeroU32>,
}

impl Shrinker for Liar {
    fn relieve(&self, _: &mut Worker) -> usize {
        0
    }

    fn ready(&self) -> u64 {
        self.said
    }

    fn each_ready(&self, found: &mut dyn FnMut(NonZeroU32)) {
        self.named.iter().copied().for_each(found);
    }

    fn close(&self) {}
}

#[test]
fn whoever_lies_about_frames_that_it_keeps_ready_is_seen() {
    let honest = |rig: &Rig, n: usize| rig.held[0][..n].iter().map(Frame::id).collect::<Vec<_>>();
    for (said, n, lies) in [(0, 0, false), (5, 5, false), (18, 18, false)]
        .into_iter()
        .chain([u64::MAX, u64::MAX - 3, 1 << 63, 64, 46, 6, 4, 1, 0].map(|said| (said, 5, true)))
        .chain([(4, 0, true), (u64::MAX - 3, 0, true), (17, 18, true)])
    {
        let rig = Rig::new();
        let liar: Arc<dyn Shrinker> = Arc::new(Liar { said, named: honest(&rig, n) });
        rig.pools[0].add_shrinker(Arc::downgrade(&liar));
        let ledger = rig.pools[0].ledger();
        assert_eq!((ledger.balanced(), ledger.all_freed()), (!lies, false), "{said} {n}: {ledger:?}");
        assert_eq!((ledger.owned, ledger.ready), (18 - n as u64, said), "{ledger:?}");
    }
}

#[test]
fn a_frame_that_is_named_twice_or_is_another_pools_is_not_kept_ready() {
    let rig = Rig::new();
    let [mine, others] = rig.held.each_ref().map(|held| held[0].id());
    // The last chunk of the table, which is small under Miri.
    let nobodys = NonZeroU32::new(if cfg!(miri) { 0xffff } else { u32::MAX }).unwrap();
    for named in [vec![mine, mine], vec![mine, others], vec![others, others], vec![nobodys, mine]] {
        let liar: Arc<dyn Shrinker> = Arc::new(Liar { said: 2, named: named.clone() });
        rig.pools[0].add_shrinker(Arc::downgrade(&liar));
        assert!(!rig.pools[0].ledger().balanced(), "{named:?}: {:?}", rig.pools[0].ledger());
    }
    assert!(rig.is_balanced(), "they are gone");
}
