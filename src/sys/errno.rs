//! Why a system call failed.

pub use rustix::io::Errno;

/// What the last system call made through libc said.
pub(super) fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}
