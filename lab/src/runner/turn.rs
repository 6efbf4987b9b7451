//! One experiment of a run: set up anew for each of its turns, until its ratios are decided.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use netmem::sys::cpu;

use super::Progress;
use crate::bench::{Bench, SetUpError};
use crate::experiments::Experiment;
use crate::history::History;
use crate::json::{Check, Report, SCHEMA};
use crate::method::clock::Tsc;
use crate::method::layout::Shift;
use crate::method::machine::Machine;
use crate::method::pauses::Gaps;
use crate::settings::Settings;

/// An experiment that is run in turns.
pub(super) struct Turns<'a> {
    pub(super) experiment: &'static Experiment,
    settings: &'a Settings,
    quick: bool,
    history: History,
    /// Of all turns so far; `None` before the first.
    pub(super) report: Option<Report>,
    /// Whether no turn is to come.
    pub(super) over: bool,
}

impl<'a> Turns<'a> {
    pub(super) fn new(experiment: &'static Experiment, settings: &'a Settings, quick: bool) -> Self {
        Self { experiment, settings, quick, history: History::default(), report: None, over: false }
    }

    /// Set-ups that there are at least.
    pub(super) fn least(&self) -> usize {
        self.settings.get("setups").max(1) as usize
    }

    /// Set-ups that there are at most: as many times more as there may be more rounds.
    pub(super) fn most(&self) -> usize {
        let [rounds, rounds_max] = ["rounds", "rounds-max"].map(|key| self.settings.get(key).max(1));
        self.least() * (rounds_max / rounds).max(1) as usize
    }

    /// Seconds that a turn takes, by the experiment's own word.
    pub(super) fn seconds(&self) -> f64 {
        f64::from(self.experiment.seconds) * self.settings.share_of_full("rounds") / self.least() as f64
    }

    /// Turns still to come if nothing stays undecided.
    pub(super) fn expected(&self) -> usize {
        if self.over { 0 } else { self.least().saturating_sub(self.history.setups).max(1) }
    }

    /// Runs one turn on a thread of its own, so that its pinning ends with it. A turn that `stop` cuts short is lost,
    /// if there is one before it.
    pub(super) fn run(&mut self, stop: &AtomicBool, progress: &mut (dyn FnMut(Progress<'_>) + Send)) {
        let history = std::mem::take(&mut self.history);
        let earlier = self.report.take();
        let this = &*self;
        let measured = thread::scope(|scope| scope.spawn(|| this.measure(history, stop, progress)).join());
        let (mut report, history, failed) = measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let setups = history.setups;
        let open = report.ratios.iter().any(|ratio| ratio.undecided);
        self.over = failed || if open { setups >= self.most() } else { setups >= self.least() };
        // Relaxed: the flag is a wish and carries no data.
        if let (true, Some(mut earlier)) = (stop.load(Ordering::Relaxed), earlier) {
            earlier.notes.push(format!("stopped: the rows are of {} set-ups", setups - 1));
            report = earlier;
        }
        self.history = history;
        self.report = Some(report);
    }

    /// The report of all turns with this one, and whether it could not be set up.
    fn measure(
        &self,
        mut history: History,
        stop: &AtomicBool,
        progress: &mut (dyn FnMut(Progress<'_>) + Send),
    ) -> (Report, History, bool) {
        let Self { experiment, settings, quick, .. } = *self;
        let cores = cpu::allowed().unwrap_or_default();
        let pinned = cores.first().map(|&core| cpu::pin(core));
        let clock = Tsc::new();
        let watched = settings.get("watch") as f64 * 1e6 / self.least() as f64;
        if history.setups < self.least() {
            history.before.add(Gaps::watch(&clock, watched));
        }
        let _elsewhere = Shift::new(settings.get("seed").wrapping_add(history.setups as u64));
        let report = empty(experiment, quick, Machine::read(&clock, cores.len()));
        let mut rounds = |done, of| progress(Progress::Round { experiment, done, of });
        let mut bench = Bench::new(report, history, cores, settings, stop, &mut rounds);
        match pinned {
            Some(Ok(())) => {}
            Some(Err(error)) => bench.note(format!("not pinned to a core: {error}")),
            None => bench.note("not pinned to a core: the system does not tell which ones there are"),
        }
        let result = (experiment.run)(&mut bench);
        let (mut report, history) = bench.into_report();
        let failed = result.is_err();
        if let Err(SetUpError { step, cause }) = result {
            report.checks.push(Check { name: format!("set-up: {step}"), ok: false, detail: cause });
        }
        (report, history, failed)
    }
}

fn empty(experiment: &Experiment, quick: bool, machine: Machine) -> Report {
    Report {
        schema: SCHEMA,
        experiment: experiment.name.to_owned(),
        source: experiment.source.to_owned(),
        quick,
        machine,
        pauses: None,
        counters: None,
        rows: Vec::new(),
        ratios: Vec::new(),
        checks: Vec::new(),
        notes: Vec::new(),
    }
}
