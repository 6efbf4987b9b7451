//! What a peer sent, although its close may wait or take long.
//!
//! The last close of a socket with `SO_LINGER` waits until its peer has taken all data, for as long as the option says.
//! A close of a file of FUSE waits for the answer of its owner, and a close of a pipe for a writer whose bytes lie in
//! such a file. A peer can send all of them. The kernel closes the descriptors of a message that is received without
//! room for them, or that is never received. The last close of memory frees its pages, of which a peer may have many.
//!
//! So no descriptor of a message is closed before its kind is known ([`is_known`]). Descriptors of unknown kind, memory
//! and its mappings are left to a thread of their own. It may run on all cores of the process, so that it takes no time
//! from the worker that starts it. If no thread can be started, they wait until one can.
//!
//! What is left counts for the listener that accepted the peer, or for the port that connected to it ([`Unclosed`]). If
//! 64 things of one listener or port are left, it gets no new peer, and all others still get theirs. So a hostile peer
//! stops no port but its own. In the whole process 1,024 things may be left, which bounds the number of threads. Only
//! hostile peers of 16 ports together reach that number. No port gets a new peer then.
//!
//! Such a thread has the privileges that its process had when it started, for as long as the peer likes. So a program
//! that is about to give privileges up first keeps everything open ([`defer_closing`]), and closes it afterwards
//! ([`close_deferred`]).

use super::cpu;
use super::signal::without_requests;
use rustix::fs::fcntl_get_seals;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::{fs, io};

/// The name in /proc of an eventfd. No file can have such a name, which has no slash.
const EVENT: &str = "anon_inode:[eventfd]";
/// The number of things of one listener, or of one port that connects, with which it gets no new peer.
const MOST: usize = 64;
/// The number of things of the whole process with which no port gets a new peer. A thread closes each.
const MOST_OF_ALL: usize = 16 * MOST;

/// The number of things of the whole process that are left, on a thread or until threads may start.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// What was left while no thread was to start. None: threads may start.
static DEFERRED: Mutex<Option<Vec<Left>>> = Mutex::new(None);
/// What was left while no thread could be started.
static WAITING: Mutex<Vec<Left>> = Mutex::new(Vec::new());

/// The number of things that the peers of one listener, or of one port that connects, have left unclosed. A clone has
/// the same number.
#[derive(Clone, Debug, Default)]
pub struct Unclosed(Arc<AtomicUsize>);

/// Something that is left. It counts until it is closed.
struct Left {
    /// Some until the drop.
    what: Option<Box<dyn Send>>,
    unclosed: Unclosed,
}

impl Unclosed {
    /// Drops it on a thread of its own. If none can be started now, tries again when more is left, or a peer may come.
    #[cold]
    pub(super) fn leave<T: Send + 'static>(&self, what: T) {
        self.0.fetch_add(1, Relaxed);
        LEFT.fetch_add(1, Relaxed);
        let left = Left { what: Some(Box::new(what)), unclosed: self.clone() };
        if let Some(deferred) = locked(&DEFERRED).as_mut() {
            return deferred.push(left);
        }
        // Without the lock: other workers may have something to leave.
        if close(left) {
            close_waiting();
        }
    }

    /// Runs `work`, which may wait for a peer, as [`Unclosed::leave`] drops what it is given. The work counts until it ends.
    #[cold]
    pub(super) fn run<F: FnOnce() + Send + 'static>(&self, work: F) {
        struct Work<F: FnOnce()>(Option<F>);
        impl<F: FnOnce()> Drop for Work<F> {
            fn drop(&mut self) {
                self.0.take().into_iter().for_each(|work| work());
            }
        }
        self.leave(Work(Some(work)));
    }

    /// Whether so much is left unclosed that no new peer is to be accepted or connected to.
    pub(super) fn is_too_much(&self) -> bool {
        close_waiting();
        are_too_many(self.0.load(Relaxed), LEFT.load(Relaxed))
    }

    /// The number of things that are left unclosed.
    #[cfg(test)]
    pub(super) fn number(&self) -> usize {
        self.0.load(Relaxed)
    }
}

fn are_too_many(own: usize, all: usize) -> bool {
    own >= MOST || all >= MOST_OF_ALL
}

