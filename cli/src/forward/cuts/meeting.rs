//! The meeting of workers that share packets, at the end of a round of each.
//!
//! A worker that arrives waits for the others, at most a fifth of a millisecond. The last one counts the frames
//! while all others stand still. If a worker goes on before that, this is detected and the count is discarded. No
//! worker waits for one that stalls.

use netmem::forward::{Idle, IdleControl};
use netmem::pool::Ledger;
use std::hint::spin_loop;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The waiting time of a worker that spins. The rings hold the packets that come in during it.
const SPINNING: Duration = Duration::from_micros(200);
/// The waiting time of a worker that sleeps when idle, so that others have time to wake up.
const SLEEPING: Duration = Duration::from_millis(2);
/// Number of polls before the thread yields its core.
const LOOKS: u32 = 200;
/// The position of the number above the count of arrived workers.
const NUMBER: u32 = 16;

/// A place where workers meet, for one cut after the other.
pub struct Meeting {
    /// Each worker's idle mode.
    idle: Vec<IdleControl>,
    /// The number of the cut, and the number of workers that have arrived.
    came: AtomicU64,
    /// Workers that have ended. They do not arrive, and move nothing any more.
    ended: AtomicU64,
    /// The last number at which a worker went on before the end of the meeting.
    left: AtomicU64,
    /// The last number for which the frames have been counted, whether or not the count is valid.
    over: AtomicU64,
    met: Mutex<Option<(u64, Met)>>,
}

/// The counts taken while nothing moved.
#[derive(Debug, Clone, PartialEq)]
pub struct Met {
    /// The frames of each pool.
    pub ledgers: Vec<Ledger>,
    /// Packets dropped between workers, by cause.
    pub between: Vec<(&'static str, u64)>,
}

impl Meeting {
    /// Makes a meeting of workers with these idle modes.
    pub fn new(idle: Vec<IdleControl>) -> Meeting {
        let number = || AtomicU64::new(0);
        Meeting {
            idle,
            came: number(),
            ended: number(),
            left: number(),
            over: number(),
            met: Mutex::new(None),
        }
    }

    /// Records that a worker has ended and is not waited for any more.
    pub fn end(&self) {
        // Release: pairs with the Acquire in `present`; all that it did comes before.
        self.ended.fetch_add(1, Release);
    }

    /// Returns the number of workers that have not ended.
    pub fn present(&self) -> u64 {
        // Acquire: pairs with the Release in `end`.
        self.idle.len() as u64 - self.ended.load(Acquire)
    }

    /// Opens the meeting for the cut of that number, which is larger than any before. A worker that still waits in
    /// an earlier meeting leaves it.
    pub fn open(&self, number: u64) {
        // Release: pairs with the AcqRel in `meet`.
        self.came.store(number << NUMBER, Release);
    }

    /// Returns true if the frames of that number were counted.
    pub fn is_over(&self, number: u64) -> bool {
        // Acquire: pairs with the Release in `meet`.
        self.over.load(Acquire) >= number || self.left.load(Relaxed) >= number
    }

    /// Returns the counts, if all workers stood still.
    pub fn result(&self, number: u64) -> Option<Met> {
        let mut met = self.met.lock().unwrap_or_else(PoisonError::into_inner);
        met.take().filter(|(of, _)| *of == number).map(|(_, met)| met)
    }

    /// Lets worker `worker` arrive. The last one calls `count`, while all others stand still.
    pub fn meet(&self, number: u64, worker: usize, count: impl FnOnce() -> Met) {
        let came = |came: u64| (came >> NUMBER == number).then_some(came + 1);
        // AcqRel: what others did before they came is seen by the last one.
        let Ok(before) = self.came.fetch_update(AcqRel, Relaxed, came) else { return };
        let others = before & ((1 << NUMBER) - 1);
        if others + 1 < self.present() {
            self.wait(number, worker);
            return;
        }
        let met = count();
        // Acquire: pairs with the fence in `wait`. If anything was read that another did after it left, that it left is read
        // here.
        fence(Acquire);
        if self.left.load(Relaxed) != number {
            *self.met.lock().unwrap_or_else(PoisonError::into_inner) = Some((number, met));
        }
        // Release: pairs with the Acquires in `wait` and `is_over`.
        self.over.fetch_max(number, Release);
    }

    /// Waits until the meeting is over, or leaves it before that if it takes too long.
    fn wait(&self, number: u64, worker: usize) {
        let patience = match self.idle[worker].get() {
            Idle::Spin => SPINNING,
            Idle::Sleep => SLEEPING,
        };
        let (since, mut looks) = (Instant::now(), 0_u32);
        // Acquire: pairs with the Release in `meet`: what was counted comes before what follows here.
        while self.over.load(Acquire) < number {
            if since.elapsed() > patience || self.came.load(Relaxed) >> NUMBER != number {
                self.left.fetch_max(number, Relaxed);
                // Release: pairs with the fence in `meet`; all that follows comes after it.
                fence(Release);
                return;
            }
            looks += 1;
            if looks < LOOKS { spin_loop() } else { thread::yield_now() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(n: u64) -> Met {
        Met { ledgers: Vec::new(), between: vec![("n", n)] }
    }

    #[test]
    fn counts_taken_before_all_workers_meet_are_discarded() {
        let meeting = Meeting::new(vec![IdleControl::default(); 2]);
        meeting.open(1);
        // No other worker arrives, so this one leaves.
        meeting.meet(1, 0, || met(1));
        assert!(meeting.is_over(1));
        meeting.meet(1, 1, || met(1));
        assert_eq!(meeting.result(1), None);
        // A worker that arrives at a finished meeting, or at none, does not wait.
        meeting.meet(7, 0, || unreachable!());
        meeting.open(2);
        meeting.meet(1, 0, || unreachable!());
        assert!(!meeting.is_over(2));
    }

    /// Both workers count all the time, except while they meet: the two counts there are equal.
    #[test]
    fn no_worker_moves_a_packet_while_all_count() {
        let meeting = Meeting::new(vec![IdleControl::default(); 2]);
        let (asked, moved) = (AtomicU64::new(0), [AtomicU64::new(0), AtomicU64::new(0)]);
        let sum = || moved.iter().map(|one| one.load(Relaxed)).sum::<u64>();
        let body = |worker: usize| {
            let mut answered = 0;
            while answered < u64::MAX {
                moved[worker].store(moved[worker].load(Relaxed) + 1, Relaxed);
                // Acquire: pairs with the Release below.
                let number = asked.load(Acquire);
                if number != answered && number != u64::MAX {
                    meeting.meet(number, worker, || {
                        let first = sum();
                        (0..100).for_each(|_| spin_loop());
                        met(sum() - first)
                    });
                }
                answered = number;
            }
        };
        thread::scope(|scope| {
            scope.spawn(|| body(0));
            scope.spawn(|| body(1));
            let (mut number, mut counted) = (0, 0);
            while counted < 100 && number < 100_000 {
                number += 1;
                meeting.open(number);
                asked.store(number, Release);
                while !meeting.is_over(number) {
                    thread::yield_now();
                }
                if let Some(result) = meeting.result(number) {
                    assert_eq!(result, met(0));
                    counted += 1;
                }
            }
            asked.store(u64::MAX, Release);
            assert!(counted > 0, "they met never");
        });
    }
}
