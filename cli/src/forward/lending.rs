//! Memory for frames, private or mapped by peers, and the declaration that peers may be lent frames. These are the
//! program's only unsafe calls.

use crate::failure::Failure;
use crate::stop;
use netmem::page::{Memory, MemoryConfig, MemoryError, RegionError};
use netmem::pool::PoolError;
use netmem::port::memif::Lend;
use netmem::system::errno::Errno;
use netmem::system::populating_while;

/// Makes a memory. If a port lends its frames, the memory is in a file that peers map.
///
/// # Errors
/// [`Failure::Ended`] if a signal comes while its pages are prepared, [`Failure::NotNow`] if the system does not have that
/// much now, else [`Failure::Input`]. Nothing is left behind then.
pub fn memory(config: &MemoryConfig, lends: bool) -> Result<Memory, Failure> {
    populating_while(|| !stop::is_asked(), || made(config, lends)).map_err(refused)
}

/// The declaration for ports that are named with `lend=yes`. The others do not use it.
pub fn said_by_the_operator() -> Lend {
    // SAFETY: a port uses it only if the author of its string wrote `lend=yes` for this very port. The documentation of
    // that option (`netmem forward --help`) states what the author vouches for: the peer is a sane program, which writes
    // only into frames whose turn it is. Without the option a port copies, and by default it accepts only peers of the same
    // user, who could write this process's memory by other means (ptrace(2)) as well.
    unsafe { Lend::to_trusted_peers() }
}

fn refused(error: MemoryError) -> Failure {
    match error {
        MemoryError::Region(RegionError::Map { errno: Errno::INTR, .. }) => stop::ended(),
        MemoryError::Region(error) => Failure::not_now(error),
        error => Failure::input(error),
    }
}

/// Returns the failure of a pool that could not be made. What the system has no memory for now may be there later.
pub fn pool_refused(error: PoolError) -> Failure {
    match error {
        PoolError::Table(_) | PoolError::NoMemory { .. } => Failure::not_now(error),
        error => Failure::input(error),
    }
}

fn made(config: &MemoryConfig, lends: bool) -> Result<Memory, MemoryError> {
    if !lends {
        return Memory::new(config);
    }
    // SAFETY: only ports that were told to lend their frames give the file on, each to the peer at its socket; with that
    // option the person who starts the program says that this peer keeps to the frames it was handed (`--help` has it).
    unsafe { Memory::shared(config) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_the_system_lacks_may_be_there_later_and_a_wrong_number_stays_wrong() {
        let map = RegionError::Map { bytes: 4096, errno: Errno::NOMEM };
        let space = RegionError::AddressSpace { bytes: 4096, errno: Errno::NOMEM };
        for error in [map, space, RegionError::Segments { segments: 1 }] {
            let line = error.to_string();
            assert_eq!(refused(error.into()), Failure::NotNow(line));
        }
        for error in [MemoryError::Workers { workers: 0 }, MemoryError::LentGuard] {
            let line = error.to_string();
            assert_eq!(refused(error), Failure::Input(line));
        }
        let error = PoolError::NoMemory { what: "frames", bytes: 1 };
        let line = error.to_string();
        assert_eq!(pool_refused(error), Failure::NotNow(line));
        assert!(matches!(pool_refused(PoolError::TooMany), Failure::Input(_)));
    }
}
