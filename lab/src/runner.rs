//! Experiments by name, one after the other, and the JSON file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use netmem::sys::cpu;

use crate::bench::{Bench, SetUpError};
use crate::error::LabError;
use crate::experiments::{EXPERIMENTS, Experiment};
use crate::json::{Check, Report, SCHEMA};
use crate::method::clock::Tsc;
use crate::method::machine::Machine;
use crate::method::pauses::Gaps;
use crate::output::Output;
use crate::settings::{METHOD_KEYS, Settings};

/// How to run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The same rows with fewer rounds: about 10 s of unpaused time per experiment.
    pub quick: bool,
    /// Where to write the reports; nowhere if `None`.
    pub json: Option<PathBuf>,
    /// Keys and values, as [`settings::split`](crate::settings::split) gives them.
    pub set: Vec<(String, String)>,
}

/// What the runner is doing, for a line on the terminal.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// An experiment starts.
    Begin {
        /// Which.
        experiment: &'static Experiment,
    },
    /// A round is finished.
    Round {
        /// Of which experiment.
        experiment: &'static Experiment,
        /// Rounds finished.
        done: usize,
        /// Rounds that there may be at most; a run that is decided ends before.
        most: usize,
    },
    /// An experiment has ended.
    End(&'a Report),
}

/// Every experiment, in the order of the registry.
pub fn list() -> &'static [Experiment] {
    EXPERIMENTS
}

/// The list for a terminal: name, rough seconds, source, question, keys.
pub fn list_text() -> String {
    let mut text = String::new();
    for Experiment { name, source, question, seconds, keys, .. } in EXPERIMENTS {
        text += &format!("{name}  (about {seconds} s; source {source})\n  {question}\n");
        for key in *keys {
            text +=
                &format!("  --set {}={}  {} ({} to {})\n", key.name, key.full, key.what, key.min, key.max);
        }
    }
    text += "every experiment:\n";
    for key in METHOD_KEYS {
        text += &format!("  --set {}={}  {}\n", key.name, key.full, key.what);
    }
    text
}

/// The list as a JSON array of `{"name", "source", "question", "seconds", "keys"}`.
pub fn list_json() -> serde_json::Value {
    let entry = |e: &Experiment| {
        let keys: Vec<&str> = METHOD_KEYS.iter().chain(e.keys).map(|key| key.name).collect();
        serde_json::json!({
            "name": e.name, "source": e.source, "question": e.question, "seconds": e.seconds, "keys": keys,
        })
    };
    EXPERIMENTS.iter().map(entry).collect()
}

/// Runs the experiments `names` (or `all`), each on a thread of its own that is pinned to a core.
///
/// When `stop` is raised, the experiment at hand keeps the rounds it has finished and the rest is not begun. One
/// name gives one object in the JSON file, several or `all` an array.
///
/// # Errors
/// Before anything is measured: a name, key or value that is not valid, or a JSON file that cannot be opened for
/// writing. After: a JSON file that could not be written. An experiment that cannot be set up, or whose check
/// fails, is not an error here: its report says so ([`Report::ok`]).
pub fn run(
    names: &[String],
    options: &Options,
    stop: &AtomicBool,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Vec<Report>, LabError> {
    let chosen = choose(names)?;
    check_keys(&chosen, &options.set)?;
    let settings = chosen.iter().map(|e| Settings::new(e.keys, options.quick, &options.set));
    let settings: Vec<Settings> = settings.collect::<Result<_, _>>()?;
    let output = options.json.as_deref().map(Output::open).transpose()?;

    let mut reports: Vec<Report> = Vec::new();
    for (&experiment, settings) in chosen.iter().zip(&settings) {
        // Relaxed: the flag is a wish and carries no data.
        if !reports.is_empty() && stop.load(Ordering::Relaxed) {
            break;
        }
        progress(Progress::Begin { experiment });
        let report = run_one(experiment, settings, options.quick, stop, progress);
        progress(Progress::End(&report));
        reports.push(report);
    }
    match (output, names, &reports[..]) {
        (None, ..) => {}
        (Some(output), [name], [report]) if name != "all" => output.write(report)?,
        (Some(output), ..) => output.write(&reports)?,
    }
    Ok(reports)
}

/// The experiments of `names`, each once, in the order given.
fn choose(names: &[String]) -> Result<Vec<&'static Experiment>, LabError> {
    let unknown = |name: &str| LabError::UnknownExperiment {
        name: name.to_owned(),
        valid: EXPERIMENTS.iter().map(|e| e.name).collect(),
    };
    let mut chosen: Vec<&'static Experiment> = Vec::new();
    for name in names {
        let mut known = false;
        for experiment in EXPERIMENTS.iter().filter(|e| name == "all" || name == e.name) {
            known = true;
            if chosen.iter().all(|e| e.name != experiment.name) {
                chosen.push(experiment);
            }
        }
        if !known {
            return Err(unknown(name));
        }
    }
    if chosen.is_empty() { Err(unknown("")) } else { Ok(chosen) }
}

/// Every key must be known to at least one of the experiments.
fn check_keys(chosen: &[&Experiment], set: &[(String, String)]) -> Result<(), LabError> {
    let mut valid: Vec<&'static str> = METHOD_KEYS.iter().map(|key| key.name).collect();
    for key in chosen.iter().flat_map(|e| e.keys) {
        if !valid.contains(&key.name) {
            valid.push(key.name);
        }
    }
    match set.iter().find(|(key, _)| !valid.contains(&key.as_str())) {
        Some((key, _)) => Err(LabError::UnknownKey { key: key.clone(), valid }),
        None => Ok(()),
    }
}

/// Runs one experiment on its own thread, so that its pinning ends with it.
fn run_one(
    experiment: &'static Experiment,
    settings: &Settings,
    quick: bool,
    stop: &AtomicBool,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Report {
    let measured = thread::scope(|scope| {
        let measuring = || measure(experiment, settings, quick, stop, progress);
        scope.spawn(measuring).join()
    });
    measured.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn measure(
    experiment: &'static Experiment,
    settings: &Settings,
    quick: bool,
    stop: &AtomicBool,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Report {
    let cores = cpu::allowed().unwrap_or_default();
    let pinned = cores.first().map(|&core| cpu::pin(core));
    let clock = Tsc::new();
    let before = Gaps::watch(&clock, settings.get("watch") as f64 * 1e6);
    let report = Report {
        schema: SCHEMA,
        experiment: experiment.name.to_owned(),
        source: experiment.source.to_owned(),
        quick,
        machine: Machine::read(&clock, cores.len()),
        pauses: None,
        counters: None,
        rows: Vec::new(),
        ratios: Vec::new(),
        checks: Vec::new(),
        notes: Vec::new(),
    };
    let mut rounds = |done, most| progress(Progress::Round { experiment, done, most });
    let mut bench = Bench::new(report, cores, settings, stop, &mut rounds);
    match pinned {
        Some(Ok(())) => {}
        Some(Err(error)) => bench.note(format!("not pinned to a core: {error}")),
        None => bench.note("not pinned to a core: the system does not tell which ones there are"),
    }
    let result = (experiment.run)(&mut bench);
    let mut report = bench.into_report(&before);
    if let Err(SetUpError { step, cause }) = result {
        report.checks.push(Check { name: format!("set-up: {step}"), ok: false, detail: cause });
    }
    report
}

#[cfg(test)]
mod tests;
