//! Memory for frames, private or one that peers map: the program's only unsafe call; the word with which a port lends
//! frames of it is `netmem_ports`'s.

use netmem::page::{Memory, MemoryConfig, MemoryError};

/// A memory, in a file that peers map where a port lends them its frames.
///
/// # Errors
/// [`MemoryError`]; nothing is left behind then.
pub fn memory(config: &MemoryConfig, lends: bool) -> Result<Memory, MemoryError> {
    if !lends {
        return Memory::new(config);
    }
    // SAFETY: only ports that were told to lend their frames give the file on, each to the peer at its socket; with that
    // option the person who starts the program says that this peer keeps to the frames it was handed (`--help` has it).
    unsafe { Memory::shared(config) }
}
