//! What a peer sent, although its close may wait or take long.
//!
//! The last close of a socket with `SO_LINGER` waits until its peer has taken all data, for as long as the option says.
//! A close of a file of FUSE waits for the answer of its owner, and a close of a pipe for a writer whose bytes lie in
//! such a file. A peer can send all of them. The kernel closes the descriptors of a message that is received without
//! room for them, or that is never received. The last close of memory frees its pages, of which a peer may have many.
//!
//! So no descriptor of a message is closed before its kind is known ([`is_known`]). Descriptors of unknown kind, memory
//! and its mappings are left to a thread of their own, or to the process's end if there is no thread. When too many are
//! left, no new peer is accepted ([`are_too_many`]).
//!
//! Such a thread has the privileges that its process had when it started, for as long as the peer likes. So a program
//! that is about to give privileges up first keeps everything open ([`defer_closing`]), and closes it afterwards
//! ([`close_deferred`]).

use rustix::fs::fcntl_get_seals;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The name in /proc of an eventfd. No file can have such a name, which has no slash.
const EVENT: &str = "anon_inode:[eventfd]";
/// Maximum number of threads that close something.
const MOST: usize = 64;

/// The number of things that are left, on a thread or until threads may start.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// What was left while no thread was to start. None: threads may start.
static DEFERRED: Mutex<Option<Vec<Box<dyn Send>>>> = Mutex::new(None);

/// A descriptor that a peer sent: memory or an eventfd. A drop closes it on a thread of its own.
#[derive(Debug)]
pub struct PeerDescriptor(Option<OwnedFd>);

impl PeerDescriptor {
    /// The descriptor, whose close no longer takes long: it is an event, or its holder closes it on another thread.
    pub(super) fn into_known(mut self) -> OwnedFd {
        match self.0.take() {
            Some(descriptor) => descriptor,
            None => unreachable!("the descriptor is there until the drop"),
        }
    }
}

impl From<OwnedFd> for PeerDescriptor {
    fn from(descriptor: OwnedFd) -> Self {
        PeerDescriptor(Some(descriptor))
    }
}

impl AsFd for PeerDescriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Some(descriptor) => descriptor.as_fd(),
            None => unreachable!("the descriptor is there until the drop"),
        }
    }
}

impl Drop for PeerDescriptor {
    fn drop(&mut self) {
        if let Some(descriptor) = self.0.take() {
            leave(descriptor);
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

/// Drops it on a thread of its own. Never drops it if there is no thread.
#[cold]
pub(super) fn leave<T: Send + 'static>(what: T) {
    LEFT.fetch_add(1, Relaxed);
    let what = Box::new(what);
    if let Some(deferred) = deferred().as_mut() {
        return deferred.push(what);
    }
    // Without the lock: other workers may have something to leave.
    close(what);
}

/// Starts a thread that drops it.
fn close(what: Box<dyn Send>) {
    let left = Arc::new(Mutex::new(Some(what)));
    let its = Arc::clone(&left);
    let close = move || {
        drop(its.lock().unwrap_or_else(PoisonError::into_inner).take());
        LEFT.fetch_sub(1, Relaxed);
    };
    if thread::Builder::new().name("close".into()).spawn(close).is_err() {
        std::mem::forget(left);
    }
}

fn deferred() -> MutexGuard<'static, Option<Vec<Box<dyn Send>>>> {
    DEFERRED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Keeps everything open that is left from now on, and starts no thread, until [`close_deferred`] is called. What is kept
/// counts as unclosed: with 64 such things no new peer is accepted.
#[cold]
pub fn defer_closing() {
    deferred().get_or_insert_default();
}

/// Ends [`defer_closing`]: closes what was kept, on threads with the privileges of this one.
#[cold]
pub fn close_deferred() {
    let deferred = deferred().take();
    deferred.into_iter().flatten().for_each(close);
}

/// Whether so much is left unclosed that no new peer is to be accepted.
pub(super) fn are_too_many() -> bool {
    LEFT.load(Relaxed) >= MOST
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

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
        leave(Told(tell.clone()));
        defer_closing();
        leave(Told(tell));
        // Kept while its sender lives.
        assert!(deferred().as_ref().is_some_and(|deferred| deferred.len() >= 2));
        assert!(told.try_recv().is_err());
        close_deferred();
        let closed: Vec<_> = told.iter().collect();
        assert_eq!(closed, [Some("close".to_owned()), Some("close".to_owned())]);
        assert!(deferred().is_none());
    }
}
