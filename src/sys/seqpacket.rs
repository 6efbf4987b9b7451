//! Unix sockets that carry whole messages with descriptors (unix(7), SOCK_SEQPACKET, SCM_RIGHTS). Nothing here waits.

mod name;
#[cfg(test)]
mod tests;

use super::broker::{self, Request};
use super::errno::of_io;
use super::fork::Birthplace;
use super::stranger;
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

/// Descriptors that one message may bring (`SCM_MAX_FD`).
const DESCRIPTORS: usize = 253;
/// Peers that may wait to be accepted.
const BACKLOG: i32 = 8;

fn new() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
}

/// A file's device and number, which no other file has at the same time.
pub(super) type Identity = (u64, u64);

/// Which socket lies at `path`; None where there is none.
pub(super) fn socket_at(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    found.file_type().is_socket().then(|| (found.dev(), found.ino()))
}

/// Who may connect to a socket in the file system, independent of the process's umask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// The permission bits: who may write may connect.
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

/// Gives a socket of ours that nobody can connect to yet the access that is wanted. It is taken by a descriptor of its own, not
/// by its name, which others may have given to another file meanwhile.
fn give_access(path: &Path, made: Option<Identity>, access: Access) -> Result<(), Errno> {
    let file = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
    let found = fstat(&file)?;
    if made != Some((found.st_dev, found.st_ino)) || found.st_uid != own_user() {
        return Err(Errno::STALE);
    }
    let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Some(group) = access.group.filter(|group| *group != found.st_gid) {
        std::os::unix::fs::chown(&by_descriptor, None, Some(group)).map_err(of_io)?;
    }
    if found.st_mode & 0o777 != access.mode {
        fs::set_permissions(&by_descriptor, Permissions::from_mode(access.mode)).map_err(of_io)?;
    }
    Ok(())
}

/// A socket that peers connect to; its path goes when it is dropped, if it is still this socket's.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    path: PathBuf,
    /// What was made at the path.
    made: Option<Identity>,
    birthplace: Birthplace,
}

impl Listener {
    /// Listens at `path` for peers of the process's own user: [`open`](Self::open) with mode 0600.
    ///
    /// # Errors
    /// As there.
    #[cfg(feature = "memif")]
    #[cold]
    pub fn new(path: &Path) -> Result<Listener, Errno> {
        Listener::open(path, Access::default())
    }

    /// Listens at `path`. A socket that is there already and that nobody listens at is taken away first. The new one has its
    /// mode and group before anybody can connect; one with an abstract name (`@NAME`) has neither.
    ///
    /// # Errors
    /// What bind(2), chown(2), chmod(2) or listen(2) says; `ADDRINUSE` where somebody listens, or something else is there;
    /// `STALE` where somebody put another file in its place.
    #[cold]
    pub fn open(path: &Path, access: Access) -> Result<Listener, Errno> {
        if name::is_abstract(path) {
            return Listener::open_abstract(path);
        }
        let found = socket_at(path);
        if found.is_some()
            && connected(path).map(Connection::new).err() == Some(Errno::CONNREFUSED)
            // Nobody else has taken the dead one away and listens at his own.
            && socket_at(path) == found
        {
            // Should it be gone meanwhile, that is as good.
            let _ = fs::remove_file(path);
        }
        let socket = new()?;
        // What bind(2) makes has no more than the socket's own bits.
        fchmod(&socket, Mode::from_raw_mode(access.mode))?;
        bind(&socket, &name::address(path)?)?;
        let (path, made, birthplace) = (path.to_owned(), socket_at(path), Birthplace::here());
        let listener = Listener { socket, path, made, birthplace };
        // The umask may have taken some of them.
        give_access(&listener.path, listener.made, access)?;
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
    }

    /// Listens at an abstract name: there is no file, and every process of the network namespace may connect.
    #[cold]
    fn open_abstract(name: &Path) -> Result<Listener, Errno> {
        let socket = new()?;
        bind(&socket, &name::address(name)?)?;
        listen(&socket, BACKLOG)?;
        Ok(Listener { socket, path: name.to_owned(), made: None, birthplace: Birthplace::here() })
    }

    /// A peer that has connected; None if there is none now, or if too many have sent what cannot be closed.
    pub fn accept(&self) -> Option<Connection> {
        if stranger::are_too_many() {
            return None;
        }
        self.take()
    }

    fn take(&self) -> Option<Connection> {
        // A peer that came and went is none; whatever else is wrong is wrong the next time as well.
        accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok().map(Connection::new)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // A child of fork(2) ends nothing of its parent's.
        if self.birthplace.is_elsewhere() {
            return;
        }
        // Somebody may have taken it away, and have made another there.
        if self.made.is_some() && socket_at(&self.path) == self.made {
            let _ = fs::remove_file(&self.path);
        }
        // Nobody connects any more, and those who have may have sent something already.
        let _ = shutdown(&self.socket, Shutdown::Both);
        while self.take().is_some() {}
    }
}

/// One end of a connection. Nothing that a peer sends by it makes its receiver wait, also when it is dropped.
#[derive(Debug)]
pub struct Connection {
    /// There until it is dropped.
    socket: Option<OwnedFd>,
    /// The peer sent something whose close may wait, which is still in the socket.
    strange: Cell<bool>,
    birthplace: Birthplace,
}

