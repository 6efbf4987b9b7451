//! The error of a system call.

pub use rustix::io::Errno;

/// The number of an error of the standard library; `IO` if it has none.
#[cfg(any(feature = "xdp", feature = "memif", feature = "tap"))]
pub(super) fn of_io(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// The error of the last system call that was made through libc.
pub(super) fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}
