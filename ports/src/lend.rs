//! Memory for a peer that must see no other port's frames. The crate's only unsafe code. It needs the declaration that
//! peers may be lent frames, which the program gives in [`OpenConfig::lend`](crate::OpenConfig::lend).

use netmem::page::{Memory, MemoryConfig, MemoryError};
use netmem::port::memif::Lend;

/// Makes a memory that the peers of one port map, which the program vouched for.
///
/// # Errors
/// Returns [`MemoryError`]; nothing is left behind then.
pub fn memory_of_a_peer(config: &MemoryConfig, _vouched_for: Lend) -> Result<Memory, MemoryError> {
    // SAFETY: the file goes to the port for which the memory is made, which gives it only to its own peers. They keep
    // to the frames handed to them: the contract of the declaration, which holds for every port of the opener.
    unsafe { Memory::shared(config) }
}
