//! One experiment of a run: set up again for each of its turns, until its ratios are decided.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::SystemTime;

use netmem::system::cpu;
use serde::{Deserialize, Serialize};

use super::process::{self, Order};
use super::{Options, Progress};
use crate::bench::{Bench, SetUpError};
use crate::experiments::Experiment;
use crate::history::{History, is_asked};
use crate::json::{Check, Report, SCHEMA};
use crate::method::clock::Tsc;
use crate::method::layout::Shift;
use crate::method::machine::Machine;
use crate::method::pauses::Gaps;
use crate::remaining::Remaining;
use crate::settings::{METHOD_KEYS, Settings};
use crate::{program, rivals};

/// An experiment that is run in turns.
pub(super) struct Turns<'a> {
    pub(super) experiment: &'static Experiment,
    settings: &'a Settings,
    options: &'a Options,
    history: History,
    /// Of all turns so far, or `None` before the first.
    pub(super) report: Option<Report>,
    /// True if no turn is left.
    pub(super) over: bool,
    /// Seconds of the longest turn so far.
    pub(super) slowest: f64,
}

/// The result of a turn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Taken {
    /// Of all turns including this one.
    pub(super) report: Report,
    pub(super) history: History,
    /// True if it could not be set up.
    pub(super) failed: bool,
}

impl<'a> Turns<'a> {
    pub(super) fn new(experiment: &'static Experiment, settings: &'a Settings, options: &'a Options) -> Self {
        let (history, report) = (History::default(), None);
        Self { experiment, settings, options, history, report, over: false, slowest: 0.0 }
    }

    /// Returns the keys of `--set` that this experiment has. Of a key that is given twice, the last counts.
    pub(super) fn set(&self) -> BTreeMap<String, String> {
        let is_known = |(name, _): &&(String, String)| {
            METHOD_KEYS.iter().chain(self.experiment.keys).any(|key| key.name == name)
        };
        self.options.set.iter().filter(is_known).cloned().collect()
    }

    /// Returns the minimum number of set-ups.
    pub(super) fn least(&self) -> usize {
        least(self.settings)
    }

    /// Returns the maximum number of set-ups: as many as the rounds allow, each with as many rounds as one of the
    /// minimum has.
    pub(super) fn most(&self) -> usize {
        let [rounds, rounds_max] = ["rounds", "rounds-max"].map(|key| self.settings.get(key) as usize);
        self.least().max(rounds_max / rounds.div_ceil(self.least()).max(1))
    }

    /// Returns the seconds of a turn, by the experiment's own estimate.
    pub(super) fn seconds(&self) -> f64 {
        f64::from(self.experiment.seconds) * self.settings.share_of_full("rounds") / self.least() as f64
    }

    /// Returns the expected seconds of the next turn, from the turns before it, or from its own estimate and the
    /// accuracy of others' estimates.
    pub(super) fn will_take(&self, remaining: &Remaining) -> f64 {
        if self.slowest > 0.0 { self.slowest } else { self.seconds() * remaining.pace() }
    }

    /// Returns half the width of the widest interval of an undecided ratio, as a share of its median.
    pub(super) fn widest(&self) -> f64 {
        let open = self.report.iter().flat_map(|report| &report.ratios).filter(|ratio| ratio.undecided);
        open.map(|ratio| (ratio.high - ratio.low) / 2.0 / ratio.median).fold(0.0, f64::max)
    }

    /// Records that no turn is left, because the run's time is used up.
    pub(super) fn spend(&mut self) {
        self.over = true;
        let setups = self.history.setups;
        if let Some(report) = &mut self.report {
            report.notes.push(format!("the time of the run was spent: the rows are of {setups} set-ups"));
        }
    }

    /// Returns the number of turns left if every ratio is decided by then.
    pub(super) fn expected(&self) -> usize {
        if self.over { 0 } else { self.least().saturating_sub(self.history.setups).max(1) }
    }

