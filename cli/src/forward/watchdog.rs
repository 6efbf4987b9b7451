//! The watchdog: reports workers that have not come round for too long, and the call in which they are. COLD.
//!
//! The status of workers is requested anyway ([`Phases::request_status`]). A worker that does not do
//! so in time has not come round. Only time that this thread has observed counts. If this thread was late itself,
//! because the machine stood still or another thread had the core, the remaining time does not count: the worker
//! may have stood still too.

use super::phases::Phases;
use super::worker_setup::WorkerSetup;
use crate::stopwatch::Stopwatch;
use netmem::forward::{Call, Meters};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The maximum time that a worker which is to end may stay in one place.
const END: Duration = Duration::from_secs(10);

/// Watches the workers of a run.
pub struct Watchdog {
    /// The time for a worker to come round, or None without a watchdog.
    patience: Option<Duration>,
    workers: Vec<Watched>,
    stopwatch: Stopwatch,
}

/// One worker.
struct Watched {
    meters: Arc<Meters>,
    ports: Vec<String>,
    /// The time since it was asked and did not answer, as far as that time counts.
    waited: Duration,
    /// The stall was reported.
    said: bool,
    /// The place of the worker at the last check, and the time that it has been there, as far as that time counts.
    last: Option<(usize, Call)>,
    stood: Duration,
}

impl Watchdog {
    /// Makes a watchdog that gives each worker this time.
    pub fn new(setups: &[WorkerSetup], patience: Option<Duration>) -> Watchdog {
        let workers = setups.iter().map(|setup| Watched {
            meters: setup.forwarder.meters(),
            ports: setup.forwarder.ports().map(|port| port.name().to_owned()).collect(),
            waited: Duration::ZERO,
            said: false,
            last: None,
            stood: Duration::ZERO,
        });
        Watchdog { patience, workers: workers.collect(), stopwatch: Stopwatch::start() }
    }

    /// Checks whether each worker has come round since it was asked to. Returns a line for each that has not for
    /// too long, and one when it has again. Call it often.
    pub fn look(&mut self, phases: &Phases) -> Vec<String> {
        self.look_at(Instant::now(), |worker| phases.is_status_requested(worker))
    }

    /// Returns true if a worker has not come round for this long, whether that is reported or not.
    pub fn has_stalled(&self, patience: Duration) -> bool {
        self.workers.iter().any(|worker| worker.waited >= patience)
    }

    fn look_at(&mut self, now: Instant, is_asked: impl Fn(usize) -> bool) -> Vec<String> {
        let passed = self.stopwatch.look_at(now);
        let patience = self.patience.unwrap_or(Duration::MAX);
        let each = self.workers.iter_mut().enumerate();
        each.filter_map(|(number, worker)| worker.look(number, is_asked(number), passed, patience)).collect()
    }

    /// Checks whether workers that are to end still move. Returns a line for each that has not ended and stayed in
    /// one place for [`END`]. Such a worker is not waited for any longer. Call it often.
    pub fn stuck(&mut self, has_ended: impl Fn(usize) -> bool) -> Vec<String> {
        self.stuck_at(Instant::now(), has_ended)
    }

    fn stuck_at(&mut self, now: Instant, has_ended: impl Fn(usize) -> bool) -> Vec<String> {
        let passed = self.stopwatch.look_at(now);
        let each = self.workers.iter_mut().enumerate();
        let running = each.filter(|(number, _)| !has_ended(*number));
        running.filter_map(|(number, worker)| worker.stuck(number, passed)).collect()
    }
}

impl Watched {
    fn look(&mut self, number: usize, asked: bool, passed: Duration, patience: Duration) -> Option<String> {
        if asked {
            self.waited += passed;
            if self.said || self.waited < patience {
                return None;
            }
            self.said = true;
            self.meters.note_stall();
            let (seconds, at) = (patience.as_secs_f64(), self.position());
            return Some(format!("worker {number} has not finished a round for {seconds} s: it is in {at}"));
        }
        let waited = std::mem::take(&mut self.waited);
        let again = std::mem::take(&mut self.said);
        again.then(|| format!("worker {number} goes on, after {:.1} s", waited.as_secs_f64()))
    }

    fn stuck(&mut self, number: usize, passed: Duration) -> Option<String> {
        let position = self.meters.position.get();
        if std::mem::replace(&mut self.last, position) != position {
            self.stood = Duration::ZERO;
        }
        self.stood += passed;
        let line = || format!("worker {number} does not end: it is in {}", self.position());
        (self.stood >= END).then(line)
    }

