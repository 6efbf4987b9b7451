//! The `memif` port: packets between processes through memory that both map (protocol 2.0), as VPP and DPDK have it.
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
//! A packet that is longer than a buffer of its reader's lies in several slots, and is put together in one frame if it fits
//! there, else dropped and counted (`rx_too_long`). What is copied is counted (`copied`). There is no thread: the socket is looked at every so many rounds
//! ([`Wake::kick`](super::Wake::kick)), where rounds are far apart within 32 of them, and before and after each sleep.
//!
//! # What is trusted
//! Nothing that is read from the socket or from shared memory. Indices, lengths, offsets and regions are read once, checked,
//! and used as read; what makes no sense takes the port down with a reason, which the peer is told, and no byte outside of the
//! peer's own memory is read or written. Foreign memory must be sealed against shrinking
//! ([`Sealing`]), unless the caller takes any. A peer that takes pages away all the same makes an access to them a SIGBUS, which
//! takes the port down, and not the process (ADR 0031). Of the descriptors that come with messages, memory
//! is mapped, and an eventfd(2) is rung, never read; what else one is, is refused and closed. A peer is rung by a call that never
//! waits, whatever it makes of its eventfd (ADR 0035). A descriptor whose close may wait (a socket, a file of FUSE) is not received;
//! it is closed on a thread of its own, and beyond 64 connections that left such, nobody new is let in. With
//! [`Sealing::Trusted`] all this is the peer's to keep.
//!
//! A peer that is lent frames ([`MemifConfig::lend`]) can read and write all frames of that memory at any time: that is
//! what zero copy by memif is. It sees other ports' packets, and could change bytes behind a check of them and behind references
//! that we hold. So a port copies unless the caller has promised that its peers do not, which is an `unsafe` call ([`Lend`]). No
//! slab cache is made of such a memory, so nothing that we follow as a pointer lies there. A port over a memory of its own, with
//! [`bounce`](super::bounce) around it, shows its peer no other port's packets.
//!
//! A peer of another user than this process's is refused by either end before anything is said ([`MemifConfig::peer`]), and a
//! server's socket is open to its owner alone ([`MemifConfig::access`]), whatever the umask is. A server hears some clients at
//! once, and the first that has said all it has to is the peer; so a silent one keeps nobody out.
//!
//! # After fork(2)
//! Rings and connection belong to the process that opened the port. A child's copy of it is down, with a reason that says so; it
//! posts and gives back no frame, and ending it ends nothing of the parent's.
//!
//! # When there is no peer
//! A server waits for the next client, a client tries to connect again. Frames that were sent to the peer that is gone come
//! back by [`Complete::complete`](super::Complete::complete); frames posted for reception stay posted, for the next peer's packets, until the port is
//! closed.
//!
//! What a peer sent before it went is received, while the port is down already; no longer than for some thousand rounds,
//! and no new peer comes until then. What is left then, and what is unread where we end the connection, is gone with the
//! rings: its slots count as `rx_dropped`. What was sent counts as sent and completed, whether or not a peer that goes has
//! read it. Where we end the connection because of nonsense, frames are used again at once: a peer that was lent them and has
//! not heard yet may still read them, and write into those posted for reception, as long as it maps the memory (ADR 0024).
//!
//! # Memory that is promised
//! A client's files may be sparse: a server maps up to 64 GiB of them, and whoever touches a page first makes it. Where the
//! kernel has none left to give, which under strict accounting (`vm.overcommit_memory=2`) is long before the memory is used up
//! (Documentation/mm/overcommit-accounting.rst), that is the same SIGBUS, with or without seals, and the port is down. Under a
//! control group's limit who touches the page may be killed instead: serve clients that are not trusted only where a client
//! cannot use up what the group has. The memory that frames are lent of is made when it is opened, and needs no such promise.
//!
//! # Sleeping
//! A reader that sleeps clears a flag in the ring, and who sends rings then. Neither DPDK nor VPP put a full fence between
//! their index and their look at that flag, so a wake-up can be missed: a sleep here is bounded in any case.
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
use crate::sys::event::Watch;
use crate::sys::fork::Birthplace;
use crate::sys::seqpacket::Connection;
use crate::sys::shared_event::Ringer;
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

/// What peers are told that this is.
const NAME: &str = concat!("netmem ", env!("CARGO_PKG_VERSION"));

/// Which end of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Role {
    /// Connects, and brings the memory.
    #[default]
    Client,
    /// Listens, and maps the client's memory.
    Server,
}

