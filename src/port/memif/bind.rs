//! Sets a port up. COLD. Peers come and go later.

use super::client::Client;
use super::error::MemifError;
use super::offer;
use super::pair::{Lender, Pair};
use super::ring::LOG2_SIZE_MAX;
use super::server::Server;
use super::{Conversation, MemifConfig, MemifPort, Role};
use crate::page::Memory;
use crate::pool::PoolConfig;
use crate::steer::{Toeplitz, random_key};
use crate::sys::errno::of_io;
use crate::sys::event::{Watch, sleep_until_readable};
use crate::sys::fork::Birthplace;
use crate::sys::seqpacket::{Access, ListenError, Listener};
use crate::sys::shared_event::Ringer;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum number of queues.
const QUEUES_MAX: u16 = 16;
/// Longest path of a Unix socket in bytes (unix(7)), without the zero byte.
const PATH_MAX: usize = 107;
/// Longest secret in bytes, without the zero byte.
const SECRET_MAX: usize = 23;
/// How long [`MemifPort::wait`] sleeps at most before it looks again.
const PAUSE: Duration = Duration::from_millis(10);

impl MemifPort {
    /// Opens a port at the socket `path`. A path that begins with `@` is an abstract name, as DPDK has by default. A
    /// client connects as soon as a server listens there, and again whenever the server goes. A server listens there
    /// until the port is dropped. The port is [`Down`](crate::port::PortState::Down) while there is no peer.
    ///
    /// A client lends the frames of `memory` if `config.lend` says that its peers are trusted, if a peer can map the
    /// memory ([`Memory::shared`]), and if the protocol can address all of it (less than 4 GiB). Otherwise the client
    /// copies. A server always copies.
    ///
    /// The port belongs to the process that opened it. In a child (fork(2)) it is down, and its state says so.
    ///
    /// # Errors
    /// [`MemifError`] names the fault and the remedy. Nothing is left behind.
    #[cold]
    pub fn open(path: &Path, memory: &Memory, config: &MemifConfig) -> Result<MemifPort, MemifError> {
        check(path, config)?;
        let region = memory.region();
        let lends = config.role == Role::Client
            && config.lend.is_some()
            && region.file().is_some()
            && u32::try_from(region.len()).is_ok();
        let conversation = match config.role {
            Role::Client => {
                Conversation::Client(Client::new(path, config, lends.then(|| Arc::clone(region))))
            }
            Role::Server => Conversation::Server(Server::new(listen(path, config.access)?, config)),
        };
        let nobody = match config.role {
            Role::Client => format!("no process listens at {}{}", path.display(), of_dpdk(path)),
            Role::Server => format!("no peer has connected to {}{}", path.display(), of_dpdk(path)),
        };
        let mut port = MemifPort {
            name: format!("memif:{}", path.display()),
            conversation,
            pairs: (0..config.queues).map(|_| Pair::new(config.ring)).collect(),
            active: 0,
            receiving: 0,
            looks: 0,
            turn: 0,
            lender: lends.then(|| Lender::new(region, config.frame_size)),
            toeplitz: Toeplitz::new(&random_key()),
            peer: None,
            down: nobody,
            ringer: Ringer::new().map_err(|errno| MemifError::Bell { errno })?,
            is_watched: true,
            unwatched: None,
            watch: Watch::new().map_err(of_io).map_err(MemifError::Watch)?,
            rounds: 0,
            sought: Instant::now(),
            birthplace: Birthplace::here(),
            counters: Arc::default(),
        };
        port.watch_anew();
        port.service();
        Ok(port)
    }

    /// Waits until the conversation with a peer that is there is complete. Returns true once packets flow. A client
    /// tries a server again that is slow, drops the connection or refuses it: DPDK's server listens before its ports
    /// are started. A client whose server does not listen, and a server without a connection, do not wait.
    #[cold]
    pub fn wait(&mut self, at_most: Duration) -> bool {
        if self.birthplace.is_elsewhere() {
            return self.abandon() > 0;
        }
        // None: without an end.
        let until = Instant::now().checked_add(at_most);
        let is_time = || until.is_none_or(|until| Instant::now() < until);
        while self.active == 0 && self.conversation.is_hopeful() && is_time() {
            self.watch_anew();
            self.service();
            if self.active == 0 {
                sleep_until_readable(&[self.watch.as_fd()], PAUSE);
            }
        }
        self.active > 0
    }
}

/// Listens at `path`, for the users to whom `access` gives the socket.
fn listen(path: &Path, access: Access) -> Result<Listener, MemifError> {
    Listener::open_by_steps(path, access).map_err(|error| {
        let path = path.to_owned();
        match error {
            ListenError::Chown { group, errno } => MemifError::Group { path, group, errno },
            ListenError::Chmod { mode, errno } => MemifError::Mode { path, mode, errno },
            ListenError::Listen(errno) => MemifError::Listen { path, errno },
        }
    })
}

/// Returns what to change if DPDK is at the other end: its socket and this path must be of the same kind.
fn of_dpdk(path: &Path) -> String {
    let is_abstract = path.as_os_str().as_encoded_bytes().starts_with(b"@");
    if is_abstract {
        String::new()
    } else {
        format!(" (DPDK needs socket-abstract=no, or here memif:@{})", path.display())
    }
}

fn check(path: &Path, config: &MemifConfig) -> Result<(), MemifError> {
    let MemifConfig { ring, queues, frame_size, .. } = *config;
    if !ring.is_power_of_two() || !(2..=1 << LOG2_SIZE_MAX).contains(&ring) {
        return Err(MemifError::RingSize(ring));
    }
    if !PoolConfig::has_size(frame_size) {
        return Err(MemifError::FrameSize(frame_size));
    }
    // Offsets in shared memory have 32 bits.
    let fits = |queues| u32::try_from(offer::bytes(queues, ring.ilog2() as u8, frame_size)).is_ok();
    let most = (1..=QUEUES_MAX).rev().find(|&queues| fits(queues)).unwrap_or(1);
    if queues == 0 || queues > most {
        return Err(MemifError::Queues { queues, most });
    }
    if config.secret.len() > SECRET_MAX || config.secret.contains('\0') {
        return Err(MemifError::Secret(config.secret.len()));
    }
    let len = path.as_os_str().len();
    if len == 0 || len > PATH_MAX {
        return Err(MemifError::Path { path: path.to_owned() });
    }
    Ok(())
}
