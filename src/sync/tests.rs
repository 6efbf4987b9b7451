//! The asymmetric lock in every interleaving, and the life of the token.

#[cfg(not(loom))]
use super::{Leave, Owned, Worker, WorkerError};
use super::{PerWorker, Roster, Slot};
use crate::ring::tests::{model, thread};
use std::sync::Arc;

/// How often the owner enters: few times under loom.
const VISITS: u32 = if cfg!(loom) { 2 } else { 20_000 };

/// Enters as the owner, which the caller is. Returns false if it has to take the shared path.
#[allow(unsafe_code)]
fn visit<T>(slot: &Slot<T>, f: impl FnOnce(&mut T)) -> bool {
    // SAFETY: each test has one thread that visits.
    unsafe { slot.enter() }.map(|mut held| f(&mut held)).is_some()
}

/// Does the same through the entry that has no second look.
#[allow(unsafe_code)]
fn visit_at_once<T>(slot: &Slot<T>, f: impl FnOnce(&mut T)) -> bool {
    // SAFETY: as in `visit`.
    unsafe { slot.enter_at_once() }.map(|mut held| f(&mut held)).is_some()
}

#[test]
fn owner_and_thief_are_never_inside_together_and_nothing_is_lost() {
    model(|| {
        let slot = Arc::new(Slot::<_, ()>::new(0u32));
        let owner = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || (0..VISITS).map(|_| u32::from(visit(&slot, |n| *n += 1))).sum::<u32>())
        };
        let mut stolen = 0;
        for _ in 0..if cfg!(loom) { 1 } else { 50 } {
            stolen += slot.steal(std::mem::take).unwrap_or(0);
        }
        let put_in = owner.join().unwrap();
        stolen += slot.steal(std::mem::take).unwrap_or(0);
        assert_eq!(stolen, put_in);
    });
}

#[test]
fn two_thieves_take_turns() {
    model(|| {
        let slot = Arc::new(Slot::<_, ()>::new(3u32));
        let other = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || slot.steal(std::mem::take).unwrap_or(0))
        };
        let ours = slot.steal(std::mem::take).unwrap_or(0);
        assert_eq!(ours + other.join().unwrap(), 3);
    });
}

#[test]
fn a_shut_slot_lets_its_owner_in_no_more_and_keeps_what_was_put_in() {
    model(|| {
        let slot = Arc::new(Slot::<_, ()>::new(0u32));
        let owner = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || u32::from(visit(&slot, |n| *n += 1)))
        };
        let found = slot.shut(std::mem::take);
        let put_in = owner.join().unwrap();
        assert_eq!(found, put_in, "what the owner put in before is found, and nothing goes in after");
        assert!(!visit(&slot, |_| ()));
    });
}

/// Seen: a worker that left while a thread read the statistics kept what it had, until another worker took its slot.
#[test]
fn a_worker_that_leaves_while_a_thief_is_inside_leaves_nothing_behind() {
    model(|| {
        let roster = Roster::new(1);
        let mut w = roster.claim().unwrap();
        let each = Arc::new(PerWorker::<_, ()>::new(&roster, || 3));
        let thief = {
            let each = Arc::clone(&each);
            thread::spawn(move || each.slots().map(|slot| slot.steal(|n| *n)).sum::<Option<u32>>())
        };
        assert_eq!(each.leave(&mut w, |n, ()| std::mem::take(n)), Some(3));
        let seen = thief.join().unwrap();
        assert!([None, Some(0), Some(3)].contains(&seen), "{seen:?}");
        assert!(each.slots().all(|slot| slot.steal(std::mem::take) == Some(0)));
    });
}

#[test]
#[cfg(not(loom))]
fn a_slot_is_claimed_once_and_again_after_its_worker_left() {
    let roster = Roster::new(2);
    let (a, b) = (roster.claim().unwrap(), roster.claim().unwrap());
    assert_eq!((a.slot(), b.slot()), (0, 1));
    assert_eq!(roster.claim().err(), Some(WorkerError::AllTaken { workers: 2 }));
    drop(a);
    assert_eq!(roster.claim().unwrap().slot(), 0);
}

#[test]
#[cfg(not(loom))]
fn a_worker_of_another_memory_finds_no_way_in() {
    let (ours, theirs) = (Roster::new(2), Roster::new(2));
    let (mut w, mut foreign) = (ours.claim().unwrap(), theirs.claim().unwrap());
    let (each, one) = (PerWorker::<_, ()>::new(&ours, || 0), Owned::<_, ()>::new(&w, 0));
    assert!(each.enter(&mut w).is_some() && one.enter(&mut w).is_some());
    assert!(each.enter(&mut foreign).is_none() && one.enter(&mut foreign).is_none());
    let mut second = ours.claim().unwrap();
    assert!(each.enter(&mut second).is_some() && one.enter(&mut second).is_none());
}

