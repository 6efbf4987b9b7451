//! Consistent cuts of a run: the counts of every worker at the end of one round, and the place of every frame at
//! that time.
//!
//! ```text
//!   the asking thread ─► asked, StatusRequest ─► each worker, at the end of its round ─► its counts, its pool's ledger
//!        └───── waits, for [`STATUS_TIMEOUT`] at most ◄──────────────────────────────────┘
//! ```
//! A worker's counts are exact at the end of its round, because only the worker writes them. Workers that share
//! packets meet there for a moment ([`meeting`]). So the packets that one worker handed over equal those that
//! others took plus those in the lanes. A worker that does not come round is left out: its last answer is its part
//! of the cut, with the answer's age. (ADR 0042)

mod answer;
mod meeting;
mod sizes;
mod standing;

use super::phases::StatusRequest;
use super::worker_setup::WorkerSetup;
use crate::args::LOST_BETWEEN;
pub use answer::{Answer, Attendant, Packets};
use meeting::{Meeting, Met};
use netmem::forward::{Meters, SteeringControl};
use netmem::pool::{Ledger, Pool};
pub use sizes::Counted;
pub use standing::Standing;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time that workers are waited for: they sleep for at most 50 ms.
const STATUS_TIMEOUT: Duration = Duration::from_millis(150);
/// The interval at which their answers are checked.
const TICK: Duration = Duration::from_micros(100);
/// Number of times that workers which share packets are asked to meet if one was late.
const MEETINGS: u32 = 8;
/// A cut that is not older than this serves everyone who asks.
const FRESH: Duration = Duration::from_millis(20);

/// Takes cuts of a run. Shared between the workers and the threads that ask.
pub struct Cuts {
    slots: Vec<Slot>,
    /// Each worker's pools: its own, and those of its ports.
    pools: Vec<Vec<Pool>>,
    steering: Option<SteeringControl>,
    /// The meeting of workers that share packets. None if they do not share any.
    meeting: Option<Meeting>,
    /// The thread that frees frames in addition to the workers, if there is one.
    beside: Option<Arc<Standing>>,
    /// Asks the workers. Set when the run begins.
    status_request: OnceLock<StatusRequest>,
    last: Mutex<Last>,
}

/// One worker.
struct Slot {
    /// The number of the last cut that it was asked for.
    asked: AtomicU64,
    answer: Mutex<Arc<Answer>>,
    meters: Arc<Meters>,
    /// The worker has ended. Its answer is the last, and stays right.
    has_ended: AtomicBool,
}

/// The last cut, and each pool's frames as they were last seen at rest.
struct Last {
    number: u64,
    cut: Option<Arc<Cut>>,
    ledgers: Vec<Option<Rest>>,
}

/// The place of a pool's frames while nothing moved, and the time of that.
pub type Rest = (Ledger, Instant);

/// The counts of all workers.
#[derive(Debug)]
pub struct Cut {
    /// The time at which it was taken.
    pub at: Instant,
    /// Each worker's last answer, and true if it answers this cut.
    pub workers: Vec<(Arc<Answer>, bool)>,
    /// The frames of each worker's pools, or None until they are seen at rest for the first time.
    pub ledgers: Vec<Option<Rest>>,
    /// True if all workers answered and all frames were seen at rest.
    pub is_whole: bool,
    /// Packets dropped between workers, by cause. Empty if workers share nothing.
    pub between: Vec<(&'static str, u64)>,
}

impl Slot {
    fn has_ended(&self) -> bool {
        // Acquire: pairs with the Release in `end`; its last answer is there.
        self.has_ended.load(Acquire)
    }

    /// Returns true if its last answer is right for the cut of that number.
    fn has_answered(&self, number: u64) -> bool {
        self.has_ended() || lock(&self.answer).number == number
    }

