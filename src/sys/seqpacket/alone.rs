//! One process at a time makes a socket in a folder.

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Maximum number of tries, and the pause after each.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Keeps other processes that call this from the files beside `path` until it is dropped (flock(2) of the folder).
///
/// It waits a second at most, because every user that may read the folder may hold the lock. Then it returns None, and
/// also where the folder may not be read.
pub(super) fn beside(path: &Path) -> Option<OwnedFd> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = open(folder, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    for _ in 0..TRIES {
        match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => thread::sleep(PAUSE),
            done => return done.ok().map(|()| folder),
        }
    }
    None
}
