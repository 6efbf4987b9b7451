//! A resumed run: one experiment after the other, the file written after each. Experiments that the file has are
//! not run again.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use netmem::system::cpu;

use super::turn::Turns;
use super::{Options, Progress, take_turns};
use crate::error::LabError;
use crate::input;
use crate::json::Report;
use crate::method::clock::Tsc;
use crate::method::machine::Machine;
use crate::output::Output;
use crate::rivals;

/// The report that is asked for.
struct Asked<'a> {
    experiment: &'static str,
    here: &'a Machine,
    quick: bool,
    set: BTreeMap<String, String>,
}

impl Asked<'_> {
    /// Returns true for a report of this experiment, machine and effort.
    fn is_of_it(&self, report: &Report) -> bool {
        report.experiment == self.experiment
            && report.machine.is_named_as(self.here)
            && report.quick == self.quick
    }

    /// Returns true if the report also has the settings of this run, and the rivals of this build. Older reports do
    /// not tell their rivals.
    fn is_alike(&self, report: &Report) -> bool {
        let has_rivals = report.rivals.is_none_or(|built| built == rivals::BUILT);
        self.is_of_it(report) && report.set == self.set && has_rivals
    }

    /// Returns true if the experiment need not be run again.
    fn stands(&self, report: &Report) -> bool {
        self.is_alike(report) && is_whole(report)
    }

    /// Puts `report` into the file. It replaces reports that are alike and not worth more, and those of its effort
    /// that are not whole. A report that is alike and worth more stays instead of it.
    fn put(&self, file: &mut Vec<Report>, report: Report) {
        let worth_more = |earlier: &Report| earlier.worth() > report.worth();
        if file.iter().any(|earlier| self.is_alike(earlier) && worth_more(earlier)) {
            return;
        }
        let is_replaced = |earlier: &Report| {
            (self.is_alike(earlier) || self.is_of_it(earlier) && !is_whole(earlier)) && !worth_more(earlier)
        };
        file.retain(|earlier| !is_replaced(earlier));
        file.push(report);
    }
}

/// Returns true if nothing is missing in a report. Without rows nothing was measured: a privilege or a program was
/// missing, which may be there now.
fn is_whole(report: &Report) -> bool {
    report.worth() == [true; 3]
}

/// Returns the reports of the file, or none if it does not exist or is empty.
fn earlier(path: &Path) -> Result<Vec<Report>, LabError> {
    match fs::metadata(path) {
        Ok(there) if there.len() > 0 => input::read(path),
        _ => Ok(Vec::new()),
    }
}

/// Runs the experiments of `all` that the file lacks, and returns the reports of all requested ones.
///
/// A report of the file is used if it is from this machine, has the requested effort and settings, has rows, and was
/// not interrupted. Reports of other machines, efforts, settings and experiments stay in the file.
pub(super) fn run(
    all: Vec<Turns<'_>>,
    (path, options): (&Path, &Options),
    stop: &AtomicBool,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Vec<Report>, LabError> {
    let here = Machine::read(&Tsc::new(), cpu::allowed().unwrap_or_default().len());
    let mut file = earlier(path)?;
    // An unwritable file must be reported before any measurement.
    drop(Output::open(path)?);
    let mut reports = Vec::new();
    for turns in all {
        let (experiment, set, quick) = (turns.experiment.name, turns.set(), options.quick);
        let asked = Asked { experiment, here: &here, quick, set };
        if let Some(report) = file.iter().find(|report| asked.stands(report)) {
            reports.push(report.clone());
            continue;
        }
        // Relaxed: the flag is a request and carries no data.
        if stop.load(Ordering::Relaxed) {
            continue;
        }
        for report in take_turns(vec![turns], None, stop, progress) {
            asked.put(&mut file, report.clone());
            reports.push(report);
        }
        Output::open(path)?.write(&file)?;
    }
    Ok(reports)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::{Check, tests::sample};

    fn asked(here: &Machine) -> Asked<'_> {
        Asked { experiment: "page-fast-path", here, quick: true, set: BTreeMap::new() }
    }

    fn named(name: &str) -> Report {
        Report { notes: vec![name.into()], ..sample() }
    }

    /// The first notes of the file after `report` was put into it.
    fn after(earlier: &[&Report], report: Report) -> Vec<String> {
        let here = sample().machine;
        let mut file: Vec<Report> = earlier.iter().map(|report| (*report).clone()).collect();
        asked(&here).put(&mut file, report);
        file.into_iter().filter_map(|report| report.notes.into_iter().next()).collect()
    }

    /// Seen: a quick resume removed the full reports of the same machine, and Ctrl-C left an interrupted one instead.
    #[test]
    fn a_quick_report_does_not_remove_a_full_one_nor_an_interrupted_one_a_finished_one() {
        let full = Report { quick: false, ..named("full") };
        let interrupted = Report { interrupted: true, ..named("interrupted") };
        assert_eq!(after(&[&full], named("quick")), ["full", "quick"]);
        assert_eq!(after(&[&full], interrupted.clone()), ["full", "interrupted"]);
        let failed = Check { name: "set-up: a process".into(), ok: false, detail: "it ended".into() };
        let finished = Report { checks: vec![failed], ..named("finished") };
        assert_eq!(after(&[&full, &finished], interrupted.clone()), ["full", "finished"]);
        assert_eq!(after(&[&interrupted, &full], named("quick")), ["full", "quick"]);
        let empty = Report { rows: vec![], interrupted: true, ..named("empty") };
        assert_eq!(after(&[&interrupted], empty), ["interrupted"]);
    }

    /// Seen: a report without rows, or of a failed set-up, was taken for measured.
    #[test]
    fn a_report_stands_only_with_rows_and_without_a_failed_set_up() {
        let here = sample().machine;
        let stands = |report: Report| asked(&here).stands(&report);
        let failed = |name: &str| Check { name: name.into(), ok: false, detail: String::new() };
        assert!(stands(sample()));
        assert!(stands(Report { checks: vec![failed("ledger balanced")], ..sample() }));
        assert!(!stands(Report { checks: vec![failed("set-up: memory")], ..sample() }));
        assert!(!stands(Report { rows: vec![], ..sample() }));
        assert!(!stands(Report { interrupted: true, ..sample() }));
    }

    #[test]
    fn a_report_of_other_settings_or_without_the_rivals_of_this_build_does_not_stand_and_stays() {
        let here = sample().machine;
        let set = BTreeMap::from([("ring".to_owned(), "512".to_owned())]);
        let others =
            [Report { set, ..named("other") }, Report { rivals: Some(!rivals::BUILT), ..named("other") }];
        for other in others {
            assert!(!asked(&here).stands(&other));
            assert_eq!(after(&[&other], named("new")), ["other", "new"]);
        }
        assert!(asked(&here).stands(&Report { rivals: Some(rivals::BUILT), ..sample() }));
        assert_eq!(after(&[&named("older")], named("new")), ["new"]);
    }
}