    /// Runs one turn. A turn that `stop` cuts short is discarded, unless it is the first.
    pub(super) fn run(&mut self, stop: &AtomicBool, progress: &mut (dyn FnMut(Progress<'_>) + Send)) {
        let earlier = self.report.take();
        let experiment = self.experiment;
        let mut rounds = |done, of| progress(Progress::Round { experiment, done, of });
        let history = std::mem::take(&mut self.history);
        let failed_before = history.failed().len();
        let Taken { mut report, history, failed } = match &self.options.turns_by {
            Some(program) if !self.is_counted() => {
                let order = self.order(history);
                let taken = process::take_elsewhere(program, &order, stop, &mut rounds);
                taken.unwrap_or_else(|cause| self.died(cause, order.history))
            }
            _ => self.take_here(history, stop, &mut rounds),
        };
        let setups = history.setups;
        let open = report.ratios.iter().any(|ratio| ratio.undecided);
        self.over = failed || setups >= self.most() || !open && is_asked(setups, self.least());
        // Relaxed: the flag is a request and carries no data.
        match (earlier, stop.load(Ordering::Relaxed)) {
            (Some(earlier), _) if failed => {
                let own = history.failed().get(failed_before..).unwrap_or_default();
                report = but_failed(earlier, report, own);
            }
            (Some(mut earlier), true) => {
                earlier.notes.push(format!("stopped: the rows are of {} set-ups", setups - 1));
                report = earlier;
            }
            _ => {}
        }
        // Relaxed, as above.
        report.interrupted = stop.load(Ordering::Relaxed);
        (report.set, report.rivals) = (self.set(), Some(rivals::BUILT));
        (report.version, report.program) = (Some(env!("CARGO_PKG_VERSION").to_owned()), program::hash());
        report.time = Some(humantime::format_rfc3339_seconds(SystemTime::now()).to_string());
        self.history = history;
        self.report = Some(report);
    }

    /// Takes a turn on a thread of its own, so that its pinning ends with it.
    fn take_here(
        &self,
        history: History,
        stop: &AtomicBool,
        rounds: &mut (dyn FnMut(usize, usize) + Send),
    ) -> Taken {
        let what = (self.experiment, self.settings, self.options.quick);
        let taken = thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, || take(what, history, stop, rounds));
            thread.map(|thread| thread.join())
        });
        match taken {
            Ok(taken) => taken.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(error) => {
                let cause = format!("no thread for the set-up: {error}: see `ulimit -u` and pids.max");
                self.died(cause, History::default())
            }
        }
    }

    /// Returns the turn as an order for another process.
    fn order(&self, history: History) -> Order {
        let Options { quick, set, .. } = self.options;
        Order { experiment: self.experiment.name.to_owned(), quick: *quick, set: set.clone(), history }
    }

    /// Returns the result of a turn whose process died.
    fn died(&self, cause: String, history: History) -> Taken {
        let machine = Machine::read(&Tsc::new(), cpu::allowed().unwrap_or_default().len());
        let mut report = empty(self.experiment, self.options.quick, machine);
        report.checks.push(Check::of_set_up("a process", cause));
        Taken { report, history, failed: true }
    }

    /// Returns true if a simulator counts here: the loop of one variant, in the process that the simulator watches.
    fn is_counted(&self) -> bool {
        self.options.set.iter().any(|(key, _)| key == "body")
    }
}

/// Returns the report of the turns before one that `failed`. What that turn measured is not complete, so only its failed
/// checks are added: those of its set-up, and its `own`.
fn but_failed(mut earlier: Report, failed: Report, own: &[Check]) -> Report {
    earlier.checks.extend(own.iter().cloned());
    earlier.checks.extend(failed.checks.into_iter().filter(Check::is_of_set_up));
    earlier
}

/// Returns the minimum number of set-ups.
fn least(settings: &Settings) -> usize {
    settings.get("setups").max(1) as usize
}

/// Takes one turn on this thread, and pins the thread.
pub(super) fn take(
    (experiment, settings, quick): (&'static Experiment, &Settings, bool),
    mut history: History,
    stop: &AtomicBool,
    rounds: &mut dyn FnMut(usize, usize),
) -> Taken {
    let cores = cpu::allowed().unwrap_or_default();
    let pinned = cores.first().map(|&core| cpu::pin(core));
    let clock = Tsc::new();
    let watched = settings.get("watch") as f64 * 1e6 / least(settings) as f64;
    if history.setups < least(settings) {
        history.before.add(Gaps::watch(&clock, watched));
    }
    let _elsewhere = Shift::new(settings.get("seed").wrapping_add(history.setups as u64));
    let report = empty(experiment, quick, Machine::read(&clock, cores.len()));
    let mut bench = Bench::new(report, history, cores, settings, stop, rounds);
    match pinned {
        Some(Ok(())) => {}
        Some(Err(error)) => bench.note(format!("not pinned to a core: {error}")),
        None => bench.note("not pinned to a core: the system does not tell which ones there are"),
    }
    let result = (experiment.run)(&mut bench);
    let (mut report, history) = bench.into_report();
    let failed = result.is_err();
    if let Err(SetUpError { step, cause }) = result {
        report.checks.push(Check::of_set_up(step, cause));
    }
    Taken { report, history, failed }
}

fn empty(experiment: &Experiment, quick: bool, machine: Machine) -> Report {
    Report {
        schema: SCHEMA,
        version: None,
        program: None,
        time: None,
        experiment: experiment.name.to_owned(),
        source: experiment.source.to_owned(),
        quick,
        set: BTreeMap::new(),
        rivals: None,
        interrupted: false,
        machine,
        pauses: None,
        counters: None,
        rows: Vec::new(),
        ratios: Vec::new(),
        checks: Vec::new(),
        notes: Vec::new(),
    }
}
