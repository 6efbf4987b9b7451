//! The user that this process runs as.

use rustix::process::geteuid;

/// The user that this process runs as.
pub fn own_user() -> u32 {
    geteuid().as_raw()
}

/// Does `work` as another user, for which this thread must be one that ends with it.
#[cfg(test)]
pub(crate) fn as_user<T>(user: u32, work: impl FnOnce() -> T) -> T {
    let user = rustix::process::Uid::from_raw(user);
    rustix::thread::set_thread_res_uid(user, user, user).expect("setresuid(2)");
    work()
}
