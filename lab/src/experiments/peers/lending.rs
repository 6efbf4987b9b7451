//! Memory whose frames are lent to the device under test.

use netmem::page::{Memory, MemoryConfig, MemoryError};
use netmem::port::memif::Lend;

/// A memory in a file that memif peers map.
///
/// # Errors
/// [`MemoryError`]; nothing is left behind then.
pub(in crate::experiments) fn memory(config: &MemoryConfig) -> Result<Memory, MemoryError> {
    // SAFETY: the peers are processes that the experiment starts itself, netmem and DPDK's testpmd, over sockets in a folder
    // of its own; both touch frames only between the slots that hand them over.
    unsafe { Memory::shared(config) }
}

/// The word for ports whose peers are those processes.
pub(in crate::experiments) fn to_peers_of_ours() -> Lend {
    // SAFETY: as above; peers of other users are refused.
    unsafe { Lend::to_trusted_peers() }
}
