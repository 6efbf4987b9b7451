//! Why a region could not be made, in one line with the remedy.

/// Why a region could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum RegionError {
    /// The size is zero or larger than the number space.
    #[error("region of {bytes} bytes: give between 2 MiB and {max} bytes")]
    Size {
        /// Bytes asked for.
        bytes: usize,
        /// The most that can be asked for.
        max: usize,
    },
    /// Too many regions at once for the number space.
    #[error("no {segments} free segments of 2 GiB are left for another region: drop a memory first")]
    Segments {
        /// Segments needed.
        segments: usize,
    },
    /// What the caller lends is too little.
    #[error("no whole page of 4096 bytes lies in the {bytes} bytes lent: lend more")]
    Lent {
        /// Bytes lent.
        bytes: usize,
    },
    /// The pages around the region could not be made inaccessible.
    #[error("guard pages around the region failed ({errno}): raise vm.max_map_count, or leave guard out")]
    Guard {
        /// What mmap(2) said.
        errno: rustix::io::Errno,
    },
    /// The system refused the memory.
    #[error(
        "mapping {bytes} bytes failed ({errno}): ask for less, or raise the address-space or cgroup limit"
    )]
    Map {
        /// Bytes asked for.
        bytes: usize,
        /// What mmap(2) or madvise(2) said.
        errno: rustix::io::Errno,
    },
}