#[test]
#[cfg(not(loom))]
fn a_leaving_worker_asks_the_stages_last_registered_first() {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
    struct Stage(&'static AtomicUsize, usize);
    impl Leave for Stage {
        fn leave(&self, _: &mut Worker) {
            assert_eq!(self.0.fetch_add(1, Relaxed), self.1);
        }
    }
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let roster = Roster::new(1);
    let (below, above, gone) =
        (Arc::new(Stage(&ASKED, 1)), Arc::new(Stage(&ASKED, 0)), Arc::new(Stage(&ASKED, 9)));
    [&below, &gone, &above].into_iter().for_each(|stage| roster.on_leave(stage));
    drop(gone);
    drop(roster.claim().unwrap());
    assert_eq!(ASKED.load(Relaxed), 2);
}

/// Steals the owner's items while the owner enters and leaves. No item may be lost, and the two must never be inside
/// together.
#[cfg(loom)]
#[test]
fn with_a_membarrier_too_owner_and_thief_are_never_inside_together() {
    with_a_membarrier(visit);
}

#[cfg(loom)]
#[test]
fn with_a_membarrier_an_owner_that_looks_once_and_a_thief_are_never_inside_together() {
    with_a_membarrier(visit_at_once);
}

#[cfg(loom)]
fn with_a_membarrier(visit: fn(&Slot<u32>, fn(&mut u32)) -> bool) {
    model(move || {
        let slot = Arc::new(Slot::<_, ()>::with_barrier(0u32));
        let owner = {
            let slot = Arc::clone(&slot);
            thread::spawn(move || (0..VISITS).map(|_| u32::from(visit(&slot, |n| *n += 1))).sum::<u32>())
        };
        let mut stolen = slot.steal(std::mem::take).unwrap_or(0);
        let put_in = owner.join().unwrap();
        stolen += slot.steal(std::mem::take).unwrap_or(0);
        assert_eq!(stolen, put_in);
    });
}

#[test]
#[cfg(not(loom))]
fn a_thief_makes_all_cores_pass_a_barrier_before_it_looks_for_the_owner() {
    use crate::sys::membarrier::{available, tests::DONE};
    let slot = Slot::<_, ()>::new(0_u32);
    for theft in 1..4 {
        let before = DONE.get();
        assert_eq!(slot.steal(|n| *n), Some(0), "the {theft}th");
        assert_eq!(DONE.get() - before, u32::from(available()));
    }
    let before = DONE.get();
    slot.shut(|_| ());
    assert_eq!(DONE.get() - before, u32::from(available()));
}

#[test]
#[cfg(not(loom))]
fn a_thief_that_steals_without_pause_never_meets_the_owner_inside() {
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    /// Changes two words that are equal whenever no thread is inside. They are written one after the other.
    fn bump(pair: &mut [u64; 2]) {
        let seen = black_box(pair[0]);
        black_box(&mut *pair)[0] = seen + 1;
        black_box(&mut *pair)[1] += 1;
    }
    let (slot, over) = (Slot::<_, ()>::new([0_u64; 2]), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let owner = scope.spawn(|| {
            let mut visits = 0;
            while !over.load(Relaxed) {
                visits += u64::from(visit(&slot, bump));
                visits += u64::from(visit_at_once(&slot, bump));
            }
            visits
        });
        let (begun, mut steals, mut met) = (Instant::now(), 0, false);
        // The time is not a bound of the test: two cores usually meet in less.
        while begun.elapsed() < Duration::from_secs(2) && !met {
            let seen = slot.steal(|pair| {
                bump(pair);
                *pair
            });
            steals += u64::from(seen.is_some());
            met = seen.is_some_and(|[first, second]| first != second);
        }
        over.store(true, Relaxed);
        let visits = owner.join().unwrap();
        assert!(!met, "the owner was inside");
        assert_eq!(slot.steal(|pair| *pair), Some([visits + steals; 2]), "a visit or a theft is lost");
    });
}

#[test]
fn a_worker_that_claims_a_slot_finds_what_the_one_before_left_in_it() {
    model(|| {
        let roster = Roster::new(1);
        let kept = Arc::new(PerWorker::<_, ()>::new(&roster, || 0_u32));
        let mut first = roster.claim().unwrap();
        let leaving = {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                *kept.enter(&mut first).unwrap() = 7;
                drop(first);
            })
        };
        // The worker still exists, or it has given everything back.
        if let Ok(mut second) = roster.claim() {
            assert_eq!(*kept.enter(&mut second).unwrap(), 7);
        }
        leaving.join().unwrap();
        let mut last = roster.claim().unwrap();
        assert_eq!(*kept.enter(&mut last).unwrap(), 7);
    });
}

#[test]
fn an_owner_that_is_alone_goes_in_each_time() {
    model(|| {
        let slot = Slot::<_, ()>::new(0_u32);
        assert!((0..3).all(|_| visit(&slot, |n| *n += 1)));
        assert_eq!(slot.steal(std::mem::take), Some(3));
        assert!(visit(&slot, |n| assert_eq!(*n, 0)), "the thief has gone");
    });
}
