//! A resumed run: one experiment after the other, the file written after each. Experiments that the file has are
//! not run again.

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
use crate::report::files;

/// Returns true if two runs were on machines with the same name.
fn same_machine(a: &Machine, b: &Machine) -> bool {
    (&a.cpu, a.cores, &a.kernel) == (&b.cpu, b.cores, &b.kernel)
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
/// A report of the file is used if it is from this machine, has the requested effort, and was not interrupted.
/// Reports of other machines and experiments stay in the file.
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
    let mut asked = Vec::new();
    for turns in all {
        let name = turns.experiment.name;
        let of_it = |report: &Report| report.experiment == name && same_machine(&report.machine, &here);
        let stands = |report: &&Report| of_it(report) && report.quick == options.quick && !report.interrupted;
        if let Some(report) = file.iter().find(stands) {
            asked.push(report.clone());
            continue;
        }
        // Relaxed: the flag is a request and carries no data.
        if stop.load(Ordering::Relaxed) {
            continue;
        }
        for report in take_turns(vec![turns], None, stop, progress) {
            file.retain(|earlier| !of_it(earlier));
            file.push(report.clone());
            asked.push(report);
        }
        let mut text = serde_json::to_string_pretty(&file).unwrap_or_default();
        text.push('\n');
        files::write(path, &text)?;
    }
    Ok(asked)
}
