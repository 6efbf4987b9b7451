//! The setup that a process gives to the broker that it starts.

use rustix::io::Errno;
use std::net::IpAddr;
use std::path::PathBuf;

/// The operations that a broker may do besides those that it always can.
#[allow(missing_debug_implementations)]
pub struct Setup {
    /// Names of the interfaces for which it opens sockets and queues, and to which it attaches programs.
    pub interfaces: Vec<String>,
    /// Files that it may open for reading.
    pub readable: Vec<PathBuf>,
    /// Sockets that it may connect to.
    pub peers: Vec<PathBuf>,
    /// Paths at which the other process may make sockets in the file system. Sockets there without a listener are
    /// removed when that process has ended.
    pub leaves: Vec<PathBuf>,
    /// The function that makes the kernel use a neighbour on the link of that number.
    pub neighbour: Box<dyn Fn(u32, IpAddr) -> Result<(), Errno> + Send + Sync>,
    /// The function that restores the host's settings from before the run. It may be called several times.
    pub undo: Box<dyn Fn() -> Result<(), String> + Send + Sync>,
}
