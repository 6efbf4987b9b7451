//! Changes of the host for one run, by the rules of `netmem doctor`. COLD.

use crate::failure::Failure;
use crate::log::{self, Level};
use crate::sandbox::{self, SandboxPlan};
use netmem::system::broker::{self, Request};
use netmem_doctor::{Host, Journal, Wanted, findings};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{fs, thread};

/// How long a run that ends without one of its workers waits until its changes are taken back.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was changed for a run.
pub struct Fixes {
    journal: Journal,
    /// Whether anything is written there.
    any: bool,
}

impl Fixes {
    /// Makes every change that needs nobody's decision, each written to the journal before.
    ///
    /// # Errors
    /// [`Failure::Input`]: the journal has changes already or cannot be written, or a change was not made. Then the host is as it was.
    pub fn make(wanted: &Wanted, file: &Path) -> Result<Fixes, Failure> {
        let mut fixes = Fixes { journal: Journal::at(file), any: false };
        let earlier = fixes.journal.changes().map_err(Failure::input)?.len();
        if earlier > 0 {
            let name = file.display();
            return Err(Failure::Input(format!(
                "--fix {name}: {earlier} changes are written there, by a run that was killed or has not ended: take them back by \
                 netmem doctor --undo --journal {name}, or give another file"
            )));
        }
        for change in findings(&Host::read(wanted), wanted).into_iter().filter_map(|finding| finding.change) {
            if let Err(error) = fixes.journal.make(&change) {
                // What it says is said.
                fixes.take_back().ok();
                return Err(Failure::input(error));
            }
            fixes.any = true;
            log::say(Level::Info, format_args!("netmem: changed for this run: {change}"));
        }
        Ok(fixes)
    }

    /// Takes the changes back, the last one first, with a line for each that cannot be: it is still in the journal.
    ///
    /// # Errors
    /// [`Failure::Run`], whose lines were said, where one cannot be.
    fn take_back(&self) -> Result<(), Failure> {
        // A journal that is there may be another run's.
        if !self.any {
            return Ok(());
        }
        let failed: Vec<String> = match self.journal.undo() {
            Ok(undone) => {
                undone.failed.into_iter().map(|(change, error)| format!("{change}: {error}")).collect()
            }
            Err(error) => vec![error.to_string()],
        };
        for line in &failed {
            log::say(Level::Error, format_args!("error: not taken back, and still in the journal: {line}"));
        }
        if failed.is_empty() { Ok(()) } else { Err(Failure::Run(Vec::new())) }
    }
}

/// Takes back what was changed, if anything was.
///
/// # Errors
/// That something was not, of which a line was said.
pub fn take_back(fixes: &Option<Fixes>) -> Result<(), String> {
    let taken_back = fixes.as_ref().map_or(Ok(()), Fixes::take_back);
    taken_back.map_err(|_| "something was not taken back".to_owned())
}

/// As [`take_back`], by the broker of this process where it has one: who has given up its privileges changes nothing of a host.
///
/// # Errors
/// [`Failure::Run`], whose lines were said.
pub fn take_back_by(is_by_broker: bool, fixes: &Option<Fixes>) -> Result<(), Failure> {
    let Some(made) = fixes else { return Ok(()) };
    // One that ended while the run was set up has left this process its privileges.
    let is_left = broker::is_gone() && sandbox::has_privileges();
    let broker = broker::current().filter(|_| is_by_broker && made.any && !is_left);
    let Some(broker) = broker else { return made.take_back() };
    broker::ask(broker, &Request::Undo, &[]).map(drop).map_err(|refusal| {
        if refusal.text.is_empty() {
            let journal = made.journal.path().display();
            log::say(
                Level::Error,
                format_args!(
                    "error: the changes may not be taken back ({}): netmem doctor --undo --journal {journal} does it",
                    refusal.errno
                ),
            );
        }
        Failure::Run(Vec::new())
    })
}

/// Takes back what was changed, and the sockets that the run listens at, before the process ends without a worker that never does. What holds
/// that up may hold this up too: it is waited for some seconds, and then left in the journal.
pub fn give_up(is_by_broker: bool, fixes: &Arc<Option<Fixes>>, plan: &SandboxPlan) {
    let (done, is_done) = mpsc::channel();
    let its = Arc::clone(fixes);
    // What it says is said.
    let take_back = move || done.send(take_back_by(is_by_broker, &its).ok()).ok();
    let taking_back = thread::Builder::new().spawn(take_back);
    if !is_by_broker {
        // One that is there now is this run's: it has not stopped listening. The broker does the same.
        let sockets = plan.listening.iter().chain(&plan.made);
        sockets.for_each(|path| drop(fs::remove_file(path)));
    }
    let is_late = taking_back.is_err() || is_done.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout);
    if let Some(made) = (**fixes).as_ref().filter(|made| is_late && made.any) {
        let journal = made.journal.path().display();
        log::say(
            Level::Error,
            format_args!(
                "error: the changes are not taken back yet: netmem doctor --undo --journal {journal} does it"
            ),
        );
    }
}
