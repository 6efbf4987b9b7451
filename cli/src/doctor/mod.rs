//! `netmem doctor` and `netmem forward --check`: find properties of this host that prevent a run, lose packets or
//! are slow. COLD.

mod qualify;
mod report;
mod saved;

use crate::args::{DoctorArgs, ForwardArgs, forward_with};
use crate::failure::Failure;
use crate::forward;
use crate::output;
use netmem_doctor::{
    Change, FIX_LOOKS, Finding, Harm, Host, Journal, JournalError, Wanted, await_carriers, findings,
    new_changes,
};
use report::Report;
use std::time::Duration;

/// The time that a link which was just changed may take to have a carrier. Without it, that is a finding.
const CARRIER_TIMEOUT: Duration = Duration::from_secs(10);

/// Examines the host, and makes or undoes changes if the arguments ask for it.
///
/// # Errors
/// [`Failure::Input`] if a file or configuration cannot be read, or the journal cannot be used. [`Failure::Run`] for
/// findings, or for a change that was not made.
pub fn run(args: &DoctorArgs) -> Result<(), Failure> {
    if let [first, second] = &args.qualify[..] {
        return qualify::run(args, [first, second]);
    }
    let journal = Journal::at(&args.journal);
    if args.undo {
        return undo(&journal);
    }
    let from = args.from.as_deref().map(saved::read).transpose()?;
    let mut wanted = match &args.config {
        Some(file) => forward::wanted(&*forward_with(file)?, from.as_ref())?,
        None => forward::wanted::of_ports(&args.ports, from.as_ref()),
    };
    let host = match from {
        Some(host) => {
            wanted.cores = forward::wanted::cores_on(&host, wanted.workers);
            host
        }
        None => Host::read(&wanted),
    };
    if let Some(file) = &args.save {
        saved::save(&host, file)?;
    }
    let found = findings(&host, &wanted);
    if !args.fix || found.iter().all(|finding| finding.change.is_none()) {
        return print(&Report { findings: &found, unseen: &host.unseen, can_fix: !args.fix }, args.json);
    }
    fix_all((host, found), &wanted, &journal, args.json)
}

/// Makes the changes of the findings, and those of what they uncover, and prints what is left.
///
/// # Errors
/// As [`fix`] and [`print`].
fn fix_all(
    (mut host, mut found): (Host, Vec<Finding>),
    wanted: &Wanted,
    journal: &Journal,
    as_json: bool,
) -> Result<(), Failure> {
    let (mut tried, mut failed) = (Vec::new(), Vec::new());
    for _ in 0..FIX_LOOKS {
        let changes = new_changes(&found, &tried);
        if changes.is_empty() {
            break;
        }
        failed.extend(fix(&changes, journal, as_json)?);
        await_carriers(&changes, &host, CARRIER_TIMEOUT);
        tried.extend(changes);
        host = Host::read(wanted);
        found = findings(&host, wanted);
    }
    let printed = print(&Report { findings: &found, unseen: &host.unseen, can_fix: false }, as_json);
    if failed.is_empty() { printed } else { Err(Failure::Run(failed)) }
}

/// Finds problems of this host for a run with these arguments. Opens none of the ports.
///
/// # Errors
/// [`Failure::Input`] if the arguments conflict. [`Failure::Run`] for findings, and for interfaces that another run forwards from.
pub fn check(args: &ForwardArgs) -> Result<(), Failure> {
    let wanted: Wanted = forward::wanted(args, None)?;
    let host = Host::read(&wanted);
    let found = findings(&host, &wanted);
    let claimed = forward::claimed_by_others(args)?;
    let printed = print(&Report { findings: &found, unseen: &host.unseen, can_fix: false }, args.json);
    match printed {
        Ok(()) | Err(Failure::Run(_)) if !claimed.is_empty() => Err(Failure::Run(claimed)),
        printed => printed,
    }
}

/// Prints the findings. Returns a failure without a line of its own if there is a finding worse than slow.
fn print(report: &Report<'_>, as_json: bool) -> Result<(), Failure> {
    output::print(&if as_json { report.json() } else { report.text() })?;
    let is_well = report.findings.iter().all(|finding| finding.harm == Harm::Slow);
    if is_well { Ok(()) } else { Err(Failure::Run(Vec::new())) }
}

/// Makes the changes. Returns a line for each change that was not made.
///
/// # Errors
/// [`Failure::Input`] at the first change that the journal cannot hold; earlier changes are in the journal.
/// [`Failure::Run`] if the output cannot be written because its reader is gone.
fn fix(changes: &[Change], journal: &Journal, is_quiet: bool) -> Result<Vec<String>, Failure> {
    let mut failed = Vec::new();
    for change in changes {
        match journal.make(change) {
            Ok(()) if is_quiet => {}
            Ok(()) => output::print(&format!("changed: {change}\n"))?,
            Err(error @ (JournalError::Change(_) | JournalError::Form(_))) => failed.push(error.to_string()),
            Err(error @ JournalError::Killed { .. }) => {
                let file = journal.path().display();
                failed.push(format!("{error}: netmem doctor --undo --journal {file} reverts it"));
            }
            // No other change could be written to this journal either.
            Err(error) => return Err(Failure::input(error)),
        }
    }
    Ok(failed)
}

fn undo(journal: &Journal) -> Result<(), Failure> {
    let undone = journal.undo().map_err(Failure::input)?;
    for change in &undone.done {
        output::print(&format!("undone: {change}\n"))?;
    }
    let remarks = undone.remarks();
    for line in &remarks {
        output::print(&format!("{line}\n"))?;
    }
    if undone.done.is_empty() && remarks.is_empty() && undone.failed.is_empty() {
        output::print("nothing to undo\n")?;
    }
    let file = journal.path().display();
    let failed: Vec<_> = undone
        .failed
        .iter()
        .map(|(change, error)| {
            format!(
                "{change}: {error}; it stays in the journal: try again, or undo it yourself and remove {file}"
            )
        })
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::Run(failed)) }
}
