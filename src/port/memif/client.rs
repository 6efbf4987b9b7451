//! The client's side of the conversation. COLD.

use super::error::Fault;
use super::message::{Hello, Init, MODE_ETHERNET, Message, Text, VERSION};
use super::offer::Offer;
use super::pair::{FRAMES, Rings};
use super::session::{Session, Step};
use super::{MemifConfig, NAME, Sealing};
use crate::sys::errno::Errno;
use crate::sys::memfd::{MapError, MappedElsewhere, SharedMemory};
use crate::sys::region::Region;
use crate::sys::seqpacket::{Connection, Unclosed};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long a client waits before it tries again to connect. Under a fuzzer, an input has to do the same each time, so it
/// does not wait by the clock. A replay in `cargo test` waits.
const RETRY: Duration = Duration::from_millis(if cfg!(fuzzing) { 0 } else { 20 });
/// The longest such pause, after several conversations in a row that failed, or that lasted no longer than this once
/// packets flowed. Each costs time on the worker, and may cost memory for the server.
const RETRY_MAX: Duration = Duration::from_secs(1);

/// Messages, each with the descriptor that is sent with it.
type Messages = VecDeque<(Message, Option<OwnedFd>)>;

/// A client: it connects, offers its memory and rings, and begins again when the server goes.
#[derive(Debug)]
pub(super) struct Client {
    path: PathBuf,
    config: MemifConfig,
    /// The region whose frames are lent; None if bytes are copied.
    lent: Option<Arc<Region>>,
    /// Whether a server listened at the last attempt, and the next attempt may succeed.
    hopeful: bool,
    /// Why the last attempt could not connect, unless the reason is that no server listens.
    unreachable: Option<Errno>,
    /// A conversation has failed, so the reason is known.
    failed: bool,
    /// The pause after the next conversation that fails. It doubles with each failure, until packets have flowed for a
    /// while.
    pause: Duration,
    /// When packets began to flow, while they do.
    up_since: Option<Instant>,
    /// What servers have left unclosed.
    unclosed: Unclosed,
    state: State,
}

/// What a server lets a client offer.
#[derive(Clone, Copy, Debug)]
struct Terms {
    queues: u16,
    log2_size: u8,
}

#[derive(Debug)]
enum State {
    /// There is no connection. The next attempt is made at this time.
    Waiting(Instant),
    /// Connected to a server that has sent no message yet.
    Greeting(Session),
    /// INIT is sent. The offer is made when the server has accepted it: memory for a server that refuses us would be
    /// made and cleared with each attempt.
    Introduced(Session, Terms),
    /// Sends one message after another, each when the one before has been acknowledged.
    Offering(Session, Messages, Vec<Rings>),
    /// Packets flow. The server has mapped the memory, and could make holes in it: a thread seals it against them, unless
    /// that is done.
    Up(Session, Option<MappedElsewhere>),
}

impl Client {
    pub(super) fn new(path: &Path, config: &MemifConfig, lent: Option<Arc<Region>>) -> Client {
        let state = State::Waiting(Instant::now());
        let (path, config, unclosed) = (path.to_owned(), config.clone(), Unclosed::default());
        let (hopeful, unreachable, failed, pause, up_since) = (false, None, false, RETRY, None);
        Client { path, config, lent, hopeful, unreachable, failed, pause, up_since, unclosed, state }
    }

