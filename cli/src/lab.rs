//! `netmem lab`: runs the experiments of crate `netmem-lab` on a terminal.

mod screen;
mod signals;

use crate::args::{LabCompareArgs, LabReportArgs, LabRunArgs};
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::{output, stop};
use netmem_lab::report::{self, files};
use netmem_lab::{Agreement, LabError, Options, Report, input};
use netmem_ports::nearest;
use screen::Screen;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// This program itself, even if another file has taken its name since.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// The time limit of a quick run of all experiments, in seconds.
const QUICK_BUDGET: u64 = 600;

fn is_all(names: &[String]) -> bool {
    names.iter().any(|name| name == "all")
}

/// Lists the experiments.
///
/// # Errors
/// [`Failure::Run`] if the text cannot be written.
pub fn list(json: bool) -> Result<(), Failure> {
    output::print(&if json { format!("{}\n", netmem_lab::list_json()) } else { netmem_lab::list_text() })
}

/// Runs experiments, prints each report as it is finished, and fails if a check does.
///
/// # Errors
/// [`Failure::Input`] for a name, key, value or file that is not valid. [`Failure::Run`] for a check that failed or
/// a report that could not be written. [`Failure::Interrupted`] if a signal left something out.
pub fn run(args: &LabRunArgs) -> Result<(), Failure> {
    let stop = stop::on_signal()?;
    if !signals::ignores_hang_up() {
        stop::on_hang_up()?;
    }
    let (quick, json, set) = (args.quick, args.json.clone(), args.set.clone());
    let budget =
        args.budget.or_else(|| (quick && !args.resume && is_all(&args.names)).then_some(QUICK_BUDGET));
    let (budget, turns_by) = (budget.map(Duration::from_secs), Some(THIS_PROGRAM.into()));
    let options = Options { quick, json, set, turns_by, budget, resume: args.resume };
    let mut screen = Screen::new(args.names.len() > 1 || is_all(&args.names));
    screen.announce_end()?;
    let reports = netmem_lab::run(&args.names, &options, &stop, &mut |progress| screen.show(progress));
    screen.clear();
    let reports = reports.map_err(|error| match error {
        LabError::UnknownExperiment { name, valid } if nearest(valid.iter().copied(), &name).is_some() => {
            let near = nearest(valid.iter().copied(), &name).unwrap_or_default();
            Failure::input(format!(
                "unknown experiment {name:?}: did you mean {near}? (netmem lab list shows all)"
            ))
        }
        LabError::Output { .. } if screen.measured => Failure::run(error),
        _ => Failure::input(error),
    })?;
    screen.printed?;
    let failed = reports.iter().flat_map(|report| {
        let failed = report.checks.iter().filter(|check| !check.ok);
        failed.map(|check| format!("{}: check failed: {}: {}", report.experiment, check.name, check.detail))
    });
    let mut failed = failed.collect::<Vec<_>>();
    // Relaxed: the flag is a request and carries no data.
    let unbegun = unbegun(&args.names, &reports);
    let interrupted =
        stop.load(Relaxed) && (unbegun.is_some() || reports.iter().any(|report| report.interrupted));
    failed.extend(unmeasured(&args.names, &reports));
    failed.extend(unbegun.map(|name| not_started(name, &args.names, &options)));
    match interrupted {
        true => Err(Failure::Interrupted),
        false if failed.is_empty() => Ok(()),
        false => Err(Failure::Run(failed)),
    }
}

/// Returns an experiment that was requested and has no report.
fn unbegun(names: &[String], reports: &[Report]) -> Option<&'static str> {
    let asked =
        netmem_lab::list().iter().filter(|e| is_all(names) || names.iter().any(|name| name == e.name));
    let mut lacking = asked.filter(|e| reports.iter().all(|report| report.experiment != e.name));
    lacking.next().map(|e| e.name)
}

