//! Unix sockets that carry whole messages with descriptors (unix(7), SOCK_SEQPACKET, SCM_RIGHTS). Nothing here waits.

use super::fork::Birthplace;
use super::stranger;
use super::user::own_user;
use rustix::fs::{Mode, OFlags, fchmod, fstat, open};
use rustix::io::Errno;
use rustix::net::sockopt::{set_socket_passcred, socket_peercred};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind,
    connect, listen, recvmsg, sendmsg, shutdown, socket_with,
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
type Identity = (u64, u64);

/// Which socket lies at `path`; None where there is none.
fn socket_at(path: &Path) -> Option<Identity> {
    let found = fs::symlink_metadata(path).ok()?;
    found.file_type().is_socket().then(|| (found.dev(), found.ino()))
}

/// Who may connect to a socket in the file system, whatever the process's umask is.
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
    let of = |error: std::io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
    let by_descriptor = format!("/proc/self/fd/{}", file.as_raw_fd());
    if let Some(group) = access.group.filter(|group| *group != found.st_gid) {
        std::os::unix::fs::chown(&by_descriptor, None, Some(group)).map_err(of)?;
    }
    if found.st_mode & 0o777 != access.mode {
        fs::set_permissions(&by_descriptor, Permissions::from_mode(access.mode)).map_err(of)?;
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
    #[cold]
    pub fn new(path: &Path) -> Result<Listener, Errno> {
        Listener::open(path, Access::default())
    }

    /// Listens at `path`. A socket that is there already and that nobody listens at is taken away first. The new one has its
    /// mode and group before anybody can connect.
    ///
    /// # Errors
    /// What bind(2), chown(2), chmod(2) or listen(2) says; `ADDRINUSE` where somebody listens, or something else is there;
    /// `STALE` where somebody put another file in its place.
    #[cold]
    pub fn open(path: &Path, access: Access) -> Result<Listener, Errno> {
        let found = socket_at(path);
        if found.is_some()
            && Connection::open(path).err() == Some(Errno::CONNREFUSED)
            // Nobody else has taken the dead one away and listens at his own.
            && socket_at(path) == found
        {
            // Should it be gone meanwhile, that is as good.
            let _ = fs::remove_file(path);
        }
        let socket = new()?;
        // What bind(2) makes has no more than the socket's own bits.
        fchmod(&socket, Mode::from_raw_mode(access.mode))?;
        bind(&socket, &SocketAddrUnix::new(path)?)?;
        let (path, made, birthplace) = (path.to_owned(), socket_at(path), Birthplace::here());
        let listener = Listener { socket, path, made, birthplace };
        // The umask may have taken some of them.
        give_access(&listener.path, listener.made, access)?;
        listen(&listener.socket, BACKLOG)?;
        Ok(listener)
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
    /// Connects to whoever listens at `path`.
    ///
    /// # Errors
    /// What connect(2) says: `NOENT` and `CONNREFUSED` where nobody listens.
    #[cold]
    pub fn open(path: &Path) -> Result<Connection, Errno> {
        let socket = new()?;
        if stranger::are_too_many() {
            return Err(Errno::AGAIN);
        }
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Connection::new(socket))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::event::Event;
    use std::time::Duration;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("netmem-{}-{name}", std::process::id()))
    }

    #[test]
    fn messages_travel_whole_with_descriptors_and_the_end_is_seen() {
        let path = path("travel");
        let listener = Listener::new(&path).unwrap();
        assert!(listener.accept().is_none());
        let client = Connection::open(&path).unwrap();
        let server = listener.accept().unwrap();
        let mut room = [0; 8];
        assert!(matches!(server.receive(&mut room), Received::Nothing));
        let event = Event::new().unwrap();
        client.send(b"one", Some(event.as_fd())).unwrap();
        client.send(b"two and more", None).unwrap();
        let Received::Message(3, descriptors) = server.receive(&mut room) else { panic!("no message") };
        rustix::io::write(&descriptors[0], &1_u64.to_ne_bytes()).unwrap();
        assert!(event.clear(), "it is the same event");
        let Received::Message(12, none) = server.receive(&mut room) else { panic!("no message") };
        assert!(none.is_empty(), "longer than the room, and its length is known");
        client.send(b"", None).unwrap();
        client.send(b"last", None).unwrap();
        drop(client);
        for len in [0, 4] {
            let Received::Message(n, _) = server.receive(&mut room) else { panic!("no message") };
            assert_eq!(n, len);
        }
        assert!(matches!(server.receive(&mut room), Received::End));
        assert_eq!(server.send(b"x", None), Err(Errno::PIPE));
        drop(listener);
        assert_eq!(Connection::open(&path).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn descriptors_that_are_more_than_anybody_asked_for_are_closed() {
        let path = path("descriptors");
        let listener = Listener::new(&path).unwrap();
        let client = Connection::open(&path).unwrap();
        let server = listener.accept().unwrap();
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(7))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let descriptors = [write.as_fd(); 7];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(client.socket(), &[IoSlice::new(b"seven")], &mut control, SendFlags::NOSIGNAL).unwrap();
        drop(write);
        let mut byte = [0];
        assert_eq!(rustix::io::read(&read, &mut byte), Err(Errno::AGAIN), "they are on their way");
        let Received::Message(5, received) = server.receive(&mut [0; 8]) else { panic!("no message") };
        assert_eq!(received.len(), 7);
        drop(received);
        assert_eq!(rustix::io::read(&read, &mut byte), Ok(0), "no end of the pipe is left open");
    }

    /// Seen: a socket was open to whom the umask left it, to everybody under one of 000.
    #[test]
    fn a_socket_has_the_mode_that_is_asked_for_and_none_of_the_umask() {
        let path = path("mode");
        for mode in [0o600, 0o660, 0o666, 0o622] {
            let _listener = Listener::open(&path, Access { mode, group: None }).unwrap();
            assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o7777, mode, "{mode:o}");
        }
        let _listener = Listener::new(&path).unwrap();
        assert_eq!(fs::symlink_metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn a_peer_is_known_by_its_user_at_both_ends() {
        let path = path("user");
        let listener = Listener::new(&path).unwrap();
        let client = Connection::open(&path).unwrap();
        let server = listener.accept().unwrap();
        assert_eq!([client.peer_user(), server.peer_user()], [Ok(own_user()); 2]);
    }

    /// One end of a connection whose last close waits for ten minutes: the other end takes nothing.
    fn lingering() -> (OwnedFd, [OwnedFd; 2]) {
        use std::net::{TcpListener, TcpStream};
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (other, _) = listener.accept().unwrap();
        rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::from_secs(600))).unwrap();
        stream.set_nonblocking(true).unwrap();
        while std::io::Write::write(&mut &stream, &[0; 65536]).is_ok() {}
        (stream.into(), [listener.into(), other.into()])
    }

    /// Sends descriptors, and keeps none of them.
    fn send_all(from: &Connection, descriptors: Vec<OwnedFd>) {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
        assert!(control.push(SendAncillaryMessage::ScmRights(&borrowed)));
        sendmsg(from.socket(), &[IoSlice::new(b"here")], &mut control, SendFlags::NOSIGNAL).unwrap();
    }

    #[test]
    fn a_descriptor_whose_close_waits_is_not_waited_for_received_unread_or_never_accepted() {
        let event = || rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        let (done, ended) = std::sync::mpsc::channel();
        let mut others = Vec::new();
        for (case, before) in [("alone", 0), ("behind another", 1)] {
            let path = path(&format!("linger-{before}"));
            let listener = Listener::new(&path).unwrap();
            let clients = [(); 3].map(|()| Connection::open(&path).unwrap());
            for client in &clients {
                let (stream, other) = lingering();
                others.push(other);
                client.send(b"", None).unwrap();
                send_all(client, (0..before).map(|_| event()).chain([stream]).collect());
            }
            let done = done.clone();
            std::thread::spawn(move || {
                let (received, unread) = (listener.accept().unwrap(), listener.accept().unwrap());
                assert!(matches!(received.receive(&mut [0; 8]), Received::Message(0, _)));
                assert!(matches!(received.receive(&mut [0; 8]), Received::Stranger));
                assert!(matches!(received.receive(&mut [0; 8]), Received::End));
                drop((received, unread, listener));
                done.send(case).unwrap();
            });
            assert_eq!(ended.recv_timeout(Duration::from_secs(60)), Ok(case), "it waits");
            drop(clients);
        }
        // As whoever sent them would end them: reset, and closed at once.
        drop(others);
    }

    #[test]
    fn a_path_that_somebody_else_has_made_his_own_stays() {
        let path = path("taken");
        let first = Listener::new(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = Listener::new(&path).unwrap();
        drop(first);
        Connection::open(&path).unwrap();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_or_a_file_is_not() {
        let path = path("replaced");
        let dead = new().unwrap();
        bind(&dead, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        drop(dead);
        let listener = Listener::new(&path).unwrap();
        assert_eq!(Listener::new(&path).unwrap_err(), Errno::ADDRINUSE);
        drop(listener);
        fs::write(&path, "precious").unwrap();
        assert_eq!(Listener::new(&path).unwrap_err(), Errno::ADDRINUSE);
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }
}
