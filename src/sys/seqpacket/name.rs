//! The name of a socket: a path in the file system, or an abstract name behind an `@`. An abstract name has no file, no
//! mode and no owner (unix(7)), and belongs to the network namespace.

use rustix::io::Errno;
use rustix::net::SocketAddrUnix;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The abstract name behind the `@`; None for a path.
fn abstract_name(path: &Path) -> Option<&[u8]> {
    path.as_os_str().as_bytes().strip_prefix(b"@")
}

/// Whether it is an abstract name.
pub(super) fn is_abstract(path: &Path) -> bool {
    abstract_name(path).is_some()
}

/// The address of a socket of that name. As in DPDK, an abstract name has no zeros behind it.
pub(super) fn address(path: &Path) -> Result<SocketAddrUnix, Errno> {
    match abstract_name(path) {
        Some(name) => SocketAddrUnix::new_abstract_name(name),
        None => SocketAddrUnix::new(path),
    }
}
