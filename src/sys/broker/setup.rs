//! What the process that starts a broker gives it.

use rustix::io::Errno;
use std::net::IpAddr;
use std::path::PathBuf;

/// What a broker does beside what it always can.
#[allow(missing_debug_implementations)]
pub struct Setup {
    /// Names of the interfaces that it opens sockets and queues of, and attaches programs to.
    pub interfaces: Vec<String>,
    /// Files that it opens for reading.
    pub readable: Vec<PathBuf>,
    /// Sockets that it connects to.
    pub peers: Vec<PathBuf>,
    /// Where the other process may make sockets in the file system: those that nobody listens at are taken away when it has ended.
    pub leaves: Vec<PathBuf>,
    /// What has the kernel use a neighbour on the link of that number.
    pub neighbour: Box<dyn Fn(u32, IpAddr) -> Result<(), Errno> + Send + Sync>,
    /// What has the host be as it was before the run, as often as it is called.
    pub undo: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}
