//! Sockets and an attached program that a privileged process hands to one without privileges. COLD.
//!
//! ```text
//!   privileged:  XdpGrant::new ─► program attached, nothing redirected ─► GrantRequest::give ─┐ SCM_RIGHTS
//!   without:     XdpGrant::ask ◄──────────────────────────────────────────────────────────────┘
//!                XdpQueues::open_granted ─► its memory registered, rings, bound ─► the sockets enter the map
//! ```
//! The requesting process gets a socket for each queue, the link that holds the program to the interface, the program and its maps.
//! The granting process keeps nothing after it drops the grant. So the program leaves the interface when the server
//! ends, in any way.
//!
//! Without privileges the rules cannot be changed (there is no [`TakeControl`](super::TakeControl)), and an interface
//! that was removed needs another grant when it is back: the port is down for good. The server locks the
//! memory, within its limit (`ulimit -l`).
//! Before Linux 5.19, the maps may be used without privileges only if `kernel.unprivileged_bpf_disabled` is 0.

use super::again::BUSY_TRIES;
use super::attach::Attachment;
use super::bind::{Means, Umem, check_rings, check_usable};
use super::error::{Attempt, XdpError};
use super::installed::Installed;
use super::later::Attached;
use super::maps::Maps;
use super::take::TakeControl;
use super::{Punt, XdpConfig, XdpModePreference, XdpPort};
use crate::pool::Pool;
use crate::port::{Fill, Wake};
use crate::sync::Worker;
use crate::sys::bpf::{
    BpfError, KernelCounts, Punted, RedirectLink, RedirectProgram, SocketMap, Take, XdpMode,
};
use crate::sys::errno::Errno;
use crate::sys::event::sleep_until_readable;
use crate::sys::netdev::{Netdev, NetdevId};
use crate::sys::seqpacket::{Access, Connection, Listener, Received};
use crate::sys::user::own_user;
use crate::sys::xdp::{Socket, SocketError};
use std::mem;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The first bytes of a grant.
const GREETING: &str = "netmem grant 1";
/// The first bytes of a refusal.
const REFUSAL: &str = "refused: ";
/// Maximum time for an answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Maximum number of bytes of a message: that of the rules of a port.
const MESSAGE_MAX: usize = 64 << 10;
/// Maximum number of queues of a grant. The connection has room for one message with a socket for each.
const QUEUES_MAX: usize = 128;

/// Granted queues of an interface, from which the ports of one process may take some packets. It holds an unbound socket for
/// each queue and an attached program.
#[derive(Debug)]
pub struct XdpGrant {
    interface: String,
    /// No two have the same number. None is left if all were split off.
    queues: Vec<(u32, Socket)>,
    take: Take,
    attachment: Arc<Attachment>,
}

