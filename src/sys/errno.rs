//! Why a system call failed.

pub use rustix::io::Errno;

/// The number of an error of the standard library's; `IO` where it has none.
#[cfg(any(feature = "xdp", feature = "memif", feature = "tap"))]
pub(super) fn of_io(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// What the last system call made through libc said.
pub(super) fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}
