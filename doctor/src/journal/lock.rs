//! The lock of a journal (flock(2)), which is on the journal's file itself. A process that has it keeps it until it and the
//! processes that it has forked have ended or closed the file, also after a kill.

use super::{JournalError, failed};
use rustix::fs::{FlockOperation, OFlags, flock};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The folder of netmem's own files, which systemd and the first journal there make. Any other folder is the user's.
const OWN_FOLDER: &str = "/run/netmem";

/// Opens the file at this path for reading. Returns None if there is none. Fails if it is anything but a file that only this user
/// may write, and leaves it alone.
pub(super) fn open(path: &Path) -> Result<Option<File>, JournalError> {
    // Before it is opened: that could wait for the writer of a pipe, or start a device.
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        state => check(path, &state.map_err(|error| failed(path, error))?)?,
    }
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| failed(path, error))?,
    };
    // Another file may have taken the name since.
    check(path, &file.metadata().map_err(|error| failed(path, error))?)?;
    Ok(Some(file))
}

fn check(path: &Path, state: &Metadata) -> Result<(), JournalError> {
    let path = path.to_owned();
    if state.is_symlink() {
        return Err(JournalError::Link { path });
    }
    if !state.is_file() {
        return Err(JournalError::NoFile { path });
    }
    if state.uid() != rustix::process::geteuid().as_raw() || state.mode() & 0o022 != 0 {
        return Err(JournalError::OtherUsers { path });
    }
    Ok(())
}

/// A locked journal.
#[derive(Debug)]
pub(super) struct Lock {
    file: File,
    path: PathBuf,
    /// True if this process has made the file.
    is_own: bool,
}

impl Lock {
    /// Locks the file at this path, which is made if it does not exist.
    pub(super) fn take(path: &Path) -> Result<Lock, JournalError> {
        loop {
            if let Some(lock) = Lock::take_existing(path)? {
                return Ok(lock);
            }
            if path.parent() == Some(Path::new(OWN_FOLDER)) {
                fs::create_dir_all(OWN_FOLDER).map_err(|error| failed(path, error))?;
            }
            // Exclusive, so that a link to another file is not followed.
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                made => {
                    let lock = Lock::of(made.map_err(|error| failed(path, error))?, path, true)?;
                    if lock.is_at_its_path() {
                        return Ok(lock);
                    }
                }
            }
        }
    }

    /// As [`Lock::take`], but returns None if there is no file.
    pub(super) fn take_existing(path: &Path) -> Result<Option<Lock>, JournalError> {
        loop {
            let Some(file) = open(path)? else { return Ok(None) };
            let lock = Lock::of(file, path, false)?;
            // Another process may have replaced or removed the file before it gave its lock back.
            if lock.is_at_its_path() {
                return Ok(Some(lock));
            }
        }
    }

    /// Locks a file that is or will be at this path. Fails with [`JournalError::InUse`] if another process has locked it.
    pub(super) fn of(file: File, path: &Path, is_own: bool) -> Result<Lock, JournalError> {
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|errno| failed(path, errno.into()))?;
        Ok(Lock { file, path: path.to_owned(), is_own })
    }

    fn is_at_its_path(&self) -> bool {
        let number = |state: Metadata| (state.dev(), state.ino());
        let here = self.file.metadata().map(number);
        here.is_ok_and(|here| fs::symlink_metadata(&self.path).map(number).is_ok_and(|there| here == there))
    }
}

impl Drop for Lock {
    /// Removes the file if this process has made it and it has no changes.
    fn drop(&mut self) {
        let is_empty = || self.file.metadata().is_ok_and(|state| state.len() == 0);
        if self.is_own && is_empty() && self.is_at_its_path() {
            let _ = fs::remove_file(&self.path);
        }
    }
}
