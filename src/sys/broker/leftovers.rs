//! Sockets in the file system that a run leaves behind, because it was killed, or because the user that it became may
//! not remove them.

use crate::sys::seqpacket::{Identity, socket_at};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::fs;
use std::path::{Path, PathBuf};

/// Paths where the run may make sockets, each with the socket that was there before.
pub(super) struct Leftovers(Vec<(PathBuf, Option<Identity>)>);

impl Leftovers {
    /// Records which sockets exist before the run makes its own.
    pub(super) fn before(paths: &[PathBuf]) -> Leftovers {
        Leftovers(paths.iter().map(|path| (path.clone(), socket_at(path))).collect())
    }

    /// Removes the sockets that were made since then and have no listener. Nothing else is touched.
    pub(super) fn remove(&self) {
        for (path, before) in &self.0 {
            let now = socket_at(path);
            if now.is_some() && now != *before && is_dead(path) && socket_at(path) == now {
                // If it is gone already, that is fine.
                let _ = fs::remove_file(path);
            }
        }
    }
}

/// Whether a socket of any type has no listener. A socket that is not of this type refuses in another way. It does not
/// wait.
fn is_dead(path: &Path) -> bool {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
    let address = SocketAddrUnix::new(path);
    let (Ok(socket), Ok(address)) = (socket, address) else { return false };
    connect(&socket, &address) == Err(Errno::CONNREFUSED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixListener;

    /// Found in a review: a file that `--control` named by mistake was deleted, because connect(2) to it is refused as
    /// well.
    #[test]
    fn a_dead_socket_of_the_run_is_removed_and_nothing_else() {
        let folder = std::env::temp_dir().join(format!("netmem-leftovers-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = |name: &str| folder.join(name);
        let names = ["file", "dead-before", "dead", "alive", "file-since", "none"];
        fs::write(path("file"), "precious").unwrap();
        drop(UnixListener::bind(path("dead-before")).unwrap());
        let leftovers = Leftovers::before(&names.map(path));
        drop(UnixListener::bind(path("dead")).unwrap());
        let _alive = UnixListener::bind(path("alive")).unwrap();
        fs::write(path("file-since"), "precious").unwrap();
        leftovers.remove();
        let left = names.map(|name| path(name).exists());
        assert_eq!(left, [true, true, false, true, true, false]);
        fs::remove_dir_all(folder).unwrap();
    }
}