/// A connection to the listener at `path`, whose descriptor goes to another process.
///
/// # Errors
/// As [`Connection::open`].
pub fn connected(path: &Path) -> Result<OwnedFd, Errno> {
    let socket = new()?;
    connect(&socket, &name::address(path)?)?;
    Ok(socket)
}

/// What came.
#[derive(Debug)]
pub enum Received {
    /// A message of that many bytes, with descriptors; longer than the room there was if the number is larger.
    Message(usize, Vec<OwnedFd>),
    /// A descriptor that is neither memory, an eventfd nor a pipe: nothing more is received.
    Stranger,
    /// Nothing yet.
    Nothing,
    /// The peer is gone.
    End,
}

impl Connection {
    /// Connects to the listener at `path`, or at the abstract name `@NAME`.
    ///
    /// # Errors
    /// What connect(2) says: `NOENT` and `CONNREFUSED` where nobody listens.
    #[cold]
    pub fn open(path: &Path) -> Result<Connection, Errno> {
        if stranger::are_too_many() {
            return Err(Errno::AGAIN);
        }
        if let Some(broker) = broker::current() {
            let connected = broker::ask_for_one(broker, &Request::Connect(path.to_owned()), &[]);
            return Ok(Connection::new(connected?));
        }
        connected(path).map(Connection::new)
    }

    fn new(socket: OwnedFd) -> Connection {
        // Without it an empty message is taken for the end, and what is behind it is not seen.
        let _ = set_socket_passcred(&socket, true);
        Connection { socket: Some(socket), strange: Cell::new(false), birthplace: Birthplace::here() }
    }

    fn socket(&self) -> BorrowedFd<'_> {
        match &self.socket {
            Some(socket) => socket.as_fd(),
            None => unreachable!("the socket is there until the drop"),
        }
    }

    /// The user that the peer ran as when it connected, or began to listen (unix(7), SO_PEERCRED).
    ///
    /// # Errors
    /// What getsockopt(2) says.
    #[cold]
    pub fn peer_user(&self) -> Result<u32, Errno> {
        socket_peercred(self.socket()).map(|peer| peer.uid.as_raw())
    }

    /// Sends a message, with a descriptor if there is one.
    ///
    /// # Errors
    /// What sendmsg(2) says: `AGAIN` where the peer does not read, `PIPE` where it is gone.
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

    /// Takes the next message into `into`. Descriptors whose close may wait are not received.
    #[cold]
    pub fn receive(&self, into: &mut [u8]) -> Received {
        self.receive_if(into, stranger::is_known)
    }

    /// As [`Connection::receive`], from a peer that is trusted to send nothing whose close waits.
    #[cold]
    pub fn receive_trusting(&self, into: &mut [u8]) -> Received {
        self.receive_if(into, |_| true)
    }

    fn receive_if(&self, into: &mut [u8], is_known: impl Fn(&OwnedFd) -> bool) -> Received {
        if self.strange.get() {
            return Received::End;
        }
        // The message stays where it is, so what it brings is not closed for good with these.
        let (peeked, descriptors) = self.take(&mut [0], RecvFlags::PEEK);
        let unseen = match peeked {
            // What comes from now on was not looked at.
            Err(Errno::AGAIN | Errno::INTR) => return Received::Nothing,
            Ok(None) | Err(_) => return Received::End,
            // What this process has no descriptors left for, it does not know.
            Ok(Some(Taken { unseen, .. })) => unseen,
        };
        if unseen || !descriptors.iter().all(is_known) {
            self.strange.set(true);
            stranger::leave(descriptors);
            return Received::Stranger;
        }
        match self.take(into, RecvFlags::empty()) {
            (Ok(Some(Taken { len, .. })), descriptors) => Received::Message(len, descriptors),
            (Err(Errno::AGAIN | Errno::INTR), _) => Received::Nothing,
            _ => Received::End,
        }
    }

    /// The next message, None at the end, and the descriptors that came with it.
    fn take(&self, into: &mut [u8], flags: RecvFlags) -> (Result<Option<Taken>, Errno>, Vec<OwnedFd>) {
        let mut room =
            [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS), ScmCredentials(1))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = flags | RecvFlags::CMSG_CLOEXEC | RecvFlags::TRUNC | RecvFlags::DONTWAIT;
        let got = recvmsg(self.socket(), &mut [IoSliceMut::new(into)], &mut control, flags);
        let (mut descriptors, mut is_message) = (Vec::new(), false);
        for one in control.drain() {
            match one {
                RecvAncillaryMessage::ScmRights(some) => descriptors.extend(some),
                // The end comes without, and an empty message with it.
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

/// A message that was taken, or looked at.
struct Taken {
    len: usize,
    /// It brings descriptors that there was no room for.
    unseen: bool,
}

impl Drop for Connection {
    fn drop(&mut self) {
        // A child of fork(2) ends nothing of its parent's, and takes nothing that was sent to it.
        if self.birthplace.is_elsewhere() {
            return;
        }
        // The peer sends nothing any more; what it has sent is closed with the socket.
        let _ = shutdown(self.socket(), Shutdown::Both);
        for _ in 0..2 {
            // Once more behind the error of a peer that went without reading all.
            while matches!(self.receive(&mut [0]), Received::Message(..)) {}
        }
        let socket = self.socket.take();
        if self.strange.get() {
            stranger::leave(socket.into_iter().collect());
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket()
    }
}
