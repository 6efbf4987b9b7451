//! Unix sockets that carry whole messages with descriptors (unix(7), SOCK_SEQPACKET, SCM_RIGHTS). Nothing here waits.

use super::fork::Birthplace;
use super::process::own_user;
use rustix::fs::{Mode, OFlags, fchmod, fstat, open};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with, bind, connect,
    listen, recvmsg, sendmsg, socket_with,
};
use std::fs::{self, Permissions};
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Descriptors that one message may bring at least; the kernel closes those that there is no room for.
const DESCRIPTORS: usize = 4;
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

    /// A peer that has connected; None if there is none now.
    pub fn accept(&self) -> Option<Connection> {
        // A peer that came and went is none; whatever else is wrong is wrong the next time as well.
        accept_with(&self.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).ok().map(Connection)
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Somebody may have taken it away, and have made another there; and it is not a child's to take away.
        if !self.birthplace.is_elsewhere() && self.made.is_some() && socket_at(&self.path) == self.made {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection(OwnedFd);

/// What came.
#[derive(Debug)]
pub enum Received {
    /// A message of that many bytes, with descriptors; longer than the room there was if the number is larger.
    Message(usize, Vec<OwnedFd>),
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
        connect(&socket, &SocketAddrUnix::new(path)?)?;
        Ok(Connection(socket))
    }

    /// The user that the peer ran as when it connected, or began to listen (unix(7), SO_PEERCRED).
    ///
    /// # Errors
    /// What getsockopt(2) says.
    #[cold]
    pub fn peer_user(&self) -> Result<u32, Errno> {
        socket_peercred(&self.0).map(|peer| peer.uid.as_raw())
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
        sendmsg(&self.0, &[IoSlice::new(message)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Takes the next message into `into`.
    #[cold]
    pub fn receive(&self, into: &mut [u8]) -> Received {
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut room);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::TRUNC;
        let got = recvmsg(&self.0, &mut [IoSliceMut::new(into)], &mut control, flags);
        let rights = control.drain().filter_map(|one| match one {
            RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
            _ => None,
        });
        let descriptors = rights.flatten().collect();
        match got {
            // An empty message looks like the end, and nobody who is sane sends one.
            Ok(got) if got.bytes > 0 => Received::Message(got.bytes, descriptors),
            Err(Errno::AGAIN | Errno::INTR) => Received::Nothing,
            Ok(_) | Err(_) => Received::End,
        }
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::event::Event;

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
        drop(client);
        assert!(matches!(server.receive(&mut room), Received::End));
        assert_eq!(server.send(b"x", None), Err(Errno::PIPE));
        drop(listener);
        assert_eq!(Connection::open(&path).unwrap_err(), Errno::NOENT);
    }

    #[test]
    fn descriptors_that_are_more_than_there_is_room_for_are_closed() {
        let path = path("descriptors");
        let listener = Listener::new(&path).unwrap();
        let client = Connection::open(&path).unwrap();
        let server = listener.accept().unwrap();
        let (read, write) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let mut room = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(7))];
        let mut control = SendAncillaryBuffer::new(&mut room);
        let descriptors = [write.as_fd(); 7];
        assert!(control.push(SendAncillaryMessage::ScmRights(&descriptors)));
        sendmsg(&client.0, &[IoSlice::new(b"seven")], &mut control, SendFlags::NOSIGNAL).unwrap();
        drop(write);
        let mut byte = [0];
        assert_eq!(rustix::io::read(&read, &mut byte), Err(Errno::AGAIN), "they are on their way");
        let Received::Message(5, received) = server.receive(&mut [0; 8]) else { panic!("no message") };
        // What the room is rounded up to may hold one or two more.
        assert!((DESCRIPTORS..7).contains(&received.len()), "{received:?}");
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