/// The reason why there is no grant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GrantError {
    /// The socket cannot be connected to.
    #[error("{}: {errno}; does `netmem grant` run, and may this user write to its socket?", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The error of connect(2).
        errno: Errno,
    },
    /// The listener is neither root nor this user.
    #[error("{}: user {user} listens there, who is neither root nor this user", path.display())]
    OtherUser {
        /// The socket.
        path: PathBuf,
        /// The user that listens.
        user: u32,
    },
    /// No answer came.
    #[error("no answer came within {} s", PATIENCE.as_secs())]
    TimedOut,
    /// The answer is a refusal.
    #[error("{0}")]
    Refused(String),
    /// The answer is not valid: another version of netmem, or another program.
    #[error("the answer is not a grant: {0}")]
    InvalidReply(&'static str),
    /// This process is out of descriptors.
    #[error("this process has no room for the descriptors of the grant: raise the limit with `ulimit -n`")]
    NoRoom,
    /// The received descriptor is not an AF_XDP socket.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// A received map cannot be used.
    #[error(transparent)]
    Map(#[from] BpfError),
}

impl XdpGrant {
    /// Opens a socket for each of `queues`, up to 128, and attaches a program that takes `take` of a queue as soon as a port
    /// has been opened on it with the grant. Until then all packets go to the kernel. Needs the privileges that
    /// [`XdpPort::open`](super::XdpPort::open) needs.
    ///
    /// # Errors
    /// Returns [`XdpError`] with the step and the remedy: `GrantedQueues` for more queues than 128, or the same one twice,
    /// and `NoQueues` for none. Nothing is left behind.
    pub fn new(
        interface: &str,
        queues: &[u32],
        mode: XdpModePreference,
        take: &Take,
    ) -> Result<XdpGrant, XdpError> {
        let interface = interface.to_owned();
        let Some(&first) = queues.first() else { return Err(XdpError::NoQueues { interface }) };
        let is_twice = |(at, queue)| queues[..at].contains(queue);
        if queues.len() > QUEUES_MAX || queues.iter().enumerate().any(is_twice) {
            return Err(XdpError::GrantedQueues { interface, queues: queues.to_vec() });
        }
        let config = XdpConfig { mode, take: Some(take.clone()), ..XdpConfig::default() };
        let attempt = Attempt::of_no_memory(&interface, first, &config);
        let netdev = Netdev::open(&interface).map_err(|errno| attempt.netdev("find the interface", errno))?;
        let open = |&queue: &u32| {
            let attempt = Attempt::of_no_memory(&interface, queue, &config);
            check_usable(&netdev, &attempt)?;
            Ok((queue, Socket::new().map_err(|error| attempt.socket(error))?))
        };
        let queues = queues.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        let taking = Some(Arc::new(TakeControl::new(&interface, take)));
        let attachment = Attachment::new(&netdev, mode, Punted::Nothing, taking, false, &attempt)?;
        Ok(XdpGrant { interface, queues, take: take.clone(), attachment: Arc::new(attachment) })
    }

    /// Requests a grant from the privileged process that listens at `path` (`netmem grant`). Its user must be root or
    /// this user.
    ///
    /// # Errors
    /// Returns [`GrantError`].
    ///
    /// # Cost
    /// Waits for the answer, at most 10 s.
    pub fn ask(path: &Path) -> Result<XdpGrant, GrantError> {
        let refused = |errno| GrantError::Connect { path: path.to_owned(), errno };
        let giver = Connection::open(path).map_err(refused)?;
        let user = giver.peer_user().map_err(refused)?;
        if user != 0 && user != own_user() {
            return Err(GrantError::OtherUser { path: path.to_owned(), user });
        }
        let until = Instant::now() + PATIENCE;
        let (text, socket) = next(&giver, until)?;
        let said = text.strip_prefix(GREETING).ok_or(GrantError::InvalidReply("it begins otherwise"))?;
        let words: Vec<&str> = said.split_whitespace().collect();
        let [interface, index, queues, mode, take] = words[..] else {
            return Err(GrantError::InvalidReply("it has more or fewer words"));
        };
        let mode = match mode {
            "native" => XdpMode::Native,
            "generic" => XdpMode::Generic,
            _ => return Err(GrantError::InvalidReply("there is no such mode")),
        };
        let number = |text: &str| text.parse().map_err(|_| GrantError::InvalidReply("a number is none"));
        let index = number(index)?;
        let numbers = queues.split(',').map(number).collect::<Result<Vec<u32>, _>>()?;
        if numbers.len() > QUEUES_MAX {
            return Err(GrantError::InvalidReply("it has too many queues"));
        }
        let take = take.parse().map_err(|_| GrantError::InvalidReply("the rules are none"))?;
        let socket = Socket::given(socket)?;
        // The number is that of the interface in the other process's network namespace, which the socket belongs to.
        let on = NetdevId::of(&socket, index);
        let rest = || next(&giver, until).map(|(_, descriptor)| descriptor);
        let mut queues = vec![(numbers[0], socket)];
        for queue in &numbers[1..] {
            queues.push((*queue, Socket::given(rest()?)?));
        }
        let (link, program) = (RedirectLink::given(rest()?, mode), RedirectProgram::from(rest()?));
        let maps = Maps::given(SocketMap::given(rest()?)?, KernelCounts::given(rest()?)?);
        let attachment =
            Attachment::given(Installed::new(index, Attached { link, program, several: false }, maps), on);
        Ok(XdpGrant { interface: interface.to_owned(), queues, take, attachment: Arc::new(attachment) })
    }

    /// The name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface
    }

    /// The numbers of the queues; none if all were [split off](XdpGrant::split_off).
    pub fn queues(&self) -> Vec<u32> {
        self.queues.iter().map(|(queue, _)| *queue).collect()
    }

    /// Takes some of the queues out, as a grant for another worker. Returns None, and changes nothing, unless the grant has
    /// all of them and there is one or more.
    ///
    /// ```no_run
    /// use netmem::port::xdp::XdpGrant;
    ///
    /// let mut first = XdpGrant::ask("/run/dns.sock".as_ref())?; // of queues 0 to 3
    /// let second = first.split_off(&[2, 3]).ok_or("fewer queues were granted")?;
    /// assert_eq!((first.queues(), second.queues()), (vec![0, 1], vec![2, 3]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn split_off(&mut self, queues: &[u32]) -> Option<XdpGrant> {
        let has = |queue: &u32| self.queues.iter().any(|(one, _)| one == queue);
        if queues.is_empty() || !queues.iter().all(has) {
            return None;
        }
        let (out, kept) =
            mem::take(&mut self.queues).into_iter().partition(|(queue, _)| queues.contains(queue));
        self.queues = kept;
        let XdpGrant { interface, take, attachment, .. } = &*self;
        let attachment = Arc::clone(attachment);
        Some(XdpGrant { interface: interface.clone(), queues: out, take: take.clone(), attachment })
    }

    /// The packets that a port will take.
    pub fn take(&self) -> &Take {
        &self.take
    }

    /// The text of the message with the socket.
    fn text(&self) -> String {
        let XdpGrant { interface, queues, take, attachment } = self;
        let (index, mode) = (attachment.interface(), attachment.mode());
        let queues: Vec<String> = queues.iter().map(|(queue, _)| queue.to_string()).collect();
        format!("{GREETING} {interface} {index} {} {mode} {take}", queues.join(","))
    }
}

