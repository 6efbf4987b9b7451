//! The remote free queue in every interleaving: threads that bring frames, take them, and close it.

use super::{Latch, Links, RemoteFree};
use crate::page::{Left, Refs};
use crate::ring::tests::{model, thread};
use crate::sync::shim::AtomicU32;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The remote free queue on its own, with its latch, for threads that bring frames and one that closes.
struct Bench {
    remote_free: RemoteFree,
    latch: Latch,
    next: Vec<AtomicU32>,
    /// Claims on frame 1.
    refs: AtomicU32,
    /// What was done with each frame, written without an order of its own.
    done: Vec<AtomicU32>,
}

impl Bench {
    fn new() -> Arc<Bench> {
        let [next, done] = [(); 2].map(|()| (0..4).map(|_| AtomicU32::new(0)).collect());
        Arc::new(Bench {
            remote_free: RemoteFree::new(1),
            latch: Latch::new(),
            next,
            refs: AtomicU32::new(0),
            done,
        })
    }

    fn links(&self) -> Links<'_> {
        Links { next: &self.next, first: 1 }
    }

    /// Frees frames to the queue. Returns true if it had to count them down and they were the last.
    fn bring(&self, ids: std::ops::Range<u32>) -> bool {
        let late = self.remote_free.push(self.links(), &ids.collect::<Vec<_>>(), |id| *id);
        late > 0 && self.latch.down(late as u64)
    }

    /// Gives claims on frame 1 up. Returns true if they were the last ones, and the frame came after closing.
    fn release(&self, claims: u32) -> bool {
        Refs(&self.refs).release_many(claims) == Left::Nothing && self.bring(1..2)
    }
}

#[test]
fn frames_brought_while_the_pool_closes_are_counted_once_and_one_thread_learns_it() {
    model(|| {
        let bench = Bench::new();
        let bringers: Vec<_> = [1..3, 3..4]
            .into_iter()
            .map(|ids| {
                let bench = Arc::clone(&bench);
                thread::spawn(move || bench.bring(ids))
            })
            .collect();
        let mut taken = 0;
        bench.remote_free.close(bench.links(), |_| taken += 1);
        let mut last = usize::from(bench.latch.arm(3 - taken));
        last += bringers.into_iter().map(|b| usize::from(b.join().unwrap())).sum::<usize>();
        assert_eq!(last, 1, "exactly one ends the pool");
        assert_eq!(bench.latch.out(), 0);
    });
}

#[test]
fn frames_brought_while_the_owner_takes_are_taken_once() {
    model(|| {
        let bench = Bench::new();
        let bringer = {
            let bench = Arc::clone(&bench);
            thread::spawn(move || bench.bring(1..4))
        };
        let mut seen = [0; 4];
        let mut gather = || {
            bench.remote_free.pop_ring(4, |ids| ids.iter().for_each(|&id| seen[id as usize] += 1));
            bench.remote_free.pop_stack(bench.links(), |id| seen[id as usize] += 1);
        };
        gather();
        assert!(!bringer.join().unwrap());
        gather();
        gather();
        assert_eq!(seen, [0, 1, 1, 1]);
        assert_eq!(bench.remote_free.len(), 0);
    });
}

#[test]
fn a_frame_that_two_workers_release_last_while_its_pool_closes_comes_home_once() {
    model(|| {
        let bench = Bench::new();
        // A cutter's bias with one piece out, which is shared once more.
        Refs(&bench.refs).begin_with(10);
        Refs(&bench.refs).clone_claim();
        let holders: Vec<_> = [9, 1]
            .into_iter()
            .map(|claims| {
                let bench = Arc::clone(&bench);
                thread::spawn(move || bench.release(claims))
            })
            .collect();
        let mut last = usize::from(bench.release(1));
        let mut taken = 0;
        bench.remote_free.close(bench.links(), |_| taken += 1);
        last += usize::from(bench.latch.arm(1 - taken));
        last += holders.into_iter().map(|holder| usize::from(holder.join().unwrap())).sum::<usize>();
        assert_eq!(last, 1, "exactly one ends the pool");
        assert_eq!((bench.latch.out(), Refs(&bench.refs).count()), (0, 0));
    });
}

#[test]
fn the_one_who_learns_that_all_are_home_sees_what_was_done_with_each() {
    model(|| {
        let (latch, done) = (Arc::new(Latch::new()), Arc::new([(); 3].map(|()| AtomicU32::new(0))));
        let bringers: Vec<_> = (0..2)
            .map(|frame| {
                let (latch, done) = (Arc::clone(&latch), Arc::clone(&done));
                thread::spawn(move || {
                    done[frame].store(7, Relaxed);
                    latch.down(1) && is_done(&done)
                })
            })
            .collect();
        // The closing thread's work on the frames that it found free itself.
        done[2].store(7, Relaxed);
        let mut last = usize::from(latch.arm(2) && is_done(&done));
        assert!(latch.out() != 0 || is_done(&done), "who waits for the last sees it too");
        last += bringers.into_iter().map(|bringer| usize::from(bringer.join().unwrap())).sum::<usize>();
        assert_eq!(last, 1);
    });
}

#[test]
fn the_number_of_late_frames_is_known_from_the_moment_when_those_out_are_counted() {
    model(|| {
        let latch = Latch::new();
        assert_eq!((latch.known(), latch.down(1), latch.known()), (None, false, None));
        assert_eq!((latch.arm(3), latch.known()), (false, Some(2)));
        assert_eq!((latch.down(2), latch.known()), (true, Some(0)));
    });
}

/// What was done with all frames is seen.
fn is_done(done: &[AtomicU32; 3]) -> bool {
    done.iter().for_each(|frame| assert_eq!(frame.load(Relaxed), 7, "it gives back what a holder is at"));
    true
}

#[test]
fn who_takes_a_frame_on_its_way_home_sees_what_was_done_with_it() {
    model(|| {
        let bench = Bench::new();
        let bringer = {
            let bench = Arc::clone(&bench);
            thread::spawn(move || {
                (1..4).for_each(|id| bench.done[id].store(7, Relaxed));
                bench.bring(1..4)
            })
        };
        let mut seen = 0;
        let mut see = |id: u32| {
            assert_eq!(bench.done[id as usize].load(Relaxed), 7, "of frame {id}");
            seen += 1;
        };
        bench.remote_free.pop_ring(4, |ids| ids.iter().copied().for_each(&mut see));
        bench.remote_free.pop_stack(bench.links(), &mut see);
        assert!(!bringer.join().unwrap());
        bench.remote_free.close(bench.links(), &mut see);
        assert_eq!(seen, 3);
    });
}
