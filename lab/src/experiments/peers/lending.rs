//! Memory whose frames are lent to the device under test.

use netmem::page::{Memory, MemoryConfig, MemoryError};
use netmem::port::memif::Lend;

/// Makes a memory in a file that memif peers map.
///
/// # Errors
/// [`MemoryError`]. Nothing is left behind.
pub(in crate::experiments) fn memory(config: &MemoryConfig) -> Result<Memory, MemoryError> {
    // SAFETY: the peers are processes that the experiment starts itself, netmem and DPDK's testpmd, over sockets in its
    // own folder. Both use frames only between the slots that hand them over.
    unsafe { Memory::shared(config) }
}

/// The promise for ports whose peers are those processes.
pub(in crate::experiments) fn to_peers_of_ours() -> Lend {
    // SAFETY: as above. Peers of other users are refused.
    unsafe { Lend::to_trusted_peers() }
}
