//! COLD: memory of a peer that has all its pages, and keeps them.
//!
//! If this process accesses a hole, the system allocates the page, and charges it to this process's control group until the
//! peer closes the file. While the peer makes holes, an access to one of them waits until all of them are made.
//!
//! The peer can make both calls here wait: the one that adds the seal, and the one that searches for holes. So a thread
//! makes them. It is one of those that close what peers leave ([`slow_close`](crate::sys::slow_close)).

use super::{MapError, Sealing, SharedMemory};
use crate::sys::slow_close::PeerDescriptor;
use rustix::fs::{SealFlags, SeekFrom, fcntl_add_seals, seek};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// The mappings of several regions, or the number of the region that is not mapped, and why.
pub type Mapped = Result<Vec<Arc<SharedMemory>>, (usize, MapError)>;

/// Regions that a thread maps.
#[derive(Debug)]
pub struct MappedElsewhere(Receiver<Mapped>);

impl MappedElsewhere {
    /// The result, once, when there is one.
    pub fn result(&self) -> Option<Mapped> {
        match self.0.try_recv() {
            Ok(mapped) => Some(mapped),
            Err(TryRecvError::Empty) => None,
            // The thread has panicked.
            Err(TryRecvError::Disconnected) => Some(Err((0, MapError::Refused(Errno::CANCELED)))),
        }
    }
}

impl SharedMemory {
    /// Maps the regions of a peer, each of so many bytes, on a thread of its own, which may wait for the peer. If the result
    /// is not taken, the thread unmaps them.
    #[cold]
    pub fn map_elsewhere(files: Vec<(PeerDescriptor, u64)>, sealing: Sealing) -> MappedElsewhere {
        let (tell, told) = sync_channel(1);
        PeerDescriptor::run_for(files, move |files| {
            // The receiver may be gone.
            let _ = tell.send(SharedMemory::map_all(files, sealing));
        });
        MappedElsewhere(told)
    }

    /// Maps the regions of a peer, each of so many bytes.
    #[cold]
    pub fn map_all(files: Vec<(PeerDescriptor, u64)>, sealing: Sealing) -> Mapped {
        let map = |(at, (file, len))| SharedMemory::map(file, len, sealing).map_err(|error| (at, error));
        files.into_iter().enumerate().map(map).collect()
    }

    /// Seals the file against holes, then looks for one in its first `size` bytes.
    pub(super) fn keep_whole(&self, size: u64) -> Result<(), MapError> {
        let Some((_, file)) = &self.held else { return Err(MapError::Holes) };
        fcntl_add_seals(file, SealFlags::FUTURE_WRITE).map_err(|_| MapError::Holes)?;
        // Pages that were allocated and never written count as holes.
        match seek(file, SeekFrom::Hole(0)).map_err(MapError::Refused)? {
            hole if hole < size => Err(MapError::Hole(hole)),
            _ => Ok(()),
        }
    }
}