impl XdpPort {
    /// Opens a port with a grant of one queue by a privileged process. This process needs no privileges, but must be allowed
    /// to lock the memory of `umem` (`ulimit -l`). Of `config`, only the rings and zero-copy are used; the mode and the
    /// packets to take are those of the grant. Otherwise as [`XdpPort::open`]. For several queues,
    /// [`XdpQueues::open_granted`](super::XdpQueues::open_granted).
    ///
    /// # Errors
    /// The errors of [`XdpPort::open`], and `GrantedQueues` unless the grant has one queue. The grant is used up.
    #[cold]
    pub fn open_granted(
        umem: &Arc<Umem>,
        w: &mut Worker,
        pool: &Pool,
        grant: XdpGrant,
        config: &XdpConfig,
    ) -> Result<XdpPort, XdpError> {
        if grant.queues.len() != 1 {
            let (interface, queues) = (grant.interface.clone(), grant.queues());
            return Err(XdpError::GrantedQueues { interface, queues });
        }
        let none = XdpError::NoQueues { interface: grant.interface.clone() };
        grant.open(umem, w, pool, config)?.pop().ok_or(none)
    }
}

impl XdpGrant {
    /// Opens a port on each queue. All FILL rings together get at most a quarter of the pool.
    ///
    /// # Errors
    /// As [`XdpPort::open_granted`] for any of them.
    pub(super) fn open(
        self,
        umem: &Arc<Umem>,
        w: &mut Worker,
        pool: &Pool,
        config: &XdpConfig,
    ) -> Result<Vec<XdpPort>, XdpError> {
        check_rings(&config.rings)?;
        umem.check(w, pool)?;
        let XdpGrant { interface, queues, take, attachment } = self;
        let config = XdpConfig { take: Some(take), punt: Punt::Nothing, ..config.clone() };
        let most = pool.frames() / 4 / queues.len().max(1);
        let mut open = |(queue, socket)| {
            let attempt = Attempt::new(umem, &interface, queue, &config);
            let netdev =
                Netdev::open(&interface).map_err(|errno| attempt.netdev("find the interface", errno))?;
            if !attachment.is_on(netdev.id()) {
                // The grant is for another network namespace, or for an interface that has been removed.
                return Err(XdpError::UnknownInterface { interface: interface.clone() });
            }
            let means = Means::Granted(socket, Arc::clone(&attachment));
            let (binding, rings) = umem.bind(&netdev, &attempt, &config, (means, BUSY_TRIES))?;
            let mut port = XdpPort::new(umem.clone(), netdev, queue, &config, binding, rings);
            port.is_granted = true;
            port.refill_to(w, pool, most);
            port.kick();
            port.let_packets_in(&attempt)?;
            Ok(port)
        };
        queues.into_iter().map(&mut open).collect()
    }
}

