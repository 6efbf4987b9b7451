//! The lock of a journal (flock(2)), which is on the journal's file itself. A process that has it keeps it until it and the
//! processes that it has forked have ended or closed the file, also after a kill.

use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opens the file at this path for reading. Returns None if there is none, and `ELOOP` for a symbolic link, also for one
/// that leads nowhere.
pub(super) fn open(path: &Path) -> io::Result<Option<File>> {
    let no_link = OFlags::NOFOLLOW.bits().cast_signed();
    match OpenOptions::new().read(true).custom_flags(no_link).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        file => file.map(Some),
    }
}

/// A locked journal.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
}

impl Lock {
    /// Locks the file at this path, which is made if it does not exist. Fails with `WouldBlock` if another process has locked it.
    pub(super) fn take(path: &Path) -> io::Result<Lock> {
        loop {
            if let Some(lock) = Lock::take_existing(path)? {
                return Ok(lock);
            }
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder)?;
            }
            // Exclusive, so that a link to another file is not followed.
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
                _ => {}
            }
        }
    }

    /// As [`Lock::take`], but returns None if there is no file.
    pub(super) fn take_existing(path: &Path) -> io::Result<Option<Lock>> {
        loop {
            let Some(file) = open(path)? else { return Ok(None) };
            let lock = Lock::of(file, path)?;
            // Another process may have replaced or removed the file before it gave its lock back.
            if lock.is_at_its_path() {
                return Ok(Some(lock));
            }
        }
    }

    /// Locks a file that is or will be at this path.
    pub(super) fn of(file: File, path: &Path) -> io::Result<Lock> {
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Lock { file, path: path.to_owned() })
    }

    fn is_at_its_path(&self) -> bool {
        let number = |state: fs::Metadata| (state.dev(), state.ino());
        let here = self.file.metadata().map(number);
        here.is_ok_and(|here| fs::symlink_metadata(&self.path).map(number).is_ok_and(|there| here == there))
    }
}

impl Drop for Lock {
    /// Removes the file if it has no changes.
    fn drop(&mut self) {
        if self.file.metadata().is_ok_and(|state| state.len() == 0) && self.is_at_its_path() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
