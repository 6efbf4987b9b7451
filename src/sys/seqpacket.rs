//! Unix sockets that carry whole messages with descriptors (unix(7), SOCK_SEQPACKET, SCM_RIGHTS). No call here waits,
//! except that [`Listener::open`] may wait a second for others that open a path in the same folder.

mod alone;
mod name;
#[cfg(test)]
mod tests;

use super::broker::{self, Request};
use super::errno::of_io;
use super::fork::Birthplace;
#[cfg(feature = "memif")]
use super::slow_close;
#[cfg(feature = "memif")]
pub use super::slow_close::PeerDescriptor;
pub use super::slow_close::Unclosed;
use super::user::own_user;
use rustix::fs::{Mode, OFlags, fchmod, fstat, open};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_passcred, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, accept_with, bind, connect, listen,
    recvmsg, sendmsg, shutdown, socket_with,
};
use std::cell::Cell;
use std::fs::{self, Permissions};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// Maximum number of descriptors in one message (`SCM_MAX_FD`).
const DESCRIPTORS: usize = 253;
/// Maximum number of descriptors in a message of a peer that is not trusted. To look at each costs system calls.
const FEW: usize = 2;
/// Number of messages that are read when a connection is dropped.
const UNREAD: usize = 16;
/// Maximum number of peers that wait to be accepted.
const BACKLOG: i32 = 8;

fn new() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

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
    path: PathBuf,
    /// The file that was made at the path.
    made: Option<Identity>,
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

    /// Why nobody could be accepted at the last attempt: this process or the system lacks something. None if somebody was
    /// accepted, or nobody had connected.
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

/// One end of a connection. Nothing that a peer sends makes its receiver wait, also when the connection is dropped.
#[derive(Debug)]
pub struct Connection {
    /// Present until it is dropped.
    socket: Option<OwnedFd>,
    /// The peer sent a descriptor whose close may wait, and the message is still in the socket.
    has_unknown: Cell<bool>,
    /// What peers have left unclosed: those of the listener that accepted this one, or of the port that connected.
    unclosed: Unclosed,
    birthplace: Birthplace,
}

/// Connects to the listener at `path`, for a descriptor that goes to another process.
///
/// # Errors
/// As [`Connection::open`].
pub fn connected(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = new()?;
    connect(&socket, &name::address(path)?)?;
    Ok(socket)
}

/// The result of a receive.
#[derive(Debug)]
pub enum Received {
    /// A message of that many bytes, with descriptors. If the number is larger than the buffer, the message was cut.
    Message(usize, Vec<OwnedFd>),
    /// A descriptor that is neither memory nor an eventfd, or more descriptors than expected: nothing more is received.
    UnknownDescriptor,
    /// This process is out of descriptors, so it has no room for those of the message: nothing more is received.
    NoRoom,
    /// No message yet.
    Nothing,
    /// The peer is gone.
    End,
}

impl Connection {
    /// Connects to the listener at `path`, or at the abstract name `@NAME`.
    ///
    /// # Errors
    /// The error of connect(2): `NOENT` and `CONNREFUSED` if there is no listener. `TOOMANYREFS`, which is not an error of
    /// connect(2), if the peers of very many ports have sent descriptors whose close waits.
    #[cold]
    pub fn open(path: &Path) -> Result<Connection, Errno> {
        Connection::open_counted(path, &Unclosed::default())
    }

    /// Does the same for a port that connects again and again. What its peers leave unclosed counts there.
    ///
    /// # Errors
    /// As for that function. `TOOMANYREFS` also if the peers of this port have sent too many descriptors whose close
    /// waits.
    #[cold]
    pub fn open_counted(path: &Path, unclosed: &Unclosed) -> Result<Connection, Errno> {
        if unclosed.is_too_much() {
            return Err(Errno::TOOMANYREFS);
        }
        let socket = match broker::current() {
            Some(broker) => broker::ask_for_one(broker, &Request::Connect(path.to_owned()), &[])?,
            None => connected(path)?,
        };
        Ok(Connection::new(socket, unclosed))
    }

    fn new(socket: OwnedFd, unclosed: &Unclosed) -> Connection {
        // Without it an empty message is taken for the end, and messages behind it are not seen.
        let _ = set_socket_passcred(&socket, true);
        let (has_unknown, unclosed) = (Cell::new(false), unclosed.clone());
        Connection { socket: Some(socket), has_unknown, unclosed, birthplace: Birthplace::here() }
    }

    /// A descriptor that came with a message of the peer. If it is left, it counts as what the peer left unclosed.
    #[cfg(feature = "memif")]
    pub fn peer_descriptor(&self, descriptor: OwnedFd) -> PeerDescriptor {
        PeerDescriptor::new(descriptor, &self.unclosed)
    }