/// Receives the next message, which carries one descriptor.
fn next(giver: &Connection, until: Instant) -> Result<(String, OwnedFd), GrantError> {
    let mut room = vec![0; MESSAGE_MAX];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match giver.receive_trusting(&mut room) {
            Received::Message(len, descriptors) => {
                let text = String::from_utf8_lossy(room.get(..len).unwrap_or_default()).into_owned();
                if let Some(reason) = text.strip_prefix(REFUSAL) {
                    return Err(GrantError::Refused(reason.to_owned()));
                }
                let descriptor = descriptors.into_iter().next();
                return Ok((text, descriptor.ok_or(GrantError::InvalidReply("it brings no descriptor"))?));
            }
            Received::Nothing if left.is_zero() => return Err(GrantError::TimedOut),
            Received::Nothing => drop(sleep_until_readable(&[giver.as_fd()], left)),
            Received::NoRoom => return Err(GrantError::NoRoom),
            Received::UnknownDescriptor | Received::End => {
                return Err(GrantError::InvalidReply("it ends too early"));
            }
        }
    }
}

/// The socket on which processes without privileges ask for grants.
#[derive(Debug)]
pub struct GrantListener {
    listener: Listener,
    /// The last wait ended because a process asks, and it has not been accepted since.
    is_asked: AtomicBool,
}

impl GrantListener {
    /// Listens at `path`, or at the abstract name `@NAME`. Users that may write to the socket may ask: its owner, and
    /// those that `mode` (0660, say) and `group` allow.
    ///
    /// # Errors
    /// Returns the error of bind(2) or chown(2). It is `ADDRINUSE` if another process already listens.
    pub fn open(path: &Path, mode: u32, group: Option<u32>) -> Result<GrantListener, Errno> {
        let listener = Listener::open(path, Access { mode, group })?;
        Ok(GrantListener { listener, is_asked: AtomicBool::new(false) })
    }

    /// Returns a process that asks, or None if there is none now.
    pub fn accept(&self) -> Option<GrantRequest> {
        let accepted = self.listener.accept().map(GrantRequest);
        if accepted.is_some() {
            self.is_asked.store(false, Relaxed);
        }
        accepted
    }

    /// Whether no process is accepted, because former ones have sent too many descriptors whose close waits for them.
    pub fn refuses_all(&self) -> bool {
        self.listener.refuses_peers()
    }

    /// Waits until a process asks, at most that long. If one asks already that could not be accepted, waits that long.
    pub fn wait(&self, at_most: Duration) {
        if self.is_asked.swap(false, Relaxed) {
            return thread::sleep(at_most);
        }
        self.is_asked.store(sleep_until_readable(&[self.listener.as_fd()], at_most), Relaxed);
    }
}

/// A process that asks for a grant.
#[derive(Debug)]
pub struct GrantRequest(Connection);

impl GrantRequest {
    /// The user that asks.
    ///
    /// # Errors
    /// Returns the error of getsockopt(2).
    pub fn user(&self) -> Result<u32, Errno> {
        self.0.peer_user()
    }

    /// Hands over a grant. After `grant` is dropped here, it belongs to the other process alone.
    ///
    /// # Errors
    /// Returns the error of sendmsg(2). It is `PIPE` if the requesting process is gone, and `INVAL` if the grant has no queue.
    pub fn give(&self, grant: &XdpGrant) -> Result<(), Errno> {
        let ((_, first), others) = grant.queues.split_first().ok_or(Errno::INVAL)?;
        self.0.send(grant.text().as_bytes(), Some(first.as_fd()))?;
        let mut each =
            |name: &str, descriptor: BorrowedFd<'_>| self.0.send(name.as_bytes(), Some(descriptor));
        others.iter().try_for_each(|(_, socket)| each("socket", socket.as_fd()))?;
        grant.attachment.each_descriptor(&mut each)
    }

