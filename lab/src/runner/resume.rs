//! A run that is resumed: one experiment after the other, the file written after each, and those that it has are not run again.

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

/// Whether two runs were on machines that go by the same name.
fn same_machine(a: &Machine, b: &Machine) -> bool {
    (&a.cpu, a.cores, &a.kernel) == (&b.cpu, b.cores, &b.kernel)
}

/// What the file has; nothing where there is none, or it is empty.
fn earlier(path: &Path) -> Result<Vec<Report>, LabError> {
    match fs::metadata(path) {
        Ok(there) if there.len() > 0 => input::read(path),
        _ => Ok(Vec::new()),
    }
}

/// Runs those of `all` that the file lacks, and gives the reports of all that were asked for.
///
/// A report of the file stands if it is of this machine, as quick as what is asked, and was not interrupted; reports of other
/// machines and experiments stay in it.
pub(super) fn run(
    all: Vec<Turns<'_>>,
    (path, options): (&Path, &Options),
    stop: &AtomicBool,
    progress: &mut (dyn FnMut(Progress<'_>) + Send),
) -> Result<Vec<Report>, LabError> {
    let here = Machine::read(&Tsc::new(), cpu::allowed().unwrap_or_default().len());
    let mut file = earlier(path)?;
    // That it cannot be written is to be known before anything is measured.
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
        // Relaxed: the flag is a wish and carries no data.
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
