//! A journal of changes. Each change is written before it is made, so that it can be undone even after the process
//! is killed.

mod lock;

use crate::change::{Change, ChangeError};
use lock::Lock;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A file with one change in each line, in order. From the first change that is made or undone, it is locked for this process
/// until the value is dropped.
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
    #[error("journal {path}: {error}: give another one with --journal, or run it as root")]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        error: io::Error,
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
        "journal {path}: another user may write it or owns it, so its commands are not run: remove it, or chown and chmod 600 it"
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
}

/// The result of undoing the changes of a journal.
#[derive(Debug)]
#[must_use]
pub struct Undone {
    /// The changes that were undone, the last one first, as the commands that undid them.
    pub done: Vec<Change>,
    /// The changes that could not be undone. They are still in the journal.
    pub failed: Vec<(Change, ChangeError)>,
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
            *held = Some(Lock::take(&self.path).map_err(|error| self.unlocked(error))?);
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
    /// [`JournalError::Change`] if the change was not made. Any other one before anything was changed.
    pub fn make(&self, change: &Change) -> Result<(), JournalError> {
        if !(self.is_known)(change) {
            return Err(JournalError::Form(change.clone()));
        }
        self.lock()?;
        let mut changes = self.changes()?;
        changes.push(change.clone());
        self.write(&changes)?;
        change.apply().map_err(|error| {
            changes.pop();
            // If the line stays, undoing a change that was not made does no harm.
            let _ = self.write(&changes);
            JournalError::Change(error)
        })
    }

    /// Undoes all changes, the last one first. The file is removed after all of them are undone.
    ///
    /// # Errors
    /// [`JournalError::InUse`], [`JournalError::Line`] and [`JournalError::Foreign`], before anything was changed. [`JournalError::File`], before
    /// anything was changed, or after the changes that `done` would list.
    pub fn undo(&self) -> Result<Undone, JournalError> {
        self.undo_to(0)
    }

    /// Undoes all changes except the first `lasting`, the last one first.
    ///
    /// # Errors
    /// As [`Journal::undo`].
    pub fn undo_to(&self, lasting: usize) -> Result<Undone, JournalError> {
        self.lock_existing()?;
        let mut first = self.changes()?;
        let mut changes = first.split_off(lasting.min(first.len()));
        self.undo_after(&first, &mut changes)
    }

    /// Undoes these changes, the last one first, and removes those that are undone from the list. The file is not read, because
    /// another process may have written it since. It only gets what is left to undo. The journal is not locked for this: lock it
    /// before the changes are made.
    ///
    /// # Errors
    /// [`JournalError::File`] after the changes were undone, as far as that is possible.
    pub fn undo_these(&self, changes: &mut Vec<Change>) -> Result<Undone, JournalError> {
        self.undo_after(&[], changes)
    }

    /// Undoes the changes behind the `first`, which stay in the file, and removes them from the list.
    fn undo_after(&self, first: &[Change], changes: &mut Vec<Change>) -> Result<Undone, JournalError> {
        let mut undone = Undone { done: Vec::new(), failed: Vec::new() };
        let (mut kept, mut unwritten) = (Vec::new(), None);
        while let Some(change) = changes.pop() {
            let back = change.reversed();
            match back.apply() {
                Ok(()) => undone.done.push(back),
                Err(error) => {
                    kept.insert(0, change);
                    undone.failed.push((back, error));
                }
            }
            // A journal that cannot be written, on a full disk, does not prevent the undo of other changes.
            unwritten = self.write(&[first, &changes[..], &kept[..]].concat()).err();
        }
        *changes = kept;
        unwritten.map_or(Ok(undone), Err)
    }

    /// Returns the changes in the journal.
    ///
    /// # Errors
    /// As [`Journal::undo`].
    pub fn changes(&self) -> Result<Vec<Change>, JournalError> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(self.failed(error)),
        };
        let state = file.metadata().map_err(|error| self.failed(error))?;
        if state.uid() != rustix::process::geteuid().as_raw() || state.mode() & 0o022 != 0 {
            return Err(JournalError::OtherUsers { path: self.path.clone() });
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(|error| self.failed(error))?;
        let change = |(at, line): (usize, &str)| {
            let (path, number) = (self.path.clone(), at + 1);
            match serde_json::from_str::<Change>(line) {
                Ok(change) if (self.is_known)(&change) => Ok(change),
                Ok(_) => Err(JournalError::Foreign { path, line: number }),
                Err(error) => Err(JournalError::Line { path, line: number, error }),
            }
        };
        text.lines().enumerate().map(change).collect()
    }

    /// Makes the file on the disk hold exactly these changes. If the process is killed, the file has the old or the
    /// new contents, and never half of a line.
    fn write(&self, changes: &[Change]) -> Result<(), JournalError> {
        if changes.is_empty() {
            remove(&self.path).map_err(|error| self.failed(error))?;
            // Not before: the file of the next process is another one.
            self.unlock();
            return Ok(());
        }
        let lines = changes.iter().map(|change| serde_json::to_string(change).map(|line| line + "\n"));
        let text: String = lines.collect::<Result<_, _>>().map_err(|error| self.failed(error.into()))?;
        self.replace(&text).map_err(|error| self.failed(error))
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut name = self.path.clone().into_os_string();
        name.push(".new");
        let beside = PathBuf::from(name);
        // Left by a process that was killed.
        remove(&beside)?;
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
        // Before it has its name, so that no other process locks it.
        let locked = written.and_then(|()| Lock::of(file, &self.path));
        let renamed = locked.and_then(|lock| fs::rename(&beside, &self.path).map(|()| lock));
        let lock = renamed.inspect_err(|_| {
            let _ = remove(&beside);
        })?;
        *self.held() = Some(lock);
        Ok(())
    }

    /// Locks the journal, if its file exists.
    fn lock_existing(&self) -> Result<(), JournalError> {
        let mut held = self.held();
        if held.is_none() {
            *held = Lock::take_existing(&self.path).map_err(|error| self.unlocked(error))?;
        }
        Ok(())
    }

    fn held(&self) -> MutexGuard<'_, Option<Lock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unlocked(&self, error: io::Error) -> JournalError {
        match error.kind() {
            io::ErrorKind::WouldBlock => JournalError::InUse { path: self.path.clone() },
            _ => self.failed(error),
        }
    }

    fn failed(&self, error: io::Error) -> JournalError {
        JournalError::File { path: self.path.clone(), error }
    }
}