    /// Refuses a grant, with the reason.
    pub fn refuse(&self, reason: &str) {
        // If the requesting process is gone, the reason is not needed.
        let _ = self.0.send(format!("{REFUSAL}{reason}").as_bytes(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Found in a review: `netmem grant` took all of a core while a process waited that it did not accept.
    #[test]
    fn a_process_that_cannot_be_accepted_does_not_keep_its_listener_busy() {
        let path = PathBuf::from(format!("@netmem-grant-busy-{}", std::process::id()));
        let listener = GrantListener::open(&path, 0o600, None).expect("an abstract name");
        // It counts as readable from now on.
        listener.listener.shut();
        let begun = Instant::now();
        let mut waits = 0;
        while begun.elapsed() < Duration::from_millis(500) {
            assert!(listener.accept().is_none());
            listener.wait(Duration::from_millis(50));
            waits += 1;
        }
        assert!(waits < 100, "{waits} waits");
    }

    /// Returns the error of a request that is answered in this way.
    fn answered(name: &str, answer: impl FnOnce(&Connection) + Send) -> GrantError {
        let path = PathBuf::from(format!("@netmem-grant-{name}-{}", std::process::id()));
        let listener = GrantListener::open(&path, 0o600, None).expect("an abstract name");
        thread::scope(|scope| {
            scope.spawn(|| {
                let asks = loop {
                    match listener.accept() {
                        Some(request) => break request,
                        None => listener.wait(PATIENCE),
                    }
                };
                assert_eq!(asks.user(), Ok(own_user()));
                answer(&asks.0);
            });
            XdpGrant::ask(&path).expect_err("there is no grant")
        })
    }

    #[test]
    fn where_nobody_listens_the_remedy_is_named() {
        let error = XdpGrant::ask(Path::new("/nonexistent/netmem.sock")).expect_err("nobody");
        assert!(error.to_string().contains("/nonexistent/netmem.sock: "), "{error}");
        assert!(error.to_string().contains("does `netmem grant` run"), "{error}");
    }

    #[test]
    fn a_refusal_says_why() {
        let error = answered("refusal", |asks| {
            asks.send(b"refused: queue 0 of eth0 is bound", None).expect("sent");
        });
        assert_eq!(error, GrantError::Refused("queue 0 of eth0 is bound".into()));
    }

    #[test]
    fn answers_that_make_no_sense_are_no_grant() {
        let (file, greeting) = (std::fs::File::open("/dev/null").expect("a file"), GREETING);
        let said = |name, text: &str| {
            answered(name, |asks| asks.send(text.as_bytes(), Some(file.as_fd())).expect("sent"))
        };
        let nonsense = |error: &GrantError, what| assert_eq!(*error, GrantError::InvalidReply(what));
        nonsense(&said("other", "netmem grant 2 eth0"), "it begins otherwise");
        nonsense(&said("few", &format!("{greeting} eth0 1 0")), "it has more or fewer words");
        nonsense(&said("mode", &format!("{greeting} eth0 1 0 fast udp:7")), "there is no such mode");
        nonsense(&said("number", &format!("{greeting} eth0 one 0 native udp:7")), "a number is none");
        nonsense(&said("queues", &format!("{greeting} eth0 1 0,two native udp:7")), "a number is none");
        let many = vec!["0"; QUEUES_MAX + 1].join(",");
        nonsense(&said("many", &format!("{greeting} eth0 1 {many} native udp:7")), "it has too many queues");
        nonsense(&said("rules", &format!("{greeting} eth0 1 0 native udp:port")), "the rules are none");
        let error = said("file", &format!("{greeting} eth0 1 0 native udp:7"));
        assert!(matches!(error, GrantError::Socket(_)), "{error}");
        nonsense(&answered("end", |_| ()), "it ends too early");
        let error = answered("bare", |asks| asks.send(greeting.as_bytes(), None).expect("sent"));
        nonsense(&error, "it brings no descriptor");
    }
}