    /// Returns its last answer. For a worker that has ended, the answer is also the current state. If no other
    /// thread has frames of its `pools`, they are counted again. Its stalls are those until now: the watchdog counts them
    /// while the worker does not answer.
    fn last(&self, pools: Option<&[Pool]>) -> Arc<Answer> {
        let (answer, stalls) = (Arc::clone(&lock(&self.answer)), self.meters.stalls.get());
        if self.has_ended() {
            let ledgers = pools.map(ledgers);
            Arc::new(Answer { at: Instant::now(), stalls, ledgers, ..(*answer).clone() })
        } else if answer.stalls != stalls {
            Arc::new(Answer { stalls, ..(*answer).clone() })
        } else {
            answer
        }
    }
}

fn ledgers(pools: &[Pool]) -> Vec<Ledger> {
    pools.iter().map(Pool::ledger).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Cuts {
    /// Makes the cuts of a run of these workers. `beside` is the thread that frees frames in addition to them.
    pub fn new(
        setups: &[WorkerSetup],
        steering: Option<&SteeringControl>,
        beside: Option<Arc<Standing>>,
    ) -> Cuts {
        let slot = |setup: &WorkerSetup| Slot {
            asked: AtomicU64::new(0),
            answer: Mutex::new(Arc::new(Answer::first(&setup.forwarder))),
            meters: setup.forwarder.meters(),
            has_ended: AtomicBool::new(false),
        };
        let pools: Vec<Vec<Pool>> = setups.iter().map(|setup| setup.pools().cloned().collect()).collect();
        let count = pools.iter().map(Vec::len).sum();
        let idle = || setups.iter().map(|setup| setup.forwarder.idle_control()).collect();
        Cuts {
            slots: setups.iter().map(slot).collect(),
            pools,
            steering: steering.cloned(),
            meeting: steering.map(|_| Meeting::new(idle())),
            beside,
            status_request: OnceLock::new(),
            last: Mutex::new(Last { number: 0, cut: None, ledgers: vec![None; count] }),
        }
    }

    /// Records that the run begins. From now on workers can be asked.
    pub fn begin(&self, status_request: StatusRequest) {
        // The run begins only once.
        let _ = self.status_request.set(status_request);
    }

    /// Lets every worker come round, which takes a sample of its bursts and rings.
    pub fn sample(&self) {
        self.status_request.get().into_iter().for_each(StatusRequest::ask);
    }

    /// Returns the number of the last cut that worker `worker` was asked for.
    fn asked(&self, worker: usize) -> u64 {
        // Acquire: pairs with the Release in `ask`; the meeting of that number has been opened.
        self.slots[worker].asked.load(Acquire)
    }

    /// Records the answer of worker `worker` at the end of a round.
    fn answer(&self, worker: usize, mut answer: Answer) {
        let number = answer.number;
        if self.meeting.is_none() {
            answer.ledgers = Some(ledgers(&self.pools[worker]));
        }
        *lock(&self.slots[worker].answer) = Arc::new(answer);
        if let Some(meeting) = &self.meeting {
            meeting.meet(number, worker, || self.met());
        }
    }

    /// Records the end of worker `worker`, with its last answer.
    fn end(&self, worker: usize, answer: Answer) {
        *lock(&self.slots[worker].answer) = Arc::new(answer);
        // Release: pairs with the Acquire in `has_ended`.
        self.slots[worker].has_ended.store(true, Release);
        self.meeting.iter().for_each(Meeting::end);
    }

    /// Returns the frames of all pools and the packets dropped between workers, while nothing moves.
    fn met(&self) -> Met {
        Met { ledgers: self.pools.iter().flat_map(|pools| ledgers(pools)).collect(), between: self.between() }
    }

    /// Returns the packets dropped between workers so far.
    fn between(&self) -> Vec<(&'static str, u64)> {
        let drops = self.steering.iter().map(SteeringControl::drops);
        let counts =
            |drops: netmem::steer::HandOffDrops| [drops.inbox_full, drops.flow_limit, drops.inbox_gone];
        drops.flat_map(|drops| LOST_BETWEEN.into_iter().zip(counts(drops))).collect()
    }

    /// Returns a cut: a new one, or the last one if that is at most 20 ms old. It takes at most 150 ms, and little
    /// more if the machine is busy.
    pub fn take(&self) -> Arc<Cut> {
        let mut last = lock(&self.last);
        if let Some(cut) = last.cut.as_ref().filter(|cut| cut.at.elapsed() < FRESH) {
            return Arc::clone(cut);
        }
        let until = Instant::now() + STATUS_TIMEOUT;
        let stands = self.beside.as_ref().is_none_or(|beside| beside.ask(until));
        let mut met = None;
        for _ in 0..MEETINGS {
            last.number += 1;
            let all = self.ask(last.number, until);
            met = self.meeting.as_ref().filter(|_| all).and_then(|meeting| meeting.result(last.number));
            if self.slots.iter().all(Slot::has_ended) {
                met = Some(self.met());
            }
            if met.is_some() || !all || self.meeting.is_none() {
                break;
            }
        }
        let stood = self.beside.as_ref().is_none_or(|beside| beside.go_on());
        let cut = Arc::new(self.cut(&mut last, met, stands && stood));
        last.cut = Some(Arc::clone(&cut));
        cut
    }

    /// Asks all workers, and waits. Returns true if all have answered.
    fn ask(&self, number: u64, until: Instant) -> bool {
        let Some(status_request) = self.status_request.get() else { return false };
        self.meeting.iter().for_each(|meeting| meeting.open(number));
        // Release: pairs with the Acquire in `asked`.
        self.slots.iter().for_each(|slot| slot.asked.store(number, Release));
        status_request.ask();
        self.steering.iter().for_each(SteeringControl::wake);
        loop {
            let has_met = |meeting: &Meeting| meeting.is_over(number) || meeting.present() == 0;
            if self.slots.iter().all(|slot| slot.has_answered(number)) && self.meeting.iter().all(has_met) {
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            thread::sleep(TICK);
        }
    }

    /// Builds a cut from the current answers. Frames count only if no other thread moved them.
    fn cut(&self, last: &mut Last, met: Option<Met>, at_rest: bool) -> Cut {
        let fresh: Vec<_> = self.slots.iter().map(|slot| slot.has_answered(last.number)).collect();
        let alone = |pools| Some(pools).filter(|_| self.meeting.is_none());
        let workers: Vec<_> =
            self.slots.iter().zip(&self.pools).map(|(slot, pools)| slot.last(alone(&pools[..]))).collect();
        let between = met.as_ref().map_or_else(|| self.between(), |met| met.between.clone());
        let now = Instant::now();
        let seen: Vec<Option<Rest>> = match met {
            Some(met) => met.ledgers.into_iter().map(|ledger| Some((ledger, now))).collect(),
            None => {
                workers.iter().zip(&self.pools).flat_map(|(answer, pools)| answer.rest(pools.len())).collect()
            }
        };
        if at_rest {
            for (known, seen) in last.ledgers.iter_mut().zip(seen) {
                *known = seen.or_else(|| known.take());
            }
        }
        let all_seen =
            |known: &Option<Rest>| known.as_ref().is_some_and(|(_, seen)| now - *seen < STATUS_TIMEOUT);
        Cut {
            at: now,
            is_whole: at_rest && fresh.iter().all(|&fresh| fresh) && last.ledgers.iter().all(all_seen),
            workers: workers.into_iter().zip(fresh).collect(),
            ledgers: last.ledgers.clone(),
            between,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forward::forwarding::{forward, retire_on_drop};
    use crate::forward::live::tests::dataplane;
    use crate::forward::phases::Phases;

    /// Seen: the log had reported a stall, and a scrape had none until the worker went on.
    #[test]
    fn the_stall_of_a_worker_that_does_not_answer_is_in_the_cut() {
        let setups = dataplane().setups;
        let cuts = Cuts::new(&setups, None, None);
        setups[1].forwarder.meters().note_stall();
        let stalls: Vec<_> = cuts.take().workers.iter().map(|(answer, _)| answer.stalls).collect();
        assert_eq!(stalls, [0, 1]);
    }

    /// Seen: a scrape while the run drained, and after it, reported every worker as stale.
    #[test]
    fn a_worker_that_has_ended_is_not_stale_and_keeps_no_cut_from_being_whole() {
        let mut setups = dataplane().setups;
        let (cuts, phases) = (Arc::new(Cuts::new(&setups, None, None)), Phases::new(setups.len(), true));
        cuts.begin(phases.status_request());
        phases.stop_forwarding();
        thread::scope(|scope| {
            for (number, setup) in setups.iter_mut().enumerate() {
                let (cuts, phases) = (Arc::clone(&cuts), &phases);
                scope.spawn(move || {
                    let mut attendant = Attendant::new(cuts, number, 2);
                    let at = (phases, Some(&mut attendant));
                    let retires = retire_on_drop(number, phases);
                    forward(&mut setup.forwarder, &mut setup.owner.worker, number, at, retires);
                });
            }
        });
        let cut = cuts.take();
        assert!(cut.is_whole, "{cut:?}");
        assert!(cut.workers.iter().all(|(answer, fresh)| *fresh && answer.ledgers.is_some()), "{cut:?}");
    }
}
