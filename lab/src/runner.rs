//! Runs experiments by name, in turns, and writes the JSON file.

mod budget;
mod process;
mod resume;
mod turn;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::LabError;
use crate::experiments::{EXPERIMENTS, Experiment};
use crate::json::Report;
use crate::output::Output;
use crate::remaining::Remaining;
use crate::settings::{METHOD_KEYS, Settings};
use crate::sources::citation;
use budget::Budget;
pub use process::take_turn;
use turn::Turns;

/// The options of a run.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The same rows with fewer rounds: about 10 s of unpaused time per experiment.
    pub quick: bool,
    /// The path of the JSON file, or `None` for no file.
    pub json: Option<PathBuf>,
    /// Keys and values, as [`settings::split`](crate::settings::split) gives them.
    pub set: Vec<(String, String)>,
    /// The program whose `lab turn` takes each turn in a process of its own ([`take_turn`]). With `None`, turns run
    /// on threads of this process, and the intervals do not include the differences between processes.
    pub turns_by: Option<PathBuf>,
    /// The time limit of the run. Until it is reached, the least decided experiments get turns. `None`: as many
    /// turns as needed.
    pub budget: Option<Duration>,
    /// Runs one experiment after the other and writes the JSON file after each. Experiments that the file has are
    /// not run again.
    pub resume: bool,
}

/// The state of the runner, for a line on the terminal.
#[derive(Debug, Clone, Copy)]
pub enum Progress<'a> {
    /// An experiment is being set up, for the first time or again.
    Begin {
        /// The experiment.
        experiment: &'static Experiment,
        /// The number of the set-up, from 1.
        setup: usize,
        /// Maximum number of set-ups. A decided run ends earlier.
        most: usize,
        /// The remaining time of the run.
        remaining: Remaining,
        /// The rest of its time limit, if it has one.
        left: Option<Duration>,
    },
    /// A round is finished.
    Round {
        /// The experiment.
        experiment: &'static Experiment,
        /// Finished rounds of the current group.
        done: usize,
        /// Rounds of the group in this set-up.
        of: usize,
    },
    /// An experiment has ended.
    End(&'a Report),
}

/// Returns every experiment, in the order of the registry.
pub fn list() -> &'static [Experiment] {
    EXPERIMENTS
}

