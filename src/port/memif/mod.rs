//! The `memif` port: packets between processes through memory that both map (protocol 2.0), as in VPP and DPDK.
//!
//! ```text
//!   client                                              server
//!   memory, rings ── Unix socket: descriptors ──────►   maps them
//!   tx    ── full slots ──►  ring to the server  ──►    rx     copies out of the client's buffers
//!   rx    ◄─ full slots ──   ring to the client  ◄──    tx     copies into the client's buffers
//! ```
//! | role | memory | bytes |
//! |---|---|---|
//! | client | buffers of its own for each slot | copied once |
//! | client with [`MemifConfig::lend`], frames of a [shared memory](crate::page::Memory::shared) | the frames themselves are lent | not copied here |
//! | server | the client's | copied once |
//!
//! A packet that is longer than a buffer of its reader lies in several slots. It is put together in one frame if it
//! fits there. Otherwise it is dropped and counted (`rx_too_long`). Copied packets are counted (`copied`). There is no
//! thread for messages: the port reads them in some of the calls of [`Wake::kick`](super::Wake::kick), and before and
//! after each sleep. Without a peer it does so every 64 rounds, or when a millisecond has passed. With a peer it does so
//! every 4,096 rounds, or in one of 32 rounds when half a second has passed.
//!
//! # What is trusted
//! Nothing that is read from the socket or from shared memory. Indices, lengths, offsets and regions are read once,
//! checked, and used as read. An invalid value takes the port down with a reason, which is sent to the peer. No byte
//! outside of the peer's own memory is read or written. The peer's memory must be sealed against shrinking
//! ([`Sealing`]), unless the caller accepts any. A peer can still take pages away. An access to them then is a SIGBUS,
//! which takes the port down, and not the process. Memory through which bytes are copied is also sealed against holes, by
//! each end, on a thread: by a server before packets flow, and by a client as soon as its server has mapped it (ADR 0031).
//!
//! Two kinds of descriptors are accepted with messages: memory, which is mapped, and an eventfd(2), which is written
//! and never read. Any other is refused and closed. A peer is woken by a call that never waits, whatever the peer does
//! with its eventfd (ADR 0035). A descriptor whose close may wait (a socket, a file of FUSE) is not received. It is
//! closed on a thread of its own. A port whose peers have left 64 such descriptors gets no new peer until some are
//! closed, and its state says so. Other ports still get theirs, unless 1,024 are left in the whole process. With
//! [`Sealing::Trusted`] the peer is trusted with all this.
//!
//! A peer that is lent frames ([`MemifConfig::lend`]) can read and write all frames of that memory at any time. This is
//! the price of zero copy by memif. The peer sees other ports' packets, and could change bytes after they were checked,
//! and behind references that we hold. So a port copies unless the caller has promised that its peers do not do this,
//! which is an `unsafe` call ([`Lend`]). No slab cache is made of such a memory, so nothing that we follow as a pointer
//! lies there. A port over a memory of its own, with [`bounce`](super::bounce) around it, shows its peer no other
//! port's packets.
//!
//! Each end refuses a peer that runs as another user than this process, before any message ([`MemifConfig::peer`]).
//! Only its owner can open a server's socket ([`MemifConfig::access`]), whatever the umask is. A server talks to a few
//! clients at once, and the first that has offered everything becomes the peer. So a silent client keeps no other
//! client out.
//!
//! # After fork(2)
//! Rings and connection belong to the process that opened the port. A child's copy of the port is down, with a reason
//! that says so. It posts and gives back no frame, and dropping it ends nothing that belongs to the parent.
//!
//! # When there is no peer
//! A server waits for the next client, and a client tries to connect again. Frames that were sent to the former peer
//! come back by [`Complete::complete`](super::Complete::complete). Frames posted for reception stay posted, for the
//! next peer's packets, until the port is closed. Those for which the next peer has no queue or no slots are freed to
//! their pools when it comes, and so are those that would leave other queues without frames.
//!
//! A client that is refused, or whose server goes, waits before it connects again: 20 ms at first, and twice as long each
//! time, up to a second. After a connection that lasted for more than a second, it begins with 20 ms again. It makes the
//! memory for a server when the server has accepted it (INIT), so a refused client costs almost nothing.
//!
//! What a peer sent before it went is still received, although the port is down already. This lasts for at most 4,096
//! rounds, and no new peer is accepted until then. The packets that are left then are lost with the rings, and so are
//! those that are unread when we end the connection: they count as `rx_dropped`. Sent packets count as sent and
//! completed, whether or not the former peer has read them. Those that it has not acknowledged count as
//! `tx_left_unread` too: it may have read the last of them. If we end the connection because of an invalid value,
//! frames are used again at once. A peer that was lent them, and has not yet received the DISCONNECT, may still read
//! them, and write into those posted for reception, as long as it maps the memory (ADR 0024).
//!
//! # Memory without pages
//! A client's files may be sparse. The first access to a page that is missing allocates it at the cost of the process that
//! touches it, and an access waits while the client gives pages back. So a server seals the memory against holes, and
//! allocates missing pages before packets flow, at most [`MemifConfig::holes`] bytes for all clients whose memory still
//! exists. It refuses a client that lacks more, or whose memory cannot be sealed: one that lends its frames. With
//! [`Sealing::HolesAllowed`] or [`Sealing::Trusted`] a server maps up to 64 GiB of any such memory. If the kernel then has no
//! page left, that is the same SIGBUS, with or without seals, and the port is down. Under strict accounting
//! (`vm.overcommit_memory=2`) this happens long before the memory is used up (Documentation/mm/overcommit-accounting.rst).
//! Under a control group's limit, the process that touches the page may be killed instead. The memory whose frames are lent
//! is allocated when it is opened, so it needs no page later.
//!
//! # Sleeping
//! A reader that sleeps clears a flag in the ring, and the sender then wakes it. Neither DPDK nor VPP has a full fence
//! between the store of its index and its load of that flag, so a wake-up can be missed. A sleep here is bounded in any
//! case.
//!
//! Source: memif protocol 2.0, drivers/net/memif of DPDK 22.11 and its documentation.

