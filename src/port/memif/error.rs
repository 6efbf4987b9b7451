//! Why a port could not be opened, and why a connection ended.

use super::buffers::PARTS_MAX;
use super::message::MessageError;
use super::ring::Descriptor;
use crate::ring::Corrupt;
use crate::sys::errno::{Errno, descriptor_remedy};
use crate::sys::memfd::MapError;
use std::path::PathBuf;

/// Why a memif port could not be opened. Nothing is left behind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MemifError {
    /// The protocol has no rings of this size.
    #[error("memif rings of {0} slots: give a power of two between 2 and 16384")]
    RingSize(u32),
    /// This number of queues does not fit.
    #[error("memif with {queues} queues: give 1 to {most} with rings and frames of that size")]
    Queues {
        /// The number of queues in the settings.
        queues: u16,
        /// The largest number that is possible.
        most: u16,
    },
    /// No pool has frames of this size.
    #[error("memif with frames of {0} bytes: give 2048, 4096, 8192, 16384 or 32768")]
    FrameSize(usize),
    /// The secret does not fit the protocol.
    #[error("a memif secret of {0} bytes: give 1 to 23, without a zero byte")]
    Secret(usize),
    /// A socket cannot have this path.
    #[error("{path} cannot be the path of a socket: give one of at most 107 bytes")]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// The port cannot listen, so no peer could connect.
    #[error("listen at {path}: {errno}; {}", listen_remedy(*.errno))]
    Listen {
        /// The path.
        path: PathBuf,
        /// The error of bind(2) or listen(2).
        errno: Errno,
    },
    /// The socket cannot belong to the group of [`MemifConfig::access`](super::MemifConfig::access).
    #[error("chown {path} to group {group}: {errno}; {}", group_remedy(*.errno))]
    Group {
        /// The path.
        path: PathBuf,
        /// The group.
        group: u32,
        /// The error of chown(2).
        errno: Errno,
    },
    /// The socket cannot have the mode of [`MemifConfig::access`](super::MemifConfig::access).
    #[error("chmod {path} to {mode:04o}: {errno}; {KEEPS_ACCESS}")]
    Mode {
        /// The path.
        path: PathBuf,
        /// The permission bits.
        mode: u32,
        /// The error of chmod(2).
        errno: Errno,
    },
    /// The process is out of descriptors.
    #[error("memif needs a descriptor to sleep on: {0}{remedy}", remedy = descriptor_remedy(*.0))]
    Watch(Errno),
    /// The kernel gives no context for asynchronous requests, by which peers are woken.
    #[error("memif rings its peers by asynchronous I/O: io_setup: {errno}; {}", bell_remedy(*.errno))]
    Bell {
        /// The error of io_setup(2).
        errno: Errno,
    },
}

fn bell_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::AGAIN => "raise `sysctl fs.aio-max-nr`, of which other programs have taken all",
        Errno::NOSYS | Errno::PERM => {
            "allow io_setup(2), io_submit(2), io_getevents(2) and io_destroy(2), and take a kernel with CONFIG_AIO"
        }
        Errno::MFILE => "raise the limit with `ulimit -n`",
        Errno::NFILE => "raise `sysctl fs.file-max`",
        _ => "free some memory",
    }
}

/// The remedy if a file system keeps no groups and modes, or if the socket cannot be reached by its descriptor.
const KEEPS_ACCESS: &str = "mount /proc, and give a path in a file system that keeps groups and modes";

fn group_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::PERM | Errno::ACCESS => "give a group that this user belongs to, or run as root",
        // In a user namespace.
        Errno::INVAL => "give a group that /proc/self/gid_map has",
        Errno::MFILE => "raise the limit with `ulimit -n`",
        Errno::NFILE => "raise `sysctl fs.file-max`",
        _ => KEEPS_ACCESS,
    }
}

fn listen_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::ADDRINUSE => {
            "another process listens there already, or it is not a socket: stop that, or give another path"
        }
        Errno::NOENT => "make its folder first",
        Errno::ACCESS | Errno::PERM => "give a path in a folder that you may write",
        Errno::MFILE => "raise the limit with `ulimit -n`",
        Errno::NFILE => "raise `sysctl fs.file-max`",
        _ => "give another path",
    }
}