/// Returns the list for a terminal: name, rough seconds, source, question, keys.
pub fn list_text() -> String {
    let mut text = String::new();
    for Experiment { name, source, question, seconds, keys, .. } in EXPERIMENTS {
        text += &format!("{name}  (about {seconds} s; source: {})\n  {question}\n", citation(source));
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

/// Returns the list as a JSON array of `{"name", "source", "question", "seconds", "keys"}`.
pub fn list_json() -> serde_json::Value {
    let entry = |e: &Experiment| {
        let keys: Vec<&str> = METHOD_KEYS.iter().chain(e.keys).map(|key| key.name).collect();
        serde_json::json!({
            "name": e.name, "source": e.source, "question": e.question, "seconds": e.seconds, "keys": keys,
        })
    };
    EXPERIMENTS.iter().map(entry).collect()
}

/// Runs the experiments `names` (or `all`), pinned to a core.
///
/// All of them take turns, and each is set up again for each turn. With [`Options::turns_by`], each turn has a
/// process of its own. So the intervals include the differences between set-ups, and the changes of the machine
/// over minutes. Experiments with an undecided ratio get more turns.
///
/// When `stop` is set, the current turn keeps its finished rounds if it is the experiment's first, and no other
/// turn begins. Experiments with missing turns are marked ([`Report::interrupted`]). One name gives one object in
/// the JSON file, several or `all` an array. A run that was ended before it had a row leaves what the file holds.
///
/// # Errors
/// Before any measurement: an invalid name, key or value, or a JSON file that cannot be opened for writing. After:
/// a JSON file that could not be written. An experiment that cannot be set up, or whose check fails, is not an
/// error here: its report records it ([`Report::ok`]).
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
    let turns = chosen.iter().zip(&settings);
    let turns = turns.map(|(experiment, settings)| Turns::new(experiment, settings, options)).collect();
    if let (true, Some(path)) = (options.resume, &options.json) {
        return resume::run(turns, (path, options), stop, progress);
    }
    let output = options.json.as_deref().map(Output::open).transpose()?;
    let reports = take_turns(turns, options.budget, stop, progress);
    match (output, names, &reports[..]) {
        (None, ..) => {}
        (Some(output), ..) if ended_without_rows(&reports) && output.has_contents() => {}
        (Some(output), [name], [report]) if name != "all" => output.write(report)?,
        (Some(output), ..) => output.write(&reports)?,
    }
    Ok(reports)
}

/// Returns the shortest time limit with which each of these experiments is expected to begin: the estimates of the first
/// set-ups, with the margin that a turn gets.
///
/// # Errors
/// Those of [`run`], for names, keys and values.
pub fn least_budget(names: &[String], options: &Options) -> Result<Duration, LabError> {
    let mut seconds = 0.0;
    for experiment in choose(names)? {
        let settings = Settings::new(experiment.keys, options.quick, &options.set)?;
        seconds += Turns::new(experiment, &settings, options).seconds();
    }
    // A moment passes before the first turn.
    Ok(Duration::from_secs(1 + (budget::MARGIN * seconds).ceil() as u64))
}

/// Returns true for a run that was ended before it had a row. What its file holds of an earlier run is worth more.
fn ended_without_rows(reports: &[Report]) -> bool {
    reports.iter().all(|report| report.interrupted && report.rows.is_empty())
}

/// Takes one turn of each repeatedly, until all are finished. Returns the reports of those that were begun.
fn take_turns(
    mut all: Vec<Turns<'_>>,
    budget: Option<Duration>,
    stop: &AtomicBool,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Vec<Report> {
    let mut remaining = Remaining::default();
    for turns in &all {
        (0..turns.expected()).for_each(|_| remaining.expect(turns.seconds()));
    }
    // Relaxed: the flag is a request and carries no data.
    let stopped = |begun: bool| begun && stop.load(Ordering::Relaxed);
    let (mut setup, mut begun, budget) = (0, false, Budget::new(budget));
    while !stopped(begun) && all.iter().any(|turns| !turns.over) {
        setup += 1;
        for place in budget::order(&all, setup) {
            let turns = &mut all[place];
            if stopped(begun) {
                break;
            }
            if !budget.affords(turns.will_take(&remaining)) {
                remaining.spend(turns.seconds() * turns.expected() as f64);
                turns.spend();
                turns.report.iter().for_each(|report| progress(Progress::End(report)));
                continue;
            }
            begun = true;
            remaining.begin(turns.seconds());
            let (experiment, left) = (turns.experiment, budget.left());
            progress(Progress::Begin { experiment, setup, most: turns.most(), remaining, left });
            let start = Instant::now();
            turns.run(stop, progress);
            turns.slowest = turns.slowest.max(start.elapsed().as_secs_f64());
            remaining.end(start.elapsed());
            match (&turns.report, turns.over) {
                (Some(report), true) => progress(Progress::End(report)),
                // It was expected to be the last, and a ratio is still undecided.
                _ if setup >= turns.least() => remaining.expect(turns.seconds()),
                _ => {}
            }
        }
    }
    for report in all.iter_mut().filter(|turns| !turns.over).filter_map(|turns| turns.report.as_mut()) {
        report.interrupted = true;
        progress(Progress::End(report));
    }
    all.into_iter().filter_map(|turns| turns.report).collect()
}

/// Returns the experiments of `names`, each once, in the given order.
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

/// Checks that at least one of the experiments has each key.
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

#[cfg(test)]
mod tests;