/// Which users' processes may be the peer, by the user of the process when it connected or began to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PeerUser {
    /// The user that this process runs as.
    #[default]
    Own,
    /// That one too, by number.
    Uid(u32),
    /// Every one.
    Any,
}

impl PeerUser {
    /// # Errors
    /// [`Fault::User`] for one who may not.
    fn check(self, connection: &Connection) -> Result<(), Fault> {
        // Of an unknown user nothing is allowed.
        let user = connection.peer_user().map_err(Fault::Send)?;
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
    /// Which end it is. Default client.
    pub role: Role,
    /// The interface's number, which both ends must agree on. Default 0.
    pub id: u32,
    /// Queues at most, 1 to 16, fewer where the peer has fewer. Default 1.
    pub queues: u16,
    /// Slots of each ring, a power of two from 2 to 16,384. A client makes rings of that size, or of the server's limit; a
    /// server takes the client's. Default 1,024.
    pub ring: u32,
    /// What a client must know to connect to this server, or says to it; at most 23 bytes. Default empty: nothing.
    pub secret: String,
    /// Which clients' memory is mapped. Default sealed memory only.
    pub sealing: Sealing,
    /// The word that peers are trusted, with which a client lends frames where that is possible (see [the module](self)).
    /// Default None: it copies.
    pub lend: Option<Lend>,
    /// Which users' processes may be the peer. Default those of the same user.
    pub peer: PeerUser,
    /// Mode and group of a server's socket. Default 0600: its owner's alone.
    pub access: Access,
    /// Bytes of the frames that are received into, as their pool has them: as much of each is lent, and a client's own buffers
    /// have as many. 2,048, 4,096, 8,192, 16,384 or 32,768. Default 2,048.
    pub frame_size: usize,
}

/// All but the secret.
impl fmt::Debug for MemifConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemifConfig { role, id, queues, ring, secret: _, sealing, lend, peer, access, frame_size } = self;
        f.debug_struct("MemifConfig")
            .field("role", role)
            .field("id", id)
            .field("queues", queues)
            .field("ring", ring)
            .field("sealing", sealing)
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
    /// Every queue there may be.
    pairs: Vec<Pair>,
    /// Those of them that have a peer now: the first ones; 0 without one.
    active: usize,
    /// Those of them that have rings: those that are active, and once the peer is gone those that were, until what it sent
    /// has been received.
    receiving: usize,
    /// Times that is still waited for.
    looks: u32,
    /// The queue that the next look begins with.
    turn: usize,
    /// Where lent frames lie; None where bytes are copied.
    lender: Option<Lender>,
    /// Spreads flows over queues.
    toeplitz: Toeplitz,
    /// What the peer calls its interface, while there is one.
    peer: Option<String>,
    /// Why there is none, while there is none.
    down: String,
    watch: Watch,
    /// Rings peers that sleep.
    ringer: Ringer,
    /// Poll rounds, wrapping.
    rounds: u32,
    /// When the socket was looked at last between rounds.
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

    fn hang_up(&mut self, fault: &Fault) {
        match self {
            Conversation::Client(client) => client.hang_up(fault),
            Conversation::Server(server) => server.hang_up(fault),
        }
    }

    /// Whether a peer is connected, or will be the next time.
    fn is_hopeful(&self) -> bool {
        match self {
            Conversation::Client(client) => client.is_hopeful(),
            Conversation::Server(server) => server.connections().next().is_some(),
        }
    }

    /// Why there is no peer, where that is known beside what the last one did.
    fn why_down(&self) -> Option<String> {
        match self {
            Conversation::Client(client) => client.why_down(),
            Conversation::Server(_) => None,
        }
    }

    /// What a peer may be heard by.
    fn sources(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (client, server) = match self {
            Conversation::Client(client) => (client.connection(), None),
            Conversation::Server(server) => (None, Some(server)),
        };
        let to_server = server.into_iter().flat_map(Server::connections);
        let listener = server.map(|server| server.listener().as_fd());
        client.into_iter().chain(to_server).map(AsFd::as_fd).chain(listener)
    }
}

impl MemifPort {
    /// What the peer calls its interface; None without a peer.
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// Queues in use: 0 without a peer.
    pub fn queues(&self) -> usize {
        self.active
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

    fn counters(&self) -> Arc<PortCounters> {
        Arc::clone(&self.counters)
    }
}