    fn position(&self) -> String {
        match self.meters.position.get() {
            None => "its first round".to_owned(),
            Some((_, Call::Rest)) => "its rest".to_owned(),
            Some((port, call)) => {
                let name = self.ports.get(port).map_or("?", String::as_str);
                format!("{} of port {name}, or the code after it", call.name())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stopwatch::LATE;

    const PATIENCE: Duration = Duration::from_secs(3);
    const TICK: Duration = Duration::from_millis(20);

    fn watchdog(patience: Option<Duration>) -> Watchdog {
        let worker = || Watched {
            meters: Arc::default(),
            ports: vec!["packet:a".to_owned(), "tap:b".to_owned()],
            waited: Duration::ZERO,
            said: false,
            last: None,
            stood: Duration::ZERO,
        };
        Watchdog { patience, workers: vec![worker(), worker()], stopwatch: Stopwatch::start() }
    }

    /// Makes this many checks at this interval. Returns all lines.
    fn looks(
        watchdog: &mut Watchdog,
        times: u32,
        apart: Duration,
        is_asked: fn(usize) -> bool,
    ) -> Vec<String> {
        let mut now = watchdog.stopwatch.looked;
        let mut look = || {
            now += apart;
            watchdog.look_at(now, is_asked)
        };
        (0..times).flat_map(|_| look()).collect()
    }

    #[test]
    fn a_worker_that_does_not_come_round_is_said_and_counted_once_and_when_it_does_again() {
        let mut watchdog = watchdog(Some(PATIENCE));
        assert_eq!(looks(&mut watchdog, 149, TICK, |worker| worker == 1), [""; 0]);
        let line = "worker 1 has not finished a round for 3 s: it is in its first round";
        assert_eq!(looks(&mut watchdog, 500, TICK, |worker| worker == 1), [line]);
        let counts = |of: &Watchdog| of.workers.iter().map(|one| one.meters.stalls.get()).collect::<Vec<_>>();
        assert_eq!(counts(&watchdog), [0, 1]);
        assert_eq!(looks(&mut watchdog, 2, TICK, |_| false), ["worker 1 goes on, after 13.0 s"]);
        assert_eq!(looks(&mut watchdog, 150, TICK, |worker| worker == 1), [line]);
        assert_eq!(counts(&watchdog), [0, 2]);
    }

    #[test]
    fn a_machine_that_stands_still_is_no_worker_that_does() {
        let mut watchdog = watchdog(Some(PATIENCE));
        // Half a minute of the clock, which counts for less than the patience.
        assert_eq!(looks(&mut watchdog, 29, Duration::from_secs(1), |_| true), [""; 0]);
        assert_eq!(looks(&mut watchdog, 1, Duration::from_secs(1), |_| true).len(), 2);
    }

    #[test]
    fn a_worker_that_stands_in_one_place_at_the_end_is_given_up_and_one_that_moves_is_not() {
        let mut watchdog = watchdog(None);
        let now = watchdog.stopwatch.looked;
        let mut stuck = |n: u32| watchdog.stuck_at(now + n * LATE, |worker| worker == 1);
        assert!((1..100).all(|n| stuck(n).is_empty()));
        assert_eq!(stuck(100), ["worker 0 does not end: it is in its first round"]);
    }

    #[test]
    fn a_watchdog_that_is_switched_off_reports_nothing() {
        let mut watchdog = watchdog(None);
        assert_eq!(looks(&mut watchdog, 1000, TICK, |_| true), [""; 0]);
    }

    /// Seen: with `watchdog = 0` systemd got signs of life from a run whose workers all hung, and with 600 for ten minutes.
    #[test]
    fn a_worker_that_hangs_is_no_sign_of_life_however_long_its_report_takes() {
        for reported in [None, Some(200 * PATIENCE)] {
            let mut watchdog = watchdog(reported);
            assert_eq!(looks(&mut watchdog, 149, TICK, |worker| worker == 1), [""; 0]);
            assert!(!watchdog.has_stalled(PATIENCE));
            assert_eq!(looks(&mut watchdog, 1, TICK, |worker| worker == 1), [""; 0]);
            assert!(watchdog.has_stalled(PATIENCE));
            assert_eq!(looks(&mut watchdog, 1, TICK, |_| false), [""; 0]);
            assert!(!watchdog.has_stalled(PATIENCE), "it has come round");
        }
    }
}
