//! Changes of the host for one run, by the rules of `netmem doctor`. COLD.

use super::own_sockets::OwnSockets;
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::sandbox;
use crate::threads;
use netmem::system::broker::{self, Request};
use netmem_doctor::{Change, FIX_LOOKS, Host, Journal, JournalError, Wanted, findings, new_changes};
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The time that a run which ends without one of its workers waits for its changes to be undone.
const UNDO_TIMEOUT: Duration = Duration::from_secs(20);

/// The changes that were made for a run. The broker has a copy, because it is forked after they were made.
///
/// What is undone comes from this list, and never from the journal: the rest of the program, which has dropped its
/// privileges, may write the file if it is still of the same user. The journal is for the case that the broker is
/// killed too.
pub struct Fixes {
    journal: Journal,
    /// The changes that are not undone yet, in the order in which they were made.
    changes: Mutex<Vec<Change>>,
}

impl Fixes {
    /// Makes every change that does not need the operator's decision. Each is written to the journal first.
    ///
    /// # Errors
    /// [`Failure::Input`] if the journal has changes already, is used by another process or cannot be written, or if a change
    /// was not made. The host is unchanged then.
    pub fn make(wanted: &Wanted, file: &Path) -> Result<Fixes, Failure> {
        let fixes = Fixes { journal: Journal::at(file), changes: Mutex::default() };
        // Until the run and its broker have ended: no other process undoes its changes.
        fixes.journal.lock().map_err(Failure::input)?;
        let earlier = fixes.journal.changes().map_err(Failure::input)?.len();
        if earlier > 0 {
            let name = file.display();
            return Err(Failure::Input(format!(
                "--fix {name}: {earlier} changes of a run that was killed are there: undo them with \
                 netmem doctor --undo --journal {name}, or give another file; if you have undone them yourself, remove it"
            )));
        }
        for _ in 0..FIX_LOOKS {
            let found = findings(&Host::read(wanted), wanted);
            let changes = new_changes(&found, &fixes.changes());
            if changes.is_empty() {
                break;
            }
            changes.into_iter().try_for_each(|change| fixes.make_one(change))?;
        }
        if fixes.changes().is_empty() {
            fixes.journal.unlock();
        }
        Ok(fixes)
    }

    /// Makes a change. If it fails, those before it are undone.
    ///
    /// # Errors
    /// [`Failure::Input`].
    fn make_one(&self, change: Change) -> Result<(), Failure> {
        if let Err(error) = self.journal.make(&change) {
            if matches!(error, JournalError::Killed { .. }) {
                self.changes().push(change);
            }
            // Its lines are printed already.
            self.take_back().ok();
            return Err(Failure::input(error));
        }
        log::say(Level::Info, format_args!("netmem: changed for this run: {change}"));
        self.changes().push(change);
        Ok(())
    }

    /// Undoes the changes, the last one first, and prints a line for each that cannot be undone. Such a change is
    /// still in the journal.
    ///
    /// # Errors
    /// [`Failure::Run`], whose lines are printed already, if one cannot be undone.
    fn take_back(&self) -> Result<(), Failure> {
        let mut changes = self.changes();
        // An existing journal may belong to another run.
        if changes.is_empty() {
            return Ok(());
        }
        let failed: Vec<String> = match self.journal.undo_these(&mut changes) {
            Ok(undone) => {
                for line in undone.remarks() {
                    log::say(Level::Warning, format_args!("netmem: {line}"));
                }
                undone.failed.into_iter().map(|(change, error)| format!("{change}: {error}")).collect()
            }
            Err(error) => vec![error.to_string()],
        };
        for line in &failed {
            log::say(Level::Error, format_args!("error: not undone, and still in the journal: {line}"));
        }
        if failed.is_empty() { Ok(()) } else { Err(Failure::Run(Vec::new())) }
    }

    fn changes(&self) -> MutexGuard<'_, Vec<Change>> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a change is not undone yet, also while another thread undoes it. Does not wait for that thread. Knows
    /// nothing of what a broker has undone.
    fn are_left(&self) -> bool {
        !self.changes.try_lock().is_ok_and(|changes| changes.is_empty())
    }
}

/// Undoes the changes, if any were made.
///
/// # Errors
/// A change was not undone. A line about it is printed already.
pub fn take_back(fixes: &Option<Fixes>) -> Result<(), String> {
    let taken_back = fixes.as_ref().map_or(Ok(()), Fixes::take_back);
    taken_back.map_err(|_| "a change was not undone".to_owned())
}

/// As [`take_back`], by the broker of this process if it has one: a process that has dropped its privileges cannot
/// change the host.
///
/// # Errors
/// [`Failure::Run`], whose lines are printed already.
pub fn take_back_by(is_by_broker: bool, fixes: &Option<Fixes>) -> Result<(), Failure> {
    let Some(made) = fixes else { return Ok(()) };
    // A broker that ended during the set-up of the run has left this process its privileges.
    let is_left = broker::is_gone() && sandbox::has_privileges();
    let broker = broker::current().filter(|_| is_by_broker && made.are_left() && !is_left);
    let Some(broker) = broker else { return made.take_back() };
    broker::ask(broker, &Request::Undo, &[]).map(drop).map_err(|refusal| {
        if refusal.text.is_empty() {
            let journal = made.journal.path().display();
            log::say(
                Level::Error,
                format_args!(
                    "error: the changes may not be undone ({}): undo them with netmem doctor --undo --journal {journal}",
                    refusal.errno
                ),
            );
        }
        Failure::Run(Vec::new())
    })
}

/// Undoes the changes, and removes the sockets that the run listens on, before the process ends without a stuck
/// worker. The cause of the stuck worker may block the undo too. So the undo gets some seconds, and after that the
/// changes are left in the journal.
pub fn give_up(is_by_broker: bool, fixes: &Arc<Option<Fixes>>, sockets: &OwnSockets) {
    let (done, is_done) = mpsc::channel();
    let its = Arc::clone(fixes);
    // Its lines are printed already.
    let take_back = move || done.send(take_back_by(is_by_broker, &its).ok()).ok();
    let taking_back = threads::spawn("undo", take_back);
    if !is_by_broker {
        // A broker does the same once this process has ended.
        sockets.remove();
    }
    let is_late =
        taking_back.is_err() || is_done.recv_timeout(UNDO_TIMEOUT) == Err(RecvTimeoutError::Timeout);
    if let Some(made) = (**fixes).as_ref().filter(|made| is_late && made.are_left()) {
        let journal = made.journal.path().display();
        log::say(
            Level::Error,
            format_args!(
                "error: the changes are not undone yet: undo them with netmem doctor --undo --journal {journal}"
            ),
        );
    }
}
