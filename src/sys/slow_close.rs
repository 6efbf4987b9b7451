//! Descriptors that a peer sent although their close may wait.
//!
//! The last close of a socket with `SO_LINGER` waits until its peer has taken all data, for as long as the option says.
//! A close of a file of FUSE waits for the answer of its owner. A peer can send both. The kernel closes the descriptors
//! of a message that is received without room for them, or that is never received.
//!
//! So no descriptor of a message is closed before its kind is known ([`is_known`]). Descriptors of unknown kind are
//! left to a thread of their own, or to the process's end if there is no thread. When too many are left, no new peer is
//! accepted ([`are_too_many`]).

use rustix::fs::fcntl_get_seals;
use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

/// The names in /proc of descriptors whose close never waits, besides memory. No file can have such a name, which has
/// no slash.
const KNOWN: [&str; 2] = ["anon_inode:[eventfd]", "pipe:["];
/// Maximum number of connections that have left descriptors that are not closed yet.
const MOST: usize = 64;

/// The number of connections whose descriptors are not closed yet.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Whether neither closing the descriptor nor asking about it waits: it is memory, an eventfd or a pipe.
#[cold]
pub(super) fn is_known(descriptor: &OwnedFd) -> bool {
    let name = || fs::read_link(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd())).ok();
    // Only memory has seals, set or not. The question does not reach any other file's owner.
    fcntl_get_seals(descriptor).is_ok()
        || name().is_some_and(|name| {
            KNOWN.iter().any(|known| name.as_os_str().as_encoded_bytes().starts_with(known.as_bytes()))
        })
}

/// Closes the descriptors on a thread of their own. Never closes them if there is no thread.
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

/// Whether so many connections have left unclosed descriptors that no new peer is to be accepted.
pub(super) fn are_too_many() -> bool {
    LEFT.load(Relaxed) >= MOST
}