/// Why a connection was ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0} {1}")]
    Ring(&'static str, Corrupt),
    #[error("{0} ring: the descriptor {1:?} is invalid")]
    Descriptor(&'static str, Descriptor),
    #[error("{0} ring: a descriptor points outside of its region")]
    Outside(&'static str),
    #[error("rx ring: a packet without an end within {PARTS_MAX} slots")]
    Endless,
    #[error("rx ring: the peer's index ends within a packet")]
    Unfinished,
    #[error("{0}")]
    Message(#[from] MessageError),
    #[error("unexpected {0}")]
    Unexpected(&'static str),
    #[error("{0} without a descriptor")]
    NoDescriptor(&'static str),
    #[error("a descriptor that is neither an eventfd nor memory that can be sealed (memfd_create)")]
    UnknownDescriptor,
    #[error(
        "there is no room for a descriptor of the message: raise the limit of this process with `ulimit -n`, or allow the descriptor in its security module"
    )]
    NoRoomForDescriptor,
    #[error("{0} with a descriptor that is not an eventfd")]
    NoEvent(&'static str),
    #[error("version {0:#06x}, and only 0x0200 is supported")]
    Version(u16),
    #[error("there is no interface with id {0}")]
    Interface(u32),
    #[error("mode {0}, and only Ethernet (0) is supported")]
    Mode(u8),
    #[error("wrong secret")]
    Secret,
    #[error("region {0} out of order, or too many")]
    Region(u16),
    #[error(
        "the server takes one region, and frames that are lent need two: leave lend=yes out (lend: None)"
    )]
    OneRegion,
    #[error("region {region} of {size} bytes: at most 8 GiB are mapped, and 64 GiB of all regions")]
    RegionSize { region: u16, size: u64 },
    #[error("{direction} ring {index} is not offered, missing, or given twice")]
    RingIndex { direction: &'static str, index: u16 },
    #[error("{0} rings to the server and {1} to the client: as many each way are needed")]
    RingCounts(usize, usize),
    #[error("no ring of 2^{log2_size} slots lies at {offset} of region {region}")]
    NoRing { region: u16, offset: u32, log2_size: u8 },
    #[error("a ring with private headers of {0} bytes: only 0 are supported")]
    PrivateHeader(u16),
    #[error("region {0}: {1}")]
    Map(usize, MapError),
    #[error("region {0}: the peer took pages of the memory away, or the machine has none for them")]
    Lost(usize),
    #[error("memory for the peer: {0}")]
    Memory(String),
    #[error("a peer that runs as user {0} may not connect: allow it by peer={0} or peer=any")]
    User(u32),
    #[error("the user that the peer runs as is unknown: {0}")]
    Credentials(Errno),
    #[error("four other clients are connecting: try again")]
    Crowded,
    #[error("the peer did not answer in time")]
    Silent,
    #[error("the port is closed")]
    Closed,
    #[error("the peer is gone")]
    Gone,
    #[error("{}", unsent(*.0))]
    Send(Errno),
    #[error("the peer ended it: {0}")]
    Disconnected(String),
}

fn unsent(errno: Errno) -> String {
    match errno {
        Errno::AGAIN => "the peer does not read what it is sent".into(),
        Errno::TOOMANYREFS => {
            "send to the peer: more descriptors are sent and not received than this process may have: raise the limit \
             with `ulimit -n`"
                .into()
        }
        _ => format!("send to the peer: {errno}{}", descriptor_remedy(errno)),
    }
}

impl Fault {
    /// Whether the peer wrote an invalid descriptor into shared memory.
    pub(super) fn is_descriptor(&self) -> bool {
        matches!(self, Fault::Descriptor(..) | Fault::Outside(_) | Fault::Endless | Fault::Unfinished)
    }

    /// Whether the peer ended the connection. What it sent before can still be received.
    pub(super) fn is_the_peers(&self) -> bool {
        matches!(self, Fault::Gone | Fault::Disconnected(_))
    }

    /// Whether the peer is sent the reason.
    pub(super) fn is_told(&self) -> bool {
        !matches!(self, Fault::Gone | Fault::Send(_) | Fault::Disconnected(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_this_process_lacks_to_send_is_not_blamed_on_the_peer() {
        let line = |errno| Fault::Send(errno).to_string();
        assert!(line(Errno::AGAIN).contains("does not read"));
        for errno in [Errno::TOOMANYREFS, Errno::NOBUFS, Errno::NOMEM, Errno::NFILE] {
            assert!(!line(errno).contains("does not read"), "{}", line(errno));
        }
        assert!(line(Errno::TOOMANYREFS).contains("ulimit -n"));
    }
}