mod bind;
mod buffers;
mod client;
mod close;
mod complete;
mod error;
mod fill;
#[allow(unsafe_code)]
mod lend;
#[doc(hidden)]
pub mod message;
mod offer;
mod pair;
mod ring;
mod rx;
mod server;
mod session;
#[cfg(test)]
mod tests;
mod tx;
mod wake;

pub use crate::sys::memfd::Sealing;
pub use crate::sys::seqpacket::Access;
pub use error::MemifError;
pub use lend::Lend;

use super::{Port, PortCounters, PortState, inherited};
use crate::limits::CHUNK_SIZE;
use crate::steer::Toeplitz;
use crate::sys::errno::{Errno, descriptor_remedy};
use crate::sys::event::Watch;
use crate::sys::fork::Birthplace;
use crate::sys::seqpacket::Connection;
use crate::sys::shared_event::Ringer;
use crate::sys::slow_close::is_closing_deferred;
use crate::sys::user::is_own;
use client::Client;
use error::Fault;
use pair::{Lender, Pair};
use server::Server;
use session::Step;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;

/// The name that is sent to peers.
const NAME: &str = concat!("netmem ", env!("CARGO_PKG_VERSION"));

/// The default of [`MemifConfig::holes`].
const HOLES: u64 = 128 << 20;

/// Which end of the connection a port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Connects, and brings the memory.
    #[default]
    Client,
    /// Listens, and maps the client's memory.
    Server,
}

/// The users whose processes may be the peer. The user of a process is the one when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PeerUser {
    /// The user that this process runs as.
    #[default]
    Own,
    /// The user with this number, and the user that this process runs as.
    Uid(u32),
    /// Any user.
    Any,
}

impl PeerUser {
    /// # Errors
    /// Returns [`Fault::User`] for a user who is not allowed.
    fn check(self, connection: &Connection) -> Result<(), Fault> {
        // An unknown user is not allowed.
        let user = connection.peer_user().map_err(Fault::Credentials)?;
        let allowed = match self {
            PeerUser::Own => is_own(user),
            PeerUser::Uid(other) => user == other || is_own(user),
            PeerUser::Any => true,
        };
        if allowed { Ok(()) } else { Err(Fault::User(user)) }
    }
}