impl Drop for Left {
    fn drop(&mut self) {
        self.what = None;
        self.unclosed.0.fetch_sub(1, Relaxed);
        LEFT.fetch_sub(1, Relaxed);
    }
}

/// A descriptor that a peer sent: memory or an eventfd. A drop closes it on a thread of its own.
#[derive(Debug)]
pub struct PeerDescriptor {
    /// Some until the drop.
    descriptor: Option<OwnedFd>,
    unclosed: Unclosed,
}

impl PeerDescriptor {
    /// A descriptor that counts there while it is left.
    pub(super) fn new(descriptor: OwnedFd, unclosed: &Unclosed) -> PeerDescriptor {
        PeerDescriptor { descriptor: Some(descriptor), unclosed: unclosed.clone() }
    }

    /// Where it counts while it is left.
    pub(super) fn unclosed(&self) -> &Unclosed {
        &self.unclosed
    }

    /// Drops `mapped`, and closes the descriptor, on a thread of their own.
    pub(super) fn leave_with<T: Send + 'static>(mut self, mapped: T) {
        let descriptor = self.descriptor.take();
        self.unclosed.leave((mapped, descriptor));
    }

    /// The descriptor, whose close no longer takes long: it is an event, or its holder closes it on another thread.
    pub(super) fn into_known(mut self) -> OwnedFd {
        match self.descriptor.take() {
            Some(descriptor) => descriptor,
            None => unreachable!("the descriptor is there until the drop"),
        }
    }
}

/// A descriptor that counts only for the whole process while it is left.
impl From<OwnedFd> for PeerDescriptor {
    fn from(descriptor: OwnedFd) -> Self {
        PeerDescriptor::new(descriptor, &Unclosed::default())
    }
}

impl AsFd for PeerDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.descriptor {
            Some(descriptor) => descriptor.as_fd(),
            None => unreachable!("the descriptor is there until the drop"),
        }
    }
}

impl Drop for PeerDescriptor {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.unclosed.leave(descriptor);
        }
    }
}

/// Whether neither asking about the descriptor nor closing it waits for a peer: it is memory or an eventfd.
#[cold]
pub(super) fn is_known(descriptor: &OwnedFd) -> bool {
    // Only memory has seals, set or not. The question does not reach any other file's owner.
    fcntl_get_seals(descriptor).is_ok() || is_event(descriptor)
}

/// Whether it is an eventfd. The file itself is not asked, because its owner could make any question wait. Without
/// /proc, no descriptor is known to be one.
#[cold]
pub(super) fn is_event(descriptor: &impl AsFd) -> bool {
    let name = fs::read_link(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()));
    name.is_ok_and(|name| name.as_os_str() == EVENT)
}

/// Starts a thread that drops it. Returns whether there is one; otherwise it waits.
fn close(left: Left) -> bool {
    let left = Arc::new(Mutex::new(Some(left)));
    let its = Arc::clone(&left);
    let close = move || {
        cpu::unpin();
        let left = locked(&its).take();
        drop(left);
    };
    let started = start(close).is_ok();
    if !started {
        locked(&WAITING).extend(locked(&left).take());
    }
    started
}

/// Closes what has waited for a thread, unless no thread is to start.
fn close_waiting() {
    while locked(&DEFERRED).is_none() {
        let next = locked(&WAITING).pop();
        if !next.is_some_and(close) {
            break;
        }
    }
}

