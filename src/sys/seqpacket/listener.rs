//! The end that waits for peers: its path, who may connect there, and what happens to it.

use super::{Connection, Unclosed, alone, connected, name, new};
use crate::sys::errno::of_io;
use crate::sys::fork::Birthplace;
use crate::sys::user::own_user;
use rustix::fs::{Mode, OFlags, fchmod, fstat, open};
use rustix::io::Errno;
use rustix::net::{Shutdown, SocketFlags, accept_with, bind, listen, shutdown};
use std::fs::{self, Permissions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Maximum number of peers that wait to be accepted.
const BACKLOG: i32 = 8;

/// A file's device and number, which no other file has at the same time.
pub type Identity = (u64, u64);

/// The socket at `path`; None if there is none.
pub fn socket_at(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    found.file_type().is_socket().then(|| (found.dev(), found.ino()))
}

/// Who may connect to a socket in the file system, independent of the process's umask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The permission bits: a user that may write may connect.
    pub mode: u32,
    /// The group; None for the process's own.
    pub group: Option<u32>,
}

/// The owner alone.
impl Default for Access {
    fn default() -> Self {
        Access { mode: 0o600, group: None }
    }
}

/// Why no socket listens: the call that failed, and its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListenError {
    /// chown(2): this process may not give the socket to that group, or cannot.
    Chown {
        /// The group.
        group: u32,
        /// The error.
        errno: Errno,
    },
    /// chmod(2): the socket cannot have these permission bits.
    Chmod {
        /// The permission bits.
        mode: u32,
        /// The error.
        errno: Errno,
    },
    /// Any other call.
    Listen(Errno),
}

impl ListenError {
    fn errno(self) -> Errno {
        match self {
            ListenError::Chown { errno, .. }
            | ListenError::Chmod { errno, .. }
            | ListenError::Listen(errno) => errno,
        }
    }
}

impl From<Errno> for ListenError {
    fn from(errno: Errno) -> ListenError {
        ListenError::Listen(errno)
    }
}

/// Gives a socket of this process, to which no peer can connect yet, the requested access. It uses a descriptor of its
/// own and not the name, because others may have given the name to another file in the meantime.
fn give_access(path: &Path, made: Option<Identity>, access: Access) -> Result<(), ListenError> {
    let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&file)?;
    if made != Some((found.st_dev, found.st_ino)) || found.st_uid != own_user() {
        return Err(Errno::STALE.into());
    }
    let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Some(group) = access.group.filter(|group| *group != found.st_gid) {
        let given = std::os::unix::fs::chown(&by_descriptor, None, Some(group));
        given.map_err(|error| ListenError::Chown { group, errno: of_io(error) })?;
    }
    let mode = access.mode;
    if found.st_mode & 0o777 != mode {
        let given = fs::set_permissions(&by_descriptor, Permissions::from_mode(mode));
        given.map_err(|error| ListenError::Chmod { mode, errno: of_io(error) })?;
    }
    Ok(())
}

/// A socket that peers connect to. A drop removes its path, if the path is still this socket's.
#[derive(Debug)]
pub struct Listener {
    /// Present until the drop.
    socket: Option<OwnedFd>,
    pub(super) path: PathBuf,
    /// The file that was made at the path.
    pub(super) made: Option<Identity>,
    /// What its peers have left unclosed.
    unclosed: Unclosed,
    /// The error for which nobody could be accepted at the last attempt; 0 if there was none.
    failure: AtomicI32,
    birthplace: Birthplace,
}

impl Listener {
    /// Listens at `path` for peers of the process's own user: [`open`](Self::open) with mode 0600.
    ///
    /// # Errors
    /// As for that function.
    #[cfg(feature = "memif")]
    #[cold]
    pub fn new(path: &Path) -> Result<Listener, Errno> {
        Listener::open(path, Access::default())
    }

    /// Listens at `path`. If a socket without a listener is there already, it is removed first. The new socket has its
    /// mode and group before a peer can connect. A socket with an abstract name (`@NAME`) has neither.
    ///
    /// # Errors
    /// The error of bind(2), chown(2), chmod(2) or listen(2). `ADDRINUSE` if another socket listens there, or if
    /// another kind of file is there. `STALE` if another process put another file in its place, or removed it.
    #[cold]
    pub fn open(path: &Path, access: Access) -> Result<Listener, Errno> {
        Listener::open_by_steps(path, access).map_err(ListenError::errno)
    }

