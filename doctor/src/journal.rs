//! A journal of changes. Each change is written before it is made, so that it can be undone even after the process
//! is killed.

mod line;
mod lock;
#[cfg(test)]
mod tests;

use crate::change::{Change, ChangeError, Reverted};
use line::Line;
use lock::Lock;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file with one change in each line, in order, and its network namespace. From the first change that is made, it is locked for this process until the value
/// is dropped or all changes are undone by [`Journal::undo`] or [`Journal::undo_these`]. A file without changes is removed then.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    held: Mutex<Option<Lock>>,
    /// Returns true for a change that may be made and undone.
    is_known: fn(&Change) -> bool,
}

/// The reason why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// The file cannot be written or read.
    #[error("journal {path}: {error}: {}", remedy(.error))]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
    },
    /// The file is a symbolic link. Nothing was done.
    #[error("journal {path}: it is a symbolic link, which is not followed: remove it, or give another file")]
    Link {
        /// The link.
        path: PathBuf,
    },
    /// The path names a folder, a device, a pipe or a socket. Nothing was done, and it is left alone.
    #[error(
        "journal {path}: it is a folder, a device, a pipe or a socket, which is left alone: give another file"
    )]
    NoFile {
        /// The path.
        path: PathBuf,
    },
    /// Another process makes or undoes changes of this journal, or will undo them. Nothing was done.
    #[error(
        "journal {path}: a netmem forward, netmem doctor or netmem-broker that has not ended uses it, so nothing is changed: end that \
         first, or give another file"
    )]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// Other users could have written the file. Its commands would be run.
    #[error(
        "journal {path}: another user may write it or owns it, so its commands are not run: give another file, or chown and chmod 600 it"
    )]
    OtherUsers {
        /// The file.
        path: PathBuf,
    },
    /// A line is not a change. Nothing was done.
    #[error("journal {path}: line {line} is not a change: {error}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The error in the line.
        error: serde_json::Error,
    },
    /// A line is a change that this crate does not make. Nothing was done.
    #[error(
        "journal {path}: line {line} is no change that netmem makes, so another program or another version of netmem has written it, and \
         nothing is changed: remove that line, or give another file"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
    /// The change was not made, because the journal would not undo it.
    #[error("not made, because a journal undoes no change of this form: {0}: make it yourself")]
    Form(Change),
    /// The change was not made, and is not in the journal any more.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A signal ended the program that makes the change, which may be made. It is still in the journal.
    #[error("{error}, and it stays in the journal {path}")]
    Killed {
        /// The file.
        path: PathBuf,
        /// The program's end.
        error: ChangeError,
    },
}

/// The result of undoing the changes of a journal.
#[derive(Debug)]
#[must_use]
#[non_exhaustive]
pub struct Undone {
    /// The changes that were undone, the last one first, as the commands that undid them.
    pub done: Vec<Change>,
    /// The changes whose interface is gone, and their effect with it. They are not in the journal any more.
    pub gone: Vec<Change>,
    /// The changes of settings that someone else has set since, each with the value that was left alone. They are not in the journal
    /// any more.
    pub overwritten: Vec<(Change, String)>,
    /// The changes that could not be undone. They are still in the journal.
    pub failed: Vec<(Change, ChangeError)>,
}

impl Undone {
    /// Returns a line for each change that was not undone because nothing is left to undo.
    pub fn remarks(&self) -> Vec<String> {
        let gone = |change| format!("nothing left to undo, because the interface is gone: {change}");
        let overwritten = |(change, now): &_| {
            format!("not undone, because someone else has set it to {now} since: {change}")
        };
        self.gone.iter().map(gone).chain(self.overwritten.iter().map(overwritten)).collect()
    }
}