/// Returns a line for each experiment that was named and cannot measure here. Of a run of all experiments the lines are
/// printed: there is none for which all experiments have what they need.
fn unmeasured(names: &[String], reports: &[Report]) -> Vec<String> {
    let line = |report: &Report| Some(format!("{}: {}", report.experiment, report.unmeasured()?));
    let lines: Vec<String> = reports.iter().filter_map(line).collect();
    if !is_all(names) {
        return lines;
    }
    lines.iter().for_each(|line| log::say(Level::Warning, format_args!("netmem: {line}")));
    Vec::new()
}

/// Returns why this experiment was not begun in the run's time, and the remedy.
fn not_started(name: &str, names: &[String], options: &Options) -> String {
    let given = options.budget.unwrap_or_default();
    match netmem_lab::least_budget(names, options).unwrap_or_default() {
        least if given < least => format!(
            "{name}: not started: the first set-ups of this run are estimated at {0} s, with a margin: give --budget {0} \
             or more",
            least.as_secs()
        ),
        _ => format!(
            "{name}: not started: the run's {} s were spent before its turn; give more with --budget",
            given.as_secs()
        ),
    }
}

/// Takes one turn of a run of another `netmem`.
///
/// # Errors
/// [`Failure::Input`] if standard input does not come from such a run.
pub fn turn() -> Result<(), Failure> {
    netmem_lab::take_turn().map_err(Failure::input)
}

/// Compares two runs, prints the ratios that disagree, those that are undecided, and the share that agrees, and fails
/// if the share is too small.
///
/// # Errors
/// [`Failure::Input`] for a file that is not a run, or two runs without a common ratio: the object is printed then too.
/// [`Failure::Run`] if fewer agree, or the result cannot be printed.
pub fn compare(args: &LabCompareArgs) -> Result<(), Failure> {
    let read = |path| input::read(path).map_err(Failure::input);
    let agreement = Agreement::of(&read(&args.first)?, &read(&args.second)?);
    if args.json {
        let text = serde_json::to_string(&agreement).map_err(Failure::run)?;
        output::print(&format!("{text}\n"))?;
    }
    let Some(percent) = agreement.percent() else {
        return Err(Failure::input(undecided(&agreement)));
    };
    if !args.json {
        output::print(&agreement.to_string())?;
    }
    match percent >= f64::from(args.at_least) {
        true => Ok(()),
        false => Err(Failure::run(format!(
            "{} of {} decided ratios agree, less than {} %",
            agreement.agreeing,
            agreement.agreeing + agreement.disagreeing.len(),
            args.at_least
        ))),
    }
}

/// Returns why two runs have nothing in common that is decided, and the remedy.
fn undecided(agreement: &Agreement) -> String {
    let Agreement { notes, left_out, void, .. } = agreement;
    let others = match left_out.saturating_sub(1) {
        0 => String::new(),
        others => format!(", and {others} more"),
    };
    let why = notes.first().map_or_else(String::new, |note| format!(" ({note}{others})"));
    let such = if *void > 0 { "on a quieter machine" } else { "long enough to decide" };
    format!(
        "the runs have no decided ratio of one experiment and machine in common{why}: name two runs of the same experiments \
         on one machine, {such}"
    )
}

/// Writes the page of reports, and prints its path and the share of the registry that it covers. Or prints the text
/// of the page.
///
/// # Errors
/// [`Failure::Input`] for a file that is not a report or cannot be written. Then there is no page, and an older one
/// stays.
pub fn report(args: &LabReportArgs) -> Result<(), Failure> {
    if args.json {
        let findings = report::findings(&files::read(&args.from, None).map_err(Failure::input)?);
        let text = serde_json::to_string(&findings).map_err(Failure::run)?;
        return output::print(&format!("{text}\n"));
    }
    let reports = files::read(&args.from, Some(&args.out)).map_err(Failure::input)?;
    files::write(&args.out, &report::page(&reports)).map_err(Failure::input)?;
    let all = netmem_lab::list();
    let shown = all.iter().filter(|e| reports.iter().any(|report| report.experiment == e.name)).count();
    output::print(&format!("{}: {shown} of {} experiments\n", args.out.display(), all.len()))
}
