//! What a socket is called: by a path in the file system, or behind an `@` by an abstract name, which has no file, no mode and no owner
//! (unix(7)), and is that of the network namespace.

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

/// The address of a socket of that name. DPDK's abstract names have no zeros behind them, and so have these.
pub(super) fn address(path: &Path) -> Result<SocketAddrUnix, Errno> {
    match abstract_name(path) {
        Some(name) => SocketAddrUnix::new_abstract_name(name),
        None => SocketAddrUnix::new(path),
    }
}
