//! The servers.

mod port;
mod sockets;
#[cfg(feature = "rivals")]
mod uring;

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::super::veths::Veths;
use super::work::Work;

/// The longest sleep of a server between checks whether it is to end.
const LOOK: Duration = Duration::from_millis(20);

/// An open server, which serves while it is called.
pub(super) struct Server {
    pub(super) name: &'static str,
    /// Serves until it is to end.
    pub(super) serve: Serve,
}

type Serve = Box<dyn FnMut(&AtomicBool) -> Result<(), String> + Send>;

/// Opens a server on the machine between the hosts.
type Open = fn(&Veths, Work) -> Result<Server, String>;

/// All servers, with the names of those without which the others are measured too. The others are compared with the
/// second.
pub(super) const ALL: &[(Open, Option<&str>)] = &[
    (port::sleeping, None),
    (sockets::open, None),
    (port::polling, None),
    #[cfg(feature = "rivals")]
    (uring::open, Some("io_uring")),
];
