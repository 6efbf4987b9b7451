//! The errors when a region is made, each in one line with the remedy.

use crate::sys::errno::descriptor_remedy;

/// Why a region could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum RegionError {
    /// The size is zero or larger than the number space.
    #[error("region of {bytes} bytes: give between 1 and {max} bytes")]
    Size {
        /// Bytes requested.
        bytes: usize,
        /// The maximum that can be requested.
        max: usize,
    },
    /// Too many regions at once for the number space.
    #[error("no {segments} free segments of 2 GiB are left for another region: drop a memory first")]
    Segments {
        /// Segments needed.
        segments: usize,
    },
    /// The lent memory is too small.
    #[error("no whole page of 4096 bytes lies in the {bytes} bytes lent: lend more")]
    Lent {
        /// Bytes lent.
        bytes: usize,
    },
    /// The lent memory wraps around the end of the address space.
    #[error(
        "the {bytes} bytes lent at {base:#x} would wrap around the address space: lend bytes that are mapped"
    )]
    LentWraps {
        /// The address of the first byte lent.
        base: usize,
        /// Bytes lent.
        bytes: usize,
    },
    /// The pages around the region could not be made inaccessible.
    #[error("guard pages around the region failed ({errno}): {}, or leave guard out", remedy(*errno))]
    Guard {
        /// The error of mmap(2).
        errno: rustix::io::Errno,
    },
    /// The system refused the address space in which the memory is to be placed.
    #[error(
        "no {bytes} bytes of address space for a memory, which begins at a multiple of 2 GiB ({errno}): raise the address-space limit (ulimit -v)"
    )]
    AddressSpace {
        /// Bytes of address space requested.
        bytes: usize,
        /// The error of mmap(2).
        errno: rustix::io::Errno,
    },
    /// The system refused the memory.
    #[error("mapping {bytes} bytes failed ({errno}){}", map_remedy(*errno))]
    Map {
        /// Bytes requested.
        bytes: usize,
        /// The error of mmap(2) or madvise(2), or of memfd_create(2) for memory in a file.
        errno: rustix::io::Errno,
    },
}

/// The remedy if the system refused the memory, or the file that it is to lie in.
fn map_remedy(errno: rustix::io::Errno) -> &'static str {
    match descriptor_remedy(errno) {
        "" => ": ask for less, or raise the address-space or cgroup limit",
        remedy => remedy,
    }
}

/// The remedy if the system refused pages around a region.
fn remedy(errno: rustix::io::Errno) -> &'static str {
    match errno {
        rustix::io::Errno::NOMEM => "raise vm.max_map_count or the address-space limit",
        rustix::io::Errno::EXIST => "try again, since other memory came to lie there each time",
        _ => "allow mmap(2) of pages without access",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn a_memory_in_a_file_for_which_there_is_no_descriptor_names_the_limit() {
        let text = |errno| RegionError::Map { bytes: 4096, errno }.to_string();
        assert!(text(Errno::MFILE).ends_with("; raise the limit of open files (`ulimit -n`)"));
        assert!(text(Errno::NOMEM).ends_with(": ask for less, or raise the address-space or cgroup limit"));
    }

    #[test]
    fn guards_that_are_refused_name_the_count_of_mappings_only_where_that_is_why() {
        let text = |errno| RegionError::Guard { errno }.to_string();
        assert!(
            text(Errno::NOMEM)
                .ends_with("raise vm.max_map_count or the address-space limit, or leave guard out")
        );
        for errno in [Errno::EXIST, Errno::PERM] {
            let text = text(errno);
            assert!(!text.contains("max_map_count") && text.ends_with(", or leave guard out"), "{text}");
        }
    }
}
