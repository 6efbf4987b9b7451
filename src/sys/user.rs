//! The user that this process runs as.

use rustix::process::geteuid;
#[cfg(feature = "memif")]
use std::sync::OnceLock;

/// The user that this process ran as before it became another one.
#[cfg(feature = "memif")]
static BEFORE: OnceLock<u32> = OnceLock::new();

/// Records the user that this process has run as so far.
#[cfg(all(feature = "xdp", feature = "af-packet", feature = "tap", feature = "memif"))]
pub(super) fn remember_user() {
    // The first one counts.
    let _ = BEFORE.set(own_user());
}

/// Whether a user is the one that this process runs as, or the one that it ran as before, when it connected or
/// listened.
#[cfg(feature = "memif")]
pub fn is_own(user: u32) -> bool {
    user == own_user() || BEFORE.get() == Some(&user)
}

/// The user that this process runs as.
pub fn own_user() -> u32 {
    geteuid().as_raw()
}

/// Runs `work` as another user. The thread must end with it.
#[cfg(test)]
pub(crate) fn as_user<T>(user: u32, work: impl FnOnce() -> T) -> T {
    let user = rustix::process::Uid::from_raw(user);
    rustix::thread::set_thread_res_uid(user, user, user).expect("setresuid(2)");
    work()
}