/// The settings of a port.
#[derive(Clone, PartialEq, Eq)]
pub struct MemifConfig {
    /// Which end the port is. Default: client.
    pub role: Role,
    /// The number of the interface, which both ends must agree on. Default 0.
    pub id: u32,
    /// Maximum number of queues, from 1 to 16. The peer may have fewer. Default 1.
    pub queues: u16,
    /// Slots of each ring, a power of two from 2 to 16,384. A client makes rings of this size, or of the server's limit
    /// if that is less. A server uses the client's rings. Default 1,024.
    pub ring: u32,
    /// The secret that a server asks for, or a client sends; at most 23 bytes. Default: empty, which asks for none.
    pub secret: String,
    /// Which clients' memory a server maps. Default: only sealed memory.
    pub sealing: Sealing,
    /// The most bytes that a server allocates with [`Sealing::Required`] in memory whose clients have not written it. They
    /// are this process's, and count until no process has that memory any more. 0: clients must have written all of their
    /// memory, as netmem's have. Default 128 MiB: clients of DPDK and VPP have written little of theirs, which is 4 MiB
    /// for each queue of 1,024 slots.
    pub holes: u64,
    /// The promise that peers are trusted. With it a client lends frames if that is possible (see [the module](self)).
    /// Default: None, the client copies.
    pub lend: Option<Lend>,
    /// Which users' processes may be the peer. Default: those of the same user.
    pub peer: PeerUser,
    /// Mode and group of a server's socket. Default: 0600, only its owner.
    pub access: Access,
    /// Bytes of the frames that are received into, as in their pool. Each is lent with this size, and a client's own
    /// buffers have this size. 2,048, 4,096, 8,192, 16,384 or 32,768. Default 2,048.
    pub frame_size: usize,
}

/// Shows all fields except the secret.
impl fmt::Debug for MemifConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemifConfig { role, id, queues, ring, secret: _, sealing, holes, lend, peer, access, frame_size } =
            self;
        f.debug_struct("MemifConfig")
            .field("role", role)
            .field("id", id)
            .field("queues", queues)
            .field("ring", ring)
            .field("sealing", sealing)
            .field("holes", holes)
            .field("lend", lend)
            .field("peer", peer)
            .field("access", access)
            .field("frame_size", frame_size)
            .finish_non_exhaustive()
    }
}

impl Default for MemifConfig {
    fn default() -> Self {
        MemifConfig {
            role: Role::default(),
            id: 0,
            queues: 1,
            ring: 1024,
            secret: String::new(),
            sealing: Sealing::default(),
            holes: HOLES,
            lend: None,
            peer: PeerUser::default(),
            access: Access::default(),
            frame_size: CHUNK_SIZE,
        }
    }
}

/// One end of a memif connection, with all its queues. See [the module](self).
pub struct MemifPort {
    /// `memif:PATH`.
    name: String,
    conversation: Conversation,
    /// All queues that there can be.
    pairs: Vec<Pair>,
    /// Number of queues that have a peer now, which are the first ones; 0 without a peer.
    active: usize,
    /// Number of queues that have rings: the active ones. After the peer has gone, those that were active, until what
    /// it sent has been received.
    receiving: usize,
    /// Number of looks for which packets of a former peer are still waited for.
    looks: u32,
    /// The queue with which the next reception begins.
    turn: usize,
    /// Where lent frames lie; None if bytes are copied.
    lender: Option<Lender>,
    /// Distributes flows over queues, under a key of its own: a sender cannot choose the queue.
    toeplitz: Toeplitz,
    /// The name of the peer's interface, while there is a peer.
    peer: Option<String>,
    /// Why there is no peer, while there is none.
    down: String,
    watch: Watch,
    /// Whether an event wakes a sleeper: `watch` has all descriptors, and there is a peer or one may be accepted.
    is_watched: bool,
    /// Why `watch` lacks descriptors, if it does.
    unwatched: Option<Errno>,
    /// Wakes peers that sleep.
    ringer: Ringer,
    /// Poll rounds, wrapping.
    rounds: u32,
    /// When the socket was last read between rounds.
    sought: Instant,
    birthplace: Birthplace,
    counters: Arc<PortCounters>,
}

