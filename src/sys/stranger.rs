//! Descriptors whose close may wait, and that a peer sent all the same.
//!
//! The last close of a socket with `SO_LINGER` waits until its peer has taken all, for as long as the option
//! says, and a close of a file of FUSE waits for the answer of its owner. A peer can send both, and the kernel closes what is
//! in a message that is received without room for it, or that is never received. So nothing of a message is closed before it is
//! known what it brings ([`is_known`]); what is not known is left to a thread of its own, or to the process's end where there is
//! none, and beyond so many nobody new is let in ([`are_too_many`]).

use rustix::fs::fcntl_get_seals;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// What /proc calls descriptors that nothing waits for, beside memory: no file can have such a name, which has no slash.
const KNOWN: [&str; 2] = ["anon_inode:[eventfd]", "pipe:["];
/// Connections at most that have left what is not closed yet.
const MOST: usize = 64;

/// Those that are not closed yet.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Whether closing it, or a question about it, waits for nobody: it is memory, an eventfd or a pipe.
#[cold]
pub(super) fn is_known(descriptor: &OwnedFd) -> bool {
    let name = || fs::read_link(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())).ok();
    // Only memory has seals, set or not; nobody else is asked.
    fcntl_get_seals(descriptor).is_ok()
        || name().is_some_and(|name| {
            KNOWN.iter().any(|known| name.as_os_str().as_encoded_bytes().starts_with(known.as_bytes()))
        })
}

/// Closes them on a thread of their own; never, where there is none.
#[cold]
pub(super) fn leave(descriptors: Vec<OwnedFd>) {
    LEFT.fetch_add(1, Relaxed);
    let left = Arc::new(Mutex::new(descriptors));
    let its = Arc::clone(&left);
    let close = move || {
        drop(std::mem::take(&mut *its.lock().unwrap_or_else(PoisonError::into_inner)));
        LEFT.fetch_sub(1, Relaxed);
    };
    if thread::Builder::new().name("close".into()).spawn(close).is_err() {
        std::mem::forget(left);
    }
}

/// Whether so many have left what is not closed that nobody new is to be let in.
pub(super) fn are_too_many() -> bool {
    LEFT.load(Relaxed) >= MOST
}