impl Journal {
    /// Returns the journal in this file. The file need not exist.
    pub fn at(path: &Path) -> Journal {
        Journal { path: path.to_owned(), held: Mutex::default(), is_known: Change::has_known_form }
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Locks the journal for this process and those that it forks later. The file is made if it does not exist.
    ///
    /// # Errors
    /// [`JournalError::InUse`] and [`JournalError::File`].
    pub fn lock(&self) -> Result<(), JournalError> {
        let mut held = self.held();
        if held.is_none() {
            *held = Some(Lock::take(&self.path)?);
        }
        Ok(())
    }

    /// Gives the lock back. A file without changes is removed.
    pub fn unlock(&self) {
        drop(self.held().take());
    }

    /// Writes a change to the journal, and makes it.
    ///
    /// # Errors
    /// [`JournalError::Change`] if the change was not made. [`JournalError::Killed`] if it may have been made: an undo reverts it.
    /// Any other one before anything was changed.
    pub fn make(&self, change: &Change) -> Result<(), JournalError> {
        if !(self.is_known)(change) {
            return Err(JournalError::Form(change.clone()));
        }
        self.lock()?;
        let mut lines = self.lines()?;
        lines.push(Line::of(change.clone()));
        self.write(&lines)?;
        change.apply().map_err(|error| {
            if matches!(error, ChangeError::Killed { .. }) {
                return JournalError::Killed { path: self.path.clone(), error };
            }
            lines.pop();
            // If the line stays, undoing a change that was not made does no harm.
            let _ = self.write(&lines);
            JournalError::Change(error)
        })
    }

    /// Undoes all changes, the last one first. The file is removed after all of them are undone, and the lock is given back.
    ///
    /// # Errors
    /// [`JournalError::InUse`], [`JournalError::Line`] and [`JournalError::Foreign`], before anything was changed. [`JournalError::File`], before
    /// anything was changed, or after the changes that `done` would list.
    pub fn undo(&self) -> Result<Undone, JournalError> {
        let undone = self.undo_to(0)?;
        self.unlock_if(undone.failed.is_empty());
        Ok(undone)
    }

    /// Undoes all changes except the first `lasting`, the last one first. The journal stays locked, also without changes.
    ///
    /// # Errors
    /// As [`Journal::undo`].
    pub fn undo_to(&self, lasting: usize) -> Result<Undone, JournalError> {
        self.lock_existing()?;
        let mut first = self.lines()?;
        let mut lines = first.split_off(lasting.min(first.len()));
        self.undo_after(&first, &mut lines)
    }

    /// Undoes these changes, the last one first, and removes those that are undone from the list. The file is not read, because
    /// another process may have written it since. It only gets what is left to undo. The journal is not locked for this: lock it
    /// before the changes are made. They were made in this network namespace.
    ///
    /// # Errors
    /// [`JournalError::File`] after the changes were undone, as far as that is possible.
    pub fn undo_these(&self, changes: &mut Vec<Change>) -> Result<Undone, JournalError> {
        let mut lines: Vec<Line> = changes.drain(..).map(Line::of).collect();
        let undone = self.undo_after(&[], &mut lines);
        *changes = lines.into_iter().map(|line| line.change).collect();
        self.unlock_if(undone.is_ok() && changes.is_empty());
        undone
    }

    /// Undoes the changes behind the `first`, which stay in the file, and removes them from the list.
    fn undo_after(&self, first: &[Line], lines: &mut Vec<Line>) -> Result<Undone, JournalError> {
        let mut undone =
            Undone { done: Vec::new(), gone: Vec::new(), overwritten: Vec::new(), failed: Vec::new() };
        let (mut kept, mut unwritten) = (Vec::new(), None);
        while let Some(line) = lines.pop() {
            let change = &line.change;
            let elsewhere = line.elsewhere().map(|namespace| ChangeError::OtherNamespace { namespace });
            match elsewhere.map_or_else(|| change.undo(), Err) {
                Ok(Reverted::By(back)) => undone.done.push(back),
                Ok(Reverted::Overwritten(back, now)) => undone.overwritten.push((back, now)),
                // An interface of another namespace is never here.
                Err(error) if !matches!(error, ChangeError::OtherNamespace { .. }) && change.is_gone() => {
                    undone.gone.push(change.reversed())
                }
                Err(error) => {
                    undone.failed.push((change.reversed(), error));
                    kept.insert(0, line);
                }
            }
            // A journal that cannot be written, on a full disk, does not prevent the undo of other changes.
            unwritten = self.write(&[first, &lines[..], &kept[..]].concat()).err();
        }
        *lines = kept;
        unwritten.map_or(Ok(undone), Err)
    }

    /// Returns the changes in the journal.
    ///
    /// # Errors
    /// As [`Journal::undo`].
    pub fn changes(&self) -> Result<Vec<Change>, JournalError> {
        Ok(self.lines()?.into_iter().map(|line| line.change).collect())
    }

    fn lines(&self) -> Result<Vec<Line>, JournalError> {
        let Some(mut file) = lock::open(&self.path)? else { return Ok(Vec::new()) };
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| failed(&self.path, error))?;
        let change = |(at, line): (usize, &str)| {
            let (path, number) = (self.path.clone(), at + 1);
            match serde_json::from_str::<Line>(line) {
                Ok(line) if (self.is_known)(&line.change) => Ok(line),
                Ok(_) => Err(JournalError::Foreign { path, line: number }),
                Err(error) => Err(JournalError::Line { path, line: number, error }),
            }
        };
        text.lines().enumerate().map(change).collect()
    }