    /// Makes one step of the conversation, if one is possible.
    pub(super) fn service(&mut self) -> Step {
        if let State::Waiting(until) = self.state {
            if Instant::now() < until {
                return Step::Wait;
            }
            match Connection::open_counted(&self.path, &self.unclosed) {
                Ok(connection) => {
                    self.unreachable = None;
                    // Only a permitted peer gets the secret and packets.
                    if let Err(fault) = self.config.peer.check(&connection) {
                        return Step::Down(fault);
                    }
                    self.hopeful = true;
                    self.state = State::Greeting(Session::new(connection, self.config.sealing));
                }
                Err(errno) => {
                    // The backlog of a server that listens may be full.
                    self.hopeful = errno == Errno::AGAIN;
                    let is_absent = matches!(errno, Errno::NOENT | Errno::CONNREFUSED | Errno::AGAIN);
                    self.unreachable = (!is_absent).then_some(errno);
                    self.state = State::Waiting(Instant::now() + RETRY);
                    return Step::Wait;
                }
            }
        }
        self.listen().unwrap_or_else(Step::Down)
    }

    fn session(&self) -> Option<&Session> {
        match &self.state {
            State::Waiting(_) => None,
            State::Greeting(session)
            | State::Introduced(session, _)
            | State::Offering(session, ..)
            | State::Up(session, _) => Some(session),
        }
    }

    fn listen(&mut self) -> Result<Step, Fault> {
        let Some(session) = self.session() else { return Ok(Step::Wait) };
        let patient = matches!(self.state, State::Up(..));
        let Some((message, _)) = session.receive(patient)? else { return self.check_sealing() };
        match (std::mem::replace(&mut self.state, State::Waiting(Instant::now())), message) {
            (_, Message::Disconnect { reason, .. }) => Err(Fault::Disconnected(reason.to_string())),
            (State::Greeting(session), Message::Hello(hello)) => match self.terms(&hello) {
                Ok(terms) => {
                    session.send(&self.init(), None)?;
                    self.state = State::Introduced(session, terms);
                    Ok(Step::Again)
                }
                Err(fault) => {
                    self.state = State::Greeting(session);
                    Err(fault)
                }
            },
            (State::Introduced(session, terms), Message::Ack) => match self.offer(terms) {
                Ok((mut left, rings)) => {
                    say_next(&session, &mut left)?;
                    self.state = State::Offering(session, left, rings);
                    Ok(Step::Again)
                }
                Err(fault) => {
                    self.state = State::Introduced(session, terms);
                    Err(fault)
                }
            },
            (State::Offering(session, mut left, rings), Message::Ack) if !left.is_empty() => {
                say_next(&session, &mut left)?;
                self.state = State::Offering(session, left, rings);
                Ok(Step::Again)
            }
            (State::Offering(session, left, rings), Message::Connected(name)) if left.is_empty() => {
                self.state = State::Up(session, self.seal(&rings));
                self.up_since = Some(Instant::now());
                Ok(Step::Up(rings, name.to_string()))
            }
            (state, unexpected) => {
                self.state = state;
                Err(Fault::Unexpected(unexpected.name()))
            }
        }
    }

    /// Has the memory of these rings sealed against holes, unless frames are lent: a server that is lent frames is trusted.
    fn seal(&self, rings: &[Rings]) -> Option<MappedElsewhere> {
        let memory = rings.first().and_then(Rings::own_buffers)?;
        let is_sealed = self.config.sealing == Sealing::Required;
        is_sealed.then(|| SharedMemory::seal_whole(Arc::clone(memory), &self.unclosed))
    }

    /// Returns an error if the memory could not be sealed against holes, or has one by now.
    fn check_sealing(&mut self) -> Result<Step, Fault> {
        let State::Up(_, sealing) = &mut self.state else { return Ok(Step::Wait) };
        match sealing.as_ref().and_then(MappedElsewhere::result) {
            None => return Ok(Step::Wait),
            Some(Ok(_)) => {}
            Some(Err((region, MapError::Holes { .. }))) => return Err(Fault::Lost(region)),
            Some(Err((region, error))) => return Err(Fault::Map(region, error)),
        }
        *sealing = None;
        Ok(Step::Wait)
    }

