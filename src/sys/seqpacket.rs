//! Unix sockets that carry whole messages with descriptors (unix(7), SOCK_SEQPACKET, SCM_RIGHTS). No call here waits,
//! except that [`Listener::open`] may wait a second for others that open a path in the same folder.

mod alone;
mod listener;
mod name;
#[cfg(test)]
mod tests;

use super::broker::{self, Request};
use super::errno::last_errno;
use super::fork::Birthplace;
#[cfg(feature = "memif")]
use super::slow_close;
#[cfg(feature = "memif")]
pub use super::slow_close::PeerDescriptor;
pub use super::slow_close::Unclosed;
use super::user::own_user;
pub use listener::*;
use rustix::io::Errno;
use rustix::net::sockopt::set_socket_passcred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, connect, recvmsg, sendmsg, shutdown,
    socket_with,
};
use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;

const ROOT: u32 = 0;
/// Maximum number of descriptors in one message (`SCM_MAX_FD`).
const DESCRIPTORS: usize = 253;
/// Maximum number of descriptors in a message of a peer that is not trusted. To look at each costs system calls.
const FEW: usize = 2;
/// Number of messages that are read when a connection is dropped.
const UNREAD: usize = 16;

fn new() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
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

/// The process at the other end of a socket when it connected, or began to listen (unix(7), SO_PEERCRED).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerProcess {
    /// Its process number. None if this process cannot see its process namespace.
    pub process: Option<u32>,
    /// Its user.
    pub user: u32,
}

impl PeerProcess {
    /// Returns true if it runs as root or as the user of this process.
    #[cfg_attr(not(feature = "memif"), allow(dead_code))]
    pub fn is_of_root_or_own(&self) -> bool {
        self.user == ROOT || self.user == own_user()
    }
}

/// Returns the process that listens at `path`, or at the abstract name `@NAME`.
///
/// # Errors
/// As [`Connection::open`]. `AGAIN` if too many others have connected that it has not accepted.
#[cold]
#[cfg_attr(not(feature = "memif"), allow(dead_code))]
pub fn listener_of(path: &Path) -> Result<PeerProcess, Errno> {
    connected(path).and_then(|socket| peer_of(socket.as_fd()))
}

fn peer_of(socket: BorrowedFd<'_>) -> Result<PeerProcess, Errno> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let (value, mut len) = ((&raw mut peer).cast(), size_of::<libc::ucred>() as libc::socklen_t);
    // SAFETY: the kernel writes at most `len` bytes, to plain integers that have as many and live during the call.
    let done = unsafe {
        libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, value, &raw mut len)
    };
    if done < 0 {
        return Err(last_errno());
    }
    let process = u32::try_from(peer.pid).ok().filter(|process| *process > 0);
    Ok(PeerProcess { process, user: peer.uid })
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
        peer_of(self.socket()).map(|peer| peer.user)
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
