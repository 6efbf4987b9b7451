//! The word that memif peers may be lent frames, and memory for one that is to see no others: the crate's only unsafe code.

use netmem::page::{Memory, MemoryConfig, MemoryError};
use netmem::port::memif::Lend;

/// The word for a port that is named with `lend=yes`.
pub fn said_by_the_operator() -> Lend {
    // SAFETY: it is given where the person who wrote the port wrote `lend=yes` for this very one, and nowhere else, and what is
    // said of that option (`netmem forward --help`) says what is vouched for by it: that the peer is a sane program, which writes into no frame but
    // those whose turn it is. Without the word a port copies, and by default it speaks only with peers of the same user, who
    // could write this process's memory by other ways (ptrace(2)) as well.
    unsafe { Lend::to_trusted_peers() }
}

/// A memory that the peers of one port map.
///
/// # Errors
/// [`MemoryError`]; nothing is left behind then.
pub fn memory_of_a_peer(config: &MemoryConfig) -> Result<Memory, MemoryError> {
    // SAFETY: the file goes to the port that the memory is made for, which gives it to its own peers, and to nobody else. They keep to
    // the frames they were handed, as the person said who wrote `lend=yes` for this port.
    unsafe { Memory::shared(config) }
}