    /// Makes the file on the disk hold exactly these changes, and keeps it locked, also without changes: another process could
    /// otherwise write its changes there, which this one would undo. If the process is killed, the file has the old or the
    /// new contents, and never half of a line.
    fn write(&self, lines: &[Line]) -> Result<(), JournalError> {
        let texts = lines.iter().map(|line| serde_json::to_string(line).map(|text| text + "\n"));
        let text: String =
            texts.collect::<Result<_, _>>().map_err(|error| failed(&self.path, error.into()))?;
        let replaced = self.replace(&text);
        if replaced.is_ok() || !lines.is_empty() {
            return replaced;
        }
        // A full disk has room for no new file, not even for an empty one.
        remove(&self.path).map_err(|error| failed(&self.path, error))?;
        // Not before: the file of the next process is another one.
        self.unlock();
        Ok(())
    }

    /// Gives the lock back, and removes the file, if no change is left.
    fn unlock_if(&self, is_done: bool) {
        if is_done {
            self.unlock();
        }
    }

    fn replace(&self, text: &str) -> Result<(), JournalError> {
        let (beside, mut file) = self.make_beside().map_err(|error| failed(&self.path, error))?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        let written = written.map_err(|error| failed(&self.path, error));
        // Before it has its name, so that no other process locks it.
        let locked = written.and_then(|()| Lock::of(file, &self.path, true));
        let renamed = locked.and_then(|lock| {
            fs::rename(&beside, &self.path).map(|()| lock).map_err(|error| failed(&self.path, error))
        });
        let lock = renamed.inspect_err(|_| {
            let _ = remove(&beside);
        })?;
        *self.held() = Some(lock);
        Ok(())
    }

    /// Makes a file beside the journal with a name that no other file has.
    fn make_beside(&self) -> io::Result<(PathBuf, File)> {
        let mut number = 0;
        loop {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{}-{number}", std::process::id()));
            let beside = PathBuf::from(name);
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                made => return made.map(|file| (beside, file)),
            }
        }
    }

    /// Locks the journal, if its file exists.
    fn lock_existing(&self) -> Result<(), JournalError> {
        let mut held = self.held();
        if held.is_none() {
            *held = Lock::take_existing(&self.path)?;
        }
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, Option<Lock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the error of a step with the file at this path.
fn failed(path: &Path, error: io::Error) -> JournalError {
    let path = path.to_owned();
    if error.kind() == io::ErrorKind::WouldBlock {
        return JournalError::InUse { path };
    }
    match error.raw_os_error() {
        Some(errno) if errno == Errno::LOOP.raw_os_error() => JournalError::Link { path },
        _ => JournalError::File { path, error },
    }
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "give another file, or run it as root",
        io::ErrorKind::NotFound => "make its folder first, or give another file",
        _ => "give another file",
    }
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
