//! The declaration that memif peers may be lent frames, and memory for a peer that must see no other port's frames. The
//! crate's only unsafe code.

use netmem::page::{Memory, MemoryConfig, MemoryError};
use netmem::port::memif::Lend;

/// The declaration for a port that is named with `lend=yes`.
pub fn said_by_the_operator() -> Lend {
    // SAFETY: it is given only if the author of the port's string wrote `lend=yes` for this very port. The
    // documentation of that option (`netmem forward --help`) states what the author vouches for: the peer is a sane
    // program, which writes only into frames whose turn it is. Without the declaration a port copies, and by default it
    // accepts only peers of the same user, who could write this process's memory by other means (ptrace(2)) as well.
    unsafe { Lend::to_trusted_peers() }
}

/// Makes a memory that the peers of one port map.
///
/// # Errors
/// Returns [`MemoryError`]; nothing is left behind then.
pub fn memory_of_a_peer(config: &MemoryConfig) -> Result<Memory, MemoryError> {
    // SAFETY: the file goes to the port for which the memory is made, which gives it only to its own peers. They keep
    // to the frames handed to them, as the author of `lend=yes` for this port declared.
    unsafe { Memory::shared(config) }
}