#[cfg(test)]
thread_local! {
    /// Whether this thread can start none.
    static NO_THREADS: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn start(close: impl FnOnce() + Send + 'static) -> io::Result<()> {
    #[cfg(test)]
    if NO_THREADS.get() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    without_requests(|| thread::Builder::new().name("close".into()).spawn(close)).map(drop)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps everything open that is left from now on, and starts no thread, until [`close_deferred`] is called. What is kept
/// counts as unclosed: a listener with 64 such things accepts no new peer.
#[cold]
pub fn defer_closing() {
    locked(&DEFERRED).get_or_insert_default();
}

/// Whether everything is kept open: nothing is closed, and no memory of a peer is mapped, before [`close_deferred`].
#[cold]
pub fn is_closing_deferred() -> bool {
    locked(&DEFERRED).is_some()
}

/// Ends [`defer_closing`]: closes what was kept, on threads with the privileges of this one.
#[cold]
pub fn close_deferred() {
    let deferred = locked(&DEFERRED).take();
    for left in deferred.into_iter().flatten() {
        close(left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};
    use std::time::{Duration, Instant};

    struct Told(Sender<Option<String>>);

    impl Drop for Told {
        fn drop(&mut self) {
            let _ = self.0.send(thread::current().name().map(str::to_owned));
        }
    }

    #[test]
    fn what_a_peer_sent_before_privileges_are_given_up_is_closed_afterwards() {
        let (tell, told) = channel();
        defer_closing();
        Unclosed::default().leave(Told(tell.clone()));
        defer_closing();
        Unclosed::default().leave(Told(tell));
        // Kept while its sender lives.
        assert!(locked(&DEFERRED).as_ref().is_some_and(|deferred| deferred.len() >= 2));
        assert!(told.try_recv().is_err());
        close_deferred();
        let closed: Vec<_> = told.iter().collect();
        assert_eq!(closed, [Some("close".to_owned()), Some("close".to_owned())]);
        assert!(locked(&DEFERRED).is_none());
    }

    /// Its drop waits while a thread has the lock, as a close waits for a peer.
    struct Waits(Arc<Mutex<()>>);

    impl Drop for Waits {
        fn drop(&mut self) {
            drop(self.0.lock());
        }
    }

    /// Found: 64 things that the peers of one port had left, and no port of the process got a new peer.
    #[test]
    fn what_the_peers_of_one_port_leave_unclosed_keeps_new_peers_from_no_other_port() {
        let (attacked, other) = (Unclosed::default(), Unclosed::default());
        let lock = Arc::new(Mutex::new(()));
        let waiting = lock.lock().unwrap();
        for n in 0..MOST {
            assert!(!attacked.is_too_much(), "{n}");
            attacked.clone().leave(Waits(Arc::clone(&lock)));
        }
        assert!(attacked.is_too_much() && !other.is_too_much());
        drop(waiting);
        let until = Instant::now() + Duration::from_secs(60);
        while attacked.is_too_much() {
            assert!(Instant::now() < until, "what is closed counts no longer");
            thread::yield_now();
        }
    }

    struct ToldWhere(Sender<(Vec<usize>, i64)>);

    impl Drop for ToldWhere {
        fn drop(&mut self) {
            // SAFETY: it only asks.
            let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
            let _ = self.0.send((cpu::allowed().unwrap(), policy));
        }
    }

    /// Found in a review: the thread had the worker's core and policy, and took half of its time, or never ran.
    #[test]
    fn what_a_pinned_worker_leaves_is_closed_on_all_cores_of_the_process_by_an_ordinary_thread() {
        let cores = cpu::allowed().unwrap();
        let last = *cores.last().unwrap();
        let (tell, told) = channel();
        let worker = move || {
            cpu::pin(last).unwrap();
            let priority: libc::c_int = 0;
            // SAFETY: it reads the priority.
            let set = unsafe {
                libc::syscall(libc::SYS_sched_setscheduler, 0, libc::SCHED_BATCH, &raw const priority)
            };
            assert_eq!(set, 0);
            Unclosed::default().leave(ToldWhere(tell));
        };
        thread::spawn(worker).join().unwrap();
        assert_eq!(told.recv().unwrap(), (cores, i64::from(libc::SCHED_OTHER)));
    }

    /// Found in a review: what was left in a moment without threads counted for good, and the port got no peer again.
    #[test]
    fn what_is_left_while_no_thread_can_be_started_is_closed_later() {
        let unclosed = Unclosed::default();
        NO_THREADS.set(true);
        for _ in 0..MOST {
            unclosed.leave(());
        }
        NO_THREADS.set(false);
        let until = Instant::now() + Duration::from_secs(60);
        while unclosed.is_too_much() {
            assert!(Instant::now() < until, "it still counts");
            thread::yield_now();
        }
    }

    #[test]
    fn all_ports_together_leave_no_more_than_is_left_by_sixteen() {
        assert!(!are_too_many(63, 1023));
        assert!(are_too_many(64, 64) && are_too_many(0, 1024));
    }
}
