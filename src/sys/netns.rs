//! Network namespaces. A socket that a thread opens in one belongs to it for good.

use super::errno::last_errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::thread;

/// Asks a socket for its namespace (`linux/sockios.h`).
const SIOCGSKNS: libc::c_ulong = 0x894c;

/// Asks a socket for the number of its namespace, which no other namespace ever has (`asm-generic/socket.h`, Linux
/// 5.14).
const SO_NETNS_COOKIE: libc::c_int = 71;

/// A network namespace, which lives at least as long as this.
#[derive(Debug)]
pub struct NetworkNamespace(File);

impl From<OwnedFd> for NetworkNamespace {
    /// The namespace of a namespace descriptor.
    fn from(fd: OwnedFd) -> NetworkNamespace {
        NetworkNamespace(fd.into())
    }
}

impl NetworkNamespace {
    /// The namespace that ip-netns(8) calls `name`.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn named(name: &str) -> io::Result<NetworkNamespace> {
        File::open(format!("/run/netns/{name}")).map(NetworkNamespace)
    }

    /// The namespace in which `socket` was opened, independent of the calling thread's namespace.
    ///
    /// # Errors
    /// `PERM` without CAP_NET_ADMIN there.
    pub fn of(socket: BorrowedFd<'_>) -> io::Result<NetworkNamespace> {
        // SAFETY: SIOCGSKNS takes no argument; it returns a descriptor.
        let fd = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCGSKNS as libc::Ioctl) };
        if fd < 0 {
            return Err(last_errno().into());
        }
        // SAFETY: the kernel just made it and no other code knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) }.into())
    }

    fn is(&self, other: &NetworkNamespace) -> io::Result<bool> {
        let (one, other) = (self.0.metadata()?, other.0.metadata()?);
        Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
    }

    /// Runs `f` on a new thread inside the namespace. A socket that it opens continues to belong to this namespace.
    ///
    /// # Errors
    /// If this process may not enter it (CAP_SYS_ADMIN), or may have no more threads.
    pub fn inside<T: Send>(&self, f: impl FnOnce() -> T + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let there = thread::Builder::new().spawn_scoped(scope, || {
                move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
                Ok(f())
            })?;
            there.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

/// Whether `socket` was opened in the calling thread's network namespace.
///
/// # Errors
/// The error of socket(2); before Linux 5.14 as [`NetworkNamespace::of`].
pub fn is_here(socket: BorrowedFd<'_>) -> io::Result<bool> {
    let here = socket_with(AddressFamily::UNIX, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    match (cookie(socket), cookie(here.as_fd())) {
        (Some(one), Some(other)) => Ok(one == other),
        _ => NetworkNamespace::of(socket)?.is(&NetworkNamespace::of(here.as_fd())?),
    }
}

/// The number of the socket's namespace; None if the kernel does not tell.
fn cookie(socket: BorrowedFd<'_>) -> Option<u64> {
    let (mut cookie, mut len) = (0u64, size_of::<u64>() as libc::socklen_t);
    let (option, value) = (SO_NETNS_COOKIE, (&raw mut cookie).cast());
    // SAFETY: the kernel writes at most `len` bytes, to a number that has as many and lives during the call.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, &raw mut len) };
    (done == 0).then_some(cookie)
}

/// A number of the socket's namespace, which no other namespace has at the same time. None if the kernel does not tell:
/// before Linux 5.14, without CAP_NET_ADMIN there.
#[cfg(feature = "xdp")]
pub(super) fn number(socket: BorrowedFd<'_>) -> Option<u64> {
    let file = || Some(NetworkNamespace::of(socket).ok()?.0.metadata().ok()?.ino());
    cookie(socket).or_else(file)
}

/// Runs `f` on a new thread inside the network namespace that ip-netns(8) calls `name`, as [`NetworkNamespace::inside`]
/// does.
///
/// # Errors
/// If there is no such namespace, or this process may not enter it (CAP_SYS_ADMIN).
pub fn inside<T: Send>(name: &str, f: impl FnOnce() -> T + Send) -> io::Result<T> {
    NetworkNamespace::named(name)?.inside(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_run_inside_of_what_is_not_there() {
        let gone = inside("netmem-no-such-namespace", || panic!("it is run"));
        assert_eq!(gone.map_err(|error: io::Error| error.kind()), Err::<(), _>(io::ErrorKind::NotFound));
    }

    #[test]
    fn a_new_socket_is_of_the_threads_own_namespace_by_number_and_by_file() {
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None).unwrap();
        assert!(is_here(socket.as_fd()).unwrap());
        match NetworkNamespace::of(socket.as_fd()) {
            Ok(one) => assert!(one.is(&NetworkNamespace::of(socket.as_fd()).unwrap()).unwrap()),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::PermissionDenied),
        }
    }
}
