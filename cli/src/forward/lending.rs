//! Memory for frames, private or mapped by peers. This is the program's only unsafe call. The type that permits a
//! port to lend frames is in `netmem_ports`.

use crate::failure::Failure;
use netmem::page::{Memory, MemoryConfig, MemoryError};

/// Makes a memory. If a port lends its frames, the memory is in a file that peers map.
///
/// # Errors
/// [`Failure::NotNow`] if the system does not have that much now, else [`Failure::Input`]. Nothing is left behind then.
pub fn memory(config: &MemoryConfig, lends: bool) -> Result<Memory, Failure> {
    made(config, lends).map_err(|error| match error {
        MemoryError::Region(error) => Failure::not_now(error),
        error => Failure::input(error),
    })
}

fn made(config: &MemoryConfig, lends: bool) -> Result<Memory, MemoryError> {
    if !lends {
        return Memory::new(config);
    }
    // SAFETY: only ports that were told to lend their frames give the file on, each to the peer at its socket; with that
    // option the person who starts the program says that this peer keeps to the frames it was handed (`--help` has it).
    unsafe { Memory::shared(config) }
}