/// The socket's state.
#[derive(Debug)]
enum Conversation {
    Client(Client),
    Server(Server),
}

impl Conversation {
    fn service(&mut self) -> Step {
        match self {
            Conversation::Client(client) => client.service(),
            Conversation::Server(server) => server.service(),
        }
    }

    fn disconnect(&mut self, fault: &Fault) {
        match self {
            Conversation::Client(client) => client.disconnect(fault),
            Conversation::Server(server) => server.disconnect(fault),
        }
    }

    /// Whether a peer is connected, or may connect at the next attempt.
    fn is_hopeful(&self) -> bool {
        match self {
            Conversation::Client(client) => client.is_hopeful(),
            // No thread maps memory while a program is about to give privileges up.
            Conversation::Server(server) => {
                server.connections().next().is_some() && !(server.is_mapping() && is_closing_deferred())
            }
        }
    }

    /// Returns why there is no peer, if that is known apart from what the last one did.
    fn why_down(&self) -> Option<String> {
        match self {
            Conversation::Client(client) => client.why_down(),
            Conversation::Server(server) => server.why_down(),
        }
    }

    /// Whether a peer that connects would be accepted.
    fn accepts(&self) -> bool {
        match self {
            Conversation::Client(_) => true,
            Conversation::Server(server) => server.accepts(),
        }
    }

    /// Whether something goes on whose end wakes no sleeper.
    fn is_mapping(&self) -> bool {
        match self {
            Conversation::Client(_) => false,
            Conversation::Server(server) => server.is_mapping(),
        }
    }

    /// The descriptors on which a peer's message, or a connection that is accepted, may arrive.
    fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (client, server) = match self {
            Conversation::Client(client) => (client.connection(), None),
            Conversation::Server(server) => (None, Some(server)),
        };
        let to_server = server.into_iter().flat_map(Server::connections);
        let listener = server.filter(|server| server.accepts()).map(|server| server.listener().as_fd());
        client.into_iter().chain(to_server).map(AsFd::as_fd).chain(listener)
    }
}

impl MemifPort {
    /// The name of the peer's interface; None without a peer.
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref().filter(|_| !self.birthplace.is_elsewhere())
    }

    /// Number of queues in use; 0 without a peer.
    pub fn queues(&self) -> usize {
        if self.birthplace.is_elsewhere() { 0 } else { self.active }
    }

    /// Whether frames are lent, not copied.
    pub fn is_zero_copy(&self) -> bool {
        self.lender.is_some()
    }
}

impl fmt::Debug for MemifPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemifPort { name, peer, down, active, .. } = self;
        f.debug_struct("MemifPort")
            .field("name", name)
            .field("peer", peer)
            .field("down", down)
            .field("queues", active)
            .finish_non_exhaustive()
    }
}

impl Port for MemifPort {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        "memif"
    }

    fn state(&self) -> PortState {
        if self.birthplace.is_elsewhere() {
            return PortState::Down(inherited(&self.name));
        }
        match self.active {
            0 => PortState::Down(self.conversation.why_down().unwrap_or_else(|| self.down.clone())),
            _ => PortState::Up,
        }
    }

    /// The port is polled meanwhile.
    fn complaint(&self) -> Option<String> {
        if let Some(errno) = self.ringer.failure().filter(|&errno| errno != Errno::AGAIN) {
            return Some(format!("it cannot wake its peer: io_submit: {errno}"));
        }
        let errno = self.unwatched?;
        let remedy = match errno {
            Errno::NOSPC => "; raise `sysctl fs.epoll.max_user_watches`",
            _ => descriptor_remedy(errno),
        };
        Some(format!("no packet wakes it, because it cannot watch its peer: {errno}{remedy}"))
    }

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}
