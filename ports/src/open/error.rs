//! Why a port could not be opened.

use netmem::port::af_packet::AfPacketError;
use netmem::port::memif::MemifError;
use netmem::port::pcap::PcapError;
use netmem::port::tap::TapError;
use netmem::port::trace::TraceError;
use netmem::port::xdp::{GrantError, XdpError};
use std::error::Error;
use std::io;

/// Maximum number of a forwarder's ports.
pub(super) const PORTS_MAX: usize = 255;

/// The reason why a port could not be opened. Nothing is left behind.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The port or the worker has a number that the program cannot have. Nothing was opened.
    #[error(
        "open port {port} of worker {worker}: numbers begin at 0, and there are at most {PORTS_MAX} ports, and {workers} workers: give \
         other numbers, or more workers"
    )]
    Place {
        /// The number of the port.
        port: usize,
        /// The number of its worker.
        worker: u32,
        /// Number of workers.
        workers: usize,
    },
    /// The port has one queue, and each of several workers would open it. Nothing was opened.
    #[error(
        "open {port} for {workers} workers: it has one queue, and each worker would get every packet: use one worker, or a kind of \
         port with a queue for each (xdp, packet, tap, memif as client)"
    )]
    OneQueue {
        /// The port.
        port: String,
        /// Number of workers.
        workers: usize,
    },
    /// The port's string has `lend=yes`, and the program does not lend frames ([`OpenConfig::lend`](crate::OpenConfig::lend)).
    /// Nothing was opened.
    #[error(
        "open {port}: this program lends peers no frames: leave lend=yes out to copy, or let the program vouch for the peer \
         (OpenConfig::lend)"
    )]
    Lend {
        /// The port.
        port: String,
    },
    /// The frames of the first `xdp` port's pool have another size, and all `xdp` ports of a memory share a UMEM.
    #[error(
        "open {port} with frames of {frame_size} bytes: the memory's first xdp port has frames of {first}: give the pools of all xdp \
         ports frames of one size, or use a memory and an opener for each size"
    )]
    FrameSizes {
        /// The port.
        port: String,
        /// Bytes of a frame of its pool.
        frame_size: usize,
        /// Bytes of a chunk of the UMEM, by the frames of the first port's pool.
        first: usize,
    },
    /// A queue of an interface.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// The grant of a queue of an interface.
    #[error("open {port}: {error}")]
    Grant {
        /// The port.
        port: String,
        /// The error and the remedy.
        #[source]
        error: GrantError,
    },
    /// The grant is of another interface than the port names.
    #[error(
        "open {port}: the grant is of interface {granted}: name that one, or the socket of another netmem grant"
    )]
    GrantedOther {
        /// The port.
        port: String,
        /// The interface.
        granted: String,
    },
    /// A queue for one of several workers.
    #[error(
        "{error}; each of {workers} workers needs a queue of its own: give the interface more queues (ethtool -L), or use fewer workers"
    )]
    NoQueueForWorker {
        /// The error of the queue.
        #[source]
        error: XdpError,
        /// Number of workers.
        workers: usize,
    },
    /// The number of queues does not fit the interface, or the workers; the line says which.
    #[error("{0}")]
    QueueCount(String),
    /// A peer process.
    #[error(transparent)]
    Memif(#[from] MemifError),
    /// The port's own pool, whose frames a peer of another user is lent.
    #[error("{step} of the frames lent only to {port}: {error}")]
    OwnPool {
        /// The step that failed: the memory, its worker, or the pool.
        step: &'static str,
        /// The socket.
        port: String,
        /// The error and the remedy.
        #[source]
        error: Box<dyn Error + Send + Sync>,
    },
    /// An interface, by a packet socket.
    #[error(transparent)]
    Packet(#[from] AfPacketError),
    /// A TAP interface.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// Files.
    #[error(transparent)]
    Pcap(#[from] PcapError),
    /// A trace.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The host's own addresses, which a packet port leaves to the kernel.
    #[error("read the host's addresses: {0}{remedy}", remedy = addresses_remedy(.0))]
    Addresses(#[source] io::Error),
    /// The interface of an `xdp` port does not carry Ethernet frames.
    #[error("interface {0} is not an Ethernet interface: use veth or tap")]
    NotEthernet(String),
    /// The interface does not report its properties.
    #[error("{what} of {interface}: {error}{}", interface_remedy(.error))]
    Interface {
        /// The requested property.
        what: &'static str,
        /// The interface.
        interface: String,
        /// The kernel's error.
        #[source]
        error: io::Error,
    },
}

fn addresses_remedy(error: &io::Error) -> &'static str {
    let otherwise = "; may this process have netlink sockets (seccomp, RestrictAddressFamilies)?";
    descriptor_remedy(error).unwrap_or(otherwise)
}

fn interface_remedy(error: &io::Error) -> &'static str {
    descriptor_remedy(error).unwrap_or("; is it still there?")
}

/// Returns what to do if descriptors are used up.
fn descriptor_remedy(error: &io::Error) -> Option<&'static str> {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    match error.raw_os_error() {
        Some(EMFILE) => Some("; raise the limit of open files (`ulimit -n`)"),
        Some(ENFILE) => Some("; raise `sysctl fs.file-max`"),
        _ => None,
    }
}