    /// Returns what can be offered to a server with this HELLO.
    fn terms(&self, hello: &Hello) -> Result<Terms, Fault> {
        if hello.min_version > VERSION || hello.max_version < VERSION {
            return Err(Fault::Version(hello.min_version));
        }
        let offered = hello.max_ring_to_client.min(hello.max_ring_to_server).saturating_add(1);
        let queues = self.config.queues.min(offered);
        let log2_size = (self.config.ring.ilog2() as u8).min(hello.max_log2_ring_size);
        if self.lent.is_some() && hello.max_region < FRAMES {
            return Err(Fault::OneRegion);
        }
        Ok(Terms { queues, log2_size })
    }

    /// Returns the first message, which the server accepts or refuses.
    fn init(&self) -> Message {
        Message::Init(Init {
            version: VERSION,
            id: self.config.id,
            mode: MODE_ETHERNET,
            secret: Text::new(&self.config.secret),
            name: Text::new(NAME),
        })
    }

    /// Makes the memory for a server with these terms. Returns all messages that offer it, and its rings.
    fn offer(&self, terms: Terms) -> Result<(Messages, Vec<Rings>), Fault> {
        let Terms { queues, log2_size } = terms;
        let Offer { messages, rings } =
            Offer::new(queues, log2_size, self.lent.as_deref(), self.config.frame_size)?;
        let messages = messages.into_iter().map(|(message, descriptor)| (message, Some(descriptor)));
        let mut left: Messages = messages.collect();
        left.push_back((Message::Connect(Text::new(NAME)), None));
        Ok((left, rings))
    }

    /// Ends the connection, and sends the reason if the peer can use it.
    pub(super) fn disconnect(&mut self, fault: &Fault) {
        if let Some(session) = self.session() {
            session.end(fault);
        }
        // DPDK's server listens, and refuses clients, before its ports are started.
        self.hopeful = matches!(fault, Fault::Silent | Fault::Gone | Fault::Send(_) | Fault::Disconnected(_));
        self.failed = true;
        // A server may connect everybody and go at once.
        if self.up_since.take().is_some_and(|since| since.elapsed() > RETRY_MAX) {
            self.pause = RETRY;
        }
        self.state = State::Waiting(Instant::now() + self.pause);
        self.pause = (2 * self.pause).min(RETRY_MAX);
    }

    /// The pause after the next conversation that fails.
    #[cfg(test)]
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Returns why no packets flow, if no conversation has given the reason.
    #[cold]
    pub(super) fn why_down(&self) -> Option<String> {
        let path = self.path.display();
        match (self.unreachable, &self.state) {
            (Some(Errno::ACCESS | Errno::PERM), _) => Some(format!(
                "{path} may not be opened by this user: have its server allow it by mode= and group=, and its folder too"
            )),
            (Some(Errno::TOOMANYREFS), _) => Some(format!(
                "no connection to {path} until the descriptors that its servers sent are closed, which waits for other \
                 processes: end those servers, or start this program again"
            )),
            (Some(errno), _) => Some(format!("connect to {path}: {errno}")),
            (None, State::Greeting(_) | State::Introduced(..) | State::Offering(..)) if !self.failed => {
                Some(format!("the server at {path} has not answered yet"))
            }
            _ => None,
        }
    }

    /// Forgets a connection that belongs to another process, and the rings, which are not mapped in this one.
    #[cold]
    pub(super) fn forget(&mut self) {
        std::mem::forget(std::mem::replace(&mut self.state, State::Waiting(Instant::now())));
    }

    /// Whether a server is there, or was there and may answer the next time.
    pub(super) fn is_hopeful(&self) -> bool {
        self.hopeful
    }

    /// The connection on which messages may arrive.
    pub(super) fn connection(&self) -> Option<&Connection> {
        self.session().map(Session::connection)
    }
}

fn say_next(session: &Session, left: &mut Messages) -> Result<(), Fault> {
    match left.pop_front() {
        Some((message, descriptor)) => session.send(&message, descriptor.as_ref()),
        None => Ok(()),
    }
}