    fn socket(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Some(socket) => socket.as_fd(),
            None => unreachable!("the socket is there until the drop"),
        }
    }

    /// The user of the peer when it connected, or began to listen (unix(7), SO_PEERCRED).
    ///
    /// # Errors
    /// The error of getsockopt(2).
    #[cold]
    pub fn peer_user(&self) -> Result<u32, Errno> {
        socket_peercred(self.socket()).map(|peer| peer.uid.as_raw())
    }

    /// Sends a message, with a descriptor if there is one.
    ///
    /// # Errors
    /// The error of sendmsg(2): `AGAIN` if the peer does not read, `PIPE` if it is gone.
    #[cold]
    pub fn send(&self, message: &[u8], descriptor: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let descriptors = descriptor.as_slice();
        if !descriptors.is_empty() {
            // There is room for one.
            control.push(SendAncillaryMessage::ScmRights(descriptors));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(self.socket(), &[IoSlice::new(message)], &mut control, flags)?;
        Ok(())
    }

    /// Takes the next message into `into`, with at most two descriptors. Descriptors whose close may wait are not
    /// received.
    #[cfg(feature = "memif")]
    #[cold]
    pub fn receive(&self, into: &mut [u8]) -> Received {
        self.receive_if(into, FEW, slow_close::is_known)
    }

    /// Does the same as [`Connection::receive`] for a peer that is trusted to send nothing whose close waits, with any
    /// number of descriptors.
    #[cold]
    pub fn receive_trusting(&self, into: &mut [u8]) -> Received {
        self.receive_if(into, DESCRIPTORS, |_| true)
    }

    fn receive_if(&self, into: &mut [u8], most: usize, is_known: impl Fn(&OwnedFd) -> bool) -> Received {
        if self.has_unknown.get() {
            return Received::End;
        }
        // The message stays in the socket, so closing these is not the last close of its descriptors.
        let (peeked, descriptors) = self.take(&mut [0], most, RecvFlags::PEEK);
        let unseen = match peeked {
            // Messages that come from now on were not checked.
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Ok(None) | Err(_) => return Received::End,
            Ok(Some(Taken { unseen, .. })) => unseen,
        };
        if unseen || !descriptors.iter().all(is_known) {
            self.has_unknown.set(true);
            // If there are more than `most`, that many came.
            let has_no_room = unseen && descriptors.len() < most;
            self.unclosed.leave(descriptors);
            return if has_no_room { Received::NoRoom } else { Received::UnknownDescriptor };
        }
        // The message may need their room.
        drop(descriptors);
        match self.take(into, most, RecvFlags::empty()) {
            // Another thread has taken the room.
            (Ok(Some(Taken { unseen: true, .. })), _) => {
                self.has_unknown.set(true);
                Received::NoRoom
            }
            (Ok(Some(Taken { len, .. })), descriptors) => Received::Message(len, descriptors),
            (Err(Errno::AGAIN | Errno::INTR), _) => Received::Nothing,
            _ => Received::End,
        }
    }

    /// Takes the next message, None at the end, and the descriptors that came with it, `most` at most.
    fn take(
        &self,
        into: &mut [u8],
        most: usize,
        flags: RecvFlags,
    ) -> (Result<Option<Taken>, Errno>, Vec<OwnedFd>) {
        let mut room =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS), ScmCredentials(1))];
        let bytes = rustix::cmsg_space!(ScmRights(most), ScmCredentials(1));
        let mut control = RecvAncillaryBuffer::new(&mut room[..bytes]);
        let flags = flags | RecvFlags::CMSG_CLOEXEC | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let got = recvmsg(self.socket(), &mut [IoSliceMut::new(into)], &mut control, flags);
        let (mut descriptors, mut is_message) = (Vec::new(), false);
        for one in control.drain() {
            match one {
                RecvAncillaryMessage::ScmRights(some) => descriptors.extend(some),
                // The end comes without credentials, an empty message with them.
                RecvAncillaryMessage::ScmCredentials(_) => is_message = true,
                _ => {}
            }
        }
        let taken = got.map(|got| {
            let unseen = got.flags.contains(ReturnFlags::CTRUNC);
            is_message.then_some(Taken { len: got.bytes, unseen })
        });
        (taken, descriptors)
    }
}

/// A message that was taken or peeked at.
struct Taken {
    len: usize,
    /// Whether it brings descriptors that there was no room for.
    unseen: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A child of fork(2) must not end its parent's connection, and must not take messages that were sent to it.
        if self.birthplace.is_elsewhere() {
            return;
        }
        // The peer sends nothing any more. Messages that it has sent are closed with the socket, so those with
        // descriptors, and more than a few, are left to another thread.
        let _ = shutdown(self.socket(), Shutdown::Both);
        let mut unread = UNREAD;
        for _ in 0..2 {
            // Read once more behind the error of a peer that left without reading all.
            while unread > 0 && matches!(self.receive_if(&mut [0], FEW, |_| false), Received::Message(..)) {
                unread -= 1;
            }
        }
        let socket = self.socket.take();
        if self.has_unknown.get() || unread == 0 {
            self.unclosed.leave(socket);
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket()
    }
}
