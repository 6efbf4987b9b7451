//! The error of a system call.

pub use rustix::io::Errno;

/// The number of an error of the standard library; `IO` if it has none.
#[cfg(any(feature = "xdp", feature = "memif", feature = "tap"))]
pub(crate) fn of_io(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// Returns what to do about the error of a call that makes a descriptor, as the end of a line. Empty if nothing is known.
pub fn descriptor_remedy(errno: Errno) -> &'static str {
    match errno {
        Errno::MFILE => "; raise the limit of open files (`ulimit -n`)",
        Errno::NFILE => "; raise `sysctl fs.file-max`",
        _ => "",
    }
}

/// As [`descriptor_remedy`], for an error of the standard library.
pub fn descriptor_remedy_of(error: &std::io::Error) -> &'static str {
    Errno::from_io_error(error).map_or("", descriptor_remedy)
}

/// As [`descriptor_remedy_of`]. Returns `otherwise` if it knows nothing.
pub fn descriptor_remedy_or<'a>(error: &std::io::Error, otherwise: &'a str) -> &'a str {
    match descriptor_remedy_of(error) {
        "" => otherwise,
        remedy => remedy,
    }
}

/// Returns what to do about the error of a call that opens a file, as the end of a line.
#[cfg(feature = "pcap")]
pub(crate) fn path_remedy(error: &std::io::Error) -> &'static str {
    descriptor_remedy_or(error, ": check the path and its permissions")
}

/// The error of the last system call that was made through libc.
pub(super) fn last_errno() -> Errno {
    let code = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    Errno::from_raw_os_error(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_of_descriptors_has_its_own_remedy_and_other_errors_have_that_of_the_caller() {
        let remedy = |errno: Errno| descriptor_remedy_or(&errno.into(), ": give another path");
        assert!(remedy(Errno::MFILE).contains("ulimit -n"));
        assert!(remedy(Errno::NFILE).contains("fs.file-max"));
        assert_eq!(remedy(Errno::NOENT), ": give another path");
        let without_number = std::io::Error::other("not of the system");
        assert_eq!(descriptor_remedy_or(&without_number, "; try again"), "; try again");
    }
}