    /// Does the same as [`Listener::open`], and an error names the call that failed.
    ///
    /// # Errors
    /// As for that function.
    #[cold]
    pub fn open_by_steps(path: &Path, access: Access) -> Result<Listener, ListenError> {
        if name::is_abstract(path) {
            return Ok(Listener::open_abstract(path)?);
        }
        // Until it listens, the socket looks dead to others who want the path.
        let _alone = alone::beside(path);
        let (found, unclosed) = (socket_at(path), Unclosed::default());
        if found.is_some()
            && connected(path).map(|socket| Connection::new(socket, &unclosed)).err()
                == Some(Errno::CONNREFUSED)
            // No other process has removed the dead socket and listens at its own.
            && socket_at(path) == found
        {
            // If it is gone already, that is fine.
            let _ = fs::remove_file(path);
        }
        let socket = new()?;
        // The file that bind(2) makes has no more than the socket's own bits.
        fchmod(&socket, Mode::from_raw_mode(access.mode))?;
        bind(&socket, &name::address(path)?)?;
        let listener = Listener::of(socket, path, socket_at(path), unclosed);
        // The umask may have removed some of them.
        give_access(&listener.path, listener.made, access)?;
        listen(listener.socket(), BACKLOG)?;
        // One that did not wait may have taken it for dead, and no peer would ever find it.
        if socket_at(&listener.path) != listener.made {
            return Err(Errno::STALE.into());
        }
        Ok(listener)
    }

    /// Listens at an abstract name: there is no file, and every process of the network namespace may connect.
    #[cold]
    fn open_abstract(name: &Path) -> Result<Listener, Errno> {
        let socket = new()?;
        bind(&socket, &name::address(name)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Listener::of(socket, name, None, Unclosed::default()))
    }

    fn of(socket: OwnedFd, path: &Path, made: Option<Identity>, unclosed: Unclosed) -> Listener {
        let (socket, path, birthplace) = (Some(socket), path.to_owned(), Birthplace::here());
        Listener { socket, path, made, unclosed, failure: AtomicI32::new(0), birthplace }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Some(socket) => socket.as_fd(),
            None => unreachable!("the socket is there until the drop"),
        }
    }

    /// Accepts a peer that has connected. None if there is none now, or if no peer is accepted
    /// ([`refuses_peers`](Self::refuses_peers)).
    pub fn accept(&self) -> Option<Connection> {
        if self.refuses_peers() { None } else { self.take() }
    }

    /// Whether no peer is accepted, because former peers have sent too many descriptors whose close waits. Peers of other
    /// listeners do not count, except if those of all ports together have sent very many ([`Unclosed`]).
    pub fn refuses_peers(&self) -> bool {
        self.unclosed.is_too_much()
    }

    /// Leaves something that a peer has sent.
    #[cfg(test)]
    pub(crate) fn leave<T: Send + 'static>(&self, what: T) {
        self.unclosed.leave(what);
    }

    /// The number of things that its peers have left and that are not closed yet.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.unclosed.number()
    }

    /// The error of the last attempt to accept a peer, if this process or the system lacked something for it. None if that
    /// attempt accepted one, or found none.
    pub fn failure(&self) -> Option<Errno> {
        let errno = self.failure.load(Relaxed);
        (errno != 0).then(|| Errno::from_raw_os_error(errno))
    }

    fn take(&self) -> Option<Connection> {
        let accepted = accept_with(self.socket(), SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        // A peer that came and went does not count.
        let is_passing = |errno| matches!(errno, Errno::AGAIN | Errno::INTR | Errno::CONNABORTED);
        let failure = accepted.as_ref().err().filter(|&&errno| !is_passing(errno));
        self.failure.store(failure.map_or(0, |errno| errno.raw_os_error()), Relaxed);
        Some(Connection::new(accepted.ok()?, &self.unclosed))
    }
}

#[cfg(test)]
impl Listener {
    /// Accepts no peer any more, and is readable all the time.
    pub(crate) fn shut(&self) {
        shutdown(self.socket(), Shutdown::Both).expect("it listens");
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A child of fork(2) must not end its parent's socket.
        if self.birthplace.is_elsewhere() {
            return;
        }
        // Another process may have removed it, and made another one there.
        if self.made.is_some() && socket_at(&self.path) == self.made {
            let _ = fs::remove_file(&self.path);
        }
        // No peer can connect any more, and connected peers may have sent something already.
        let _ = shutdown(self.socket(), Shutdown::Both);
        while self.take().is_some() {}
        // What was sent by those that cannot be accepted is closed with the socket.
        if self.failure().is_some() {
            self.unclosed.leave(self.socket.take());
        }
    }
}