/// Removes a file, if it exists.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    /// Returns a folder for this test alone, without files of an earlier run.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("netmem-journal-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        folder
    }

    /// A journal that takes any change, because these tests make files.
    fn of_any(path: &Path) -> Journal {
        Journal { is_known: |_| true, ..Journal::at(path) }
    }

    /// A change that makes a file, and is undone by the file's removal.
    fn file_made(path: &Path) -> Change {
        Change::run(&format!("touch {}", path.display()), &format!("rm {}", path.display()))
    }

    #[test]
    fn what_was_changed_is_taken_back_the_last_one_first_and_the_journal_goes() {
        let folder = folder("back");
        let journal = of_any(&folder.join("run/journal"));
        let (outer, within) = (folder.join("outer"), folder.join("outer/within"));
        let made = Change::run(
            &format!("mkdir {}", outer.display()),
            // Fails while the folder is not empty.
            &format!("rmdir {}", outer.display()),
        );
        journal.make(&made).unwrap();
        journal.make(&file_made(&within)).unwrap();
        assert!(within.exists() && journal.changes().unwrap().len() == 2);
        let undone = journal.undo().unwrap();
        assert_eq!((undone.done.len(), undone.failed.len()), (2, 0));
        assert!(!outer.exists() && !journal.path.exists());
        assert_eq!(journal.undo().unwrap().done.len(), 0);
        fs::remove_dir_all(folder).unwrap();
    }

    /// Seen: `--undo` of a service that was refused turned the kernel's forwarding on under the live run whose journal it was, and of
    /// two `--fix` at once one lost its changes.
    #[test]
    fn a_journal_that_another_process_uses_is_neither_undone_nor_written() {
        let folder = folder("in-use");
        let (one, other) = (of_any(&folder.join("journal")), of_any(&folder.join("journal")));
        let [first, second] = ["first", "second"].map(|name| folder.join(name));
        one.make(&file_made(&first)).unwrap();
        for refused in [other.undo().map(drop), other.make(&file_made(&second)), other.lock()] {
            assert!(matches!(refused, Err(JournalError::InUse { .. })), "{refused:?}");
        }
        assert_eq!((first.exists(), second.exists()), (true, false));
        assert_eq!(one.changes().unwrap(), [file_made(&first)]);
        // As when its process has ended, in any way.
        drop(one);
        assert_eq!(other.undo().unwrap().done.len(), 1);
        assert!(!first.exists() && !other.path.exists());
        let third = of_any(&folder.join("journal"));
        third.lock().unwrap();
        assert!(matches!(other.lock(), Err(JournalError::InUse { .. })));
        third.unlock();
        assert!(!third.path.exists(), "it has no changes");
        other.lock().unwrap();
        drop(other);
        fs::remove_dir_all(folder).unwrap();
    }

    /// Seen on a full disk: one of two changes was undone, the other stayed, and an empty file was left beside the
    /// journal.
    #[test]
    fn where_the_journal_cannot_be_written_all_changes_are_taken_back_all_the_same() {
        let folder = folder("full");
        let journal = of_any(&folder.join("journal"));
        let [first, second, third] = ["first", "second", "third"].map(|name| folder.join(name));
        for path in [&first, &second, &third] {
            journal.make(&file_made(path)).unwrap();
        }
        // No file can be written beside the journal.
        fs::create_dir(folder.join("journal.new")).unwrap();
        // The last write removes the journal, which works.
        assert_eq!(journal.undo().unwrap().done.len(), 3);
        assert!(![&first, &second, &third].iter().any(|path| path.exists()) && !journal.path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn the_first_changes_last_while_those_behind_them_are_taken_back() {
        let folder = folder("lasting");
        let journal = of_any(&folder.join("journal"));
        let [first, second, third] = ["first", "second", "third"].map(|name| folder.join(name));
        for file in [&first, &second, &third] {
            journal.make(&file_made(file)).unwrap();
        }
        assert_eq!(journal.undo_to(1).unwrap().done.len(), 2);
        assert_eq!([&first, &second, &third].map(|file| file.exists()), [true, false, false]);
        assert_eq!(journal.undo_to(1).unwrap().done.len(), 0);
        assert_eq!(journal.changes().unwrap(), [file_made(&first)]);
        assert_eq!(journal.undo().unwrap().done.len(), 1);
        assert!(!journal.path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_change_that_cannot_be_taken_back_stays_and_the_others_are() {
        let folder = folder("stays");
        let journal = of_any(&folder.join("journal"));
        let (first, second) = (folder.join("first"), folder.join("second"));
        journal.make(&file_made(&first)).unwrap();
        journal.make(&file_made(&second)).unwrap();
        fs::remove_file(&second).unwrap();
        let undone = journal.undo().unwrap();
        assert_eq!((undone.done.len(), undone.failed.len()), (1, 1));
        assert!(!first.exists());
        assert_eq!(journal.changes().unwrap(), [file_made(&second)]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_change_that_fails_is_not_written_down_and_a_torn_line_is_refused() {
        let folder = folder("fails");
        let journal = of_any(&folder.join("journal"));
        assert!(matches!(journal.make(&Change::run("false", "true")), Err(JournalError::Change(_))));
        assert!(!journal.path.exists());
        fs::write(&journal.path, "{\"setting\": {").unwrap();
        fs::set_permissions(&journal.path, Permissions::from_mode(0o600)).unwrap();
        let error = journal.undo().unwrap_err().to_string();
        assert!(error.contains("line 1 is not a change"), "{error}");
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn commands_that_others_may_have_written_are_not_run() {
        let folder = folder("other-users");
        let (journal, planted) = (of_any(&folder.join("journal")), folder.join("planted"));
        journal.make(&Change::run("true", &format!("touch {}", planted.display()))).unwrap();
        fs::set_permissions(&journal.path, Permissions::from_mode(0o622)).unwrap();
        assert!(matches!(journal.undo(), Err(JournalError::OtherUsers { .. })));
        assert!(!planted.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    /// Found in a review: a process of the same user wrote a command into the journal, and root ran it.
    #[test]
    fn a_journal_with_a_line_that_netmem_does_not_write_is_refused_as_a_whole() {
        let folder = folder("foreign");
        let (path, planted) = (folder.join("journal"), folder.join("planted"));
        let line = |undo: &str| serde_json::to_string(&Change::run("true", undo)).unwrap();
        // There is no such interface.
        let key = "net.ipv4.conf.netmem-none.forwarding".to_owned();
        let ours = Change::Setting { key, from: "1".into(), to: "0".into() };
        let text =
            serde_json::to_string(&ours).unwrap() + "\n" + &line(&format!("touch {}", planted.display()));
        fs::write(&path, &text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let journal = Journal::at(&path);
        for refused in [journal.undo().map(drop), journal.undo_to(1).map(drop), journal.make(&ours)] {
            let error = refused.unwrap_err().to_string();
            let wanted = format!("journal {}: line 2 is no change that netmem makes", path.display());
            assert!(error.starts_with(&wanted), "{error}");
        }
        assert_eq!((fs::read_to_string(&path).unwrap(), planted.exists()), (text, false));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_change_of_a_form_that_would_not_be_undone_is_not_made() {
        let folder = folder("form");
        let (journal, planted) = (Journal::at(&folder.join("journal")), folder.join("planted"));
        let error = journal.make(&file_made(&planted)).unwrap_err().to_string();
        assert!(error.starts_with("not made, ") && error.contains("touch "), "{error}");
        assert!(!planted.exists() && !journal.path.exists());
        fs::remove_dir_all(folder).unwrap();
    }

    /// As above.
    #[test]
    fn only_the_changes_that_are_given_are_undone_whatever_stands_in_the_file() {
        let folder = folder("these");
        let journal = of_any(&folder.join("journal"));
        let [first, second, planted] = ["first", "second", "planted"].map(|name| folder.join(name));
        let mut changes = vec![file_made(&first), file_made(&second)];
        for change in &changes {
            journal.make(change).unwrap();
        }
        let foreign = Change::run("true", &format!("touch {}", planted.display()));
        fs::write(&journal.path, serde_json::to_string(&foreign).unwrap()).unwrap();
        // One of them cannot be undone at first.
        fs::remove_file(&second).unwrap();
        let undone = journal.undo_these(&mut changes).unwrap();
        assert_eq!((undone.done.len(), undone.failed.len()), (1, 1));
        assert_eq!((&changes, &journal.changes().unwrap()), (&vec![file_made(&second)], &changes));
        fs::write(&second, "").unwrap();
        assert_eq!(journal.undo_these(&mut changes).unwrap().done.len(), 1);
        assert!(![&first, &second, &planted, &journal.path].iter().any(|path| path.exists()));
        assert_eq!(journal.undo_these(&mut changes).unwrap().done.len(), 0);
        fs::remove_dir_all(folder).unwrap();
    }
}
