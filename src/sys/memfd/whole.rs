//! COLD: memory of a peer that has all its pages, and keeps them.
//!
//! If this process accesses a hole, the system allocates the page, and charges it to this process's control group until the
//! peer closes the file. While the peer makes holes, an access to one of them waits until all of them are made. So this
//! process seals the memory against holes (`F_SEAL_FUTURE_WRITE`, Linux 5.1), and then fills those that are there, within a
//! budget.
//!
//! The peer can make these calls wait. So a thread makes them. It is one of those that close what peers leave
//! ([`slow_close`](crate::sys::slow_close)).

use super::holes::HoleBudget;
use super::{MapError, Sealing, SharedMemory};
use crate::sys::slow_close::{PeerDescriptor, Unclosed};
use rustix::fs::{SealFlags, fcntl_add_seals};
use rustix::io::Errno;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};

/// The mappings of several regions, or the number of the region that is not mapped, and why.
pub type Mapped = Result<Vec<Arc<SharedMemory>>, (usize, MapError)>;

/// Regions that a thread maps.
#[derive(Debug)]
pub struct MappedElsewhere(Receiver<Mapped>);

impl MappedElsewhere {
    /// Runs `work` on a thread of its own, which may wait for a peer, and counts there while it runs. If the result is not
    /// taken, the thread drops it.
    fn by(unclosed: &Unclosed, work: impl FnOnce() -> Mapped + Send + 'static) -> MappedElsewhere {
        let (tell, told) = sync_channel(1);
        // The receiver may be gone.
        unclosed.run(move || drop(tell.send(work())));
        MappedElsewhere(told)
    }

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
    /// Maps the sealed regions of a peer, each of so many bytes, seals them against holes, and fills their holes within the
    /// budget, on a thread of its own.
    #[cold]
    pub fn map_whole(files: Vec<(PeerDescriptor, u64)>, budget: &HoleBudget) -> MappedElsewhere {
        let budget = budget.clone();
        let unclosed = files.first().map(|(file, _)| file.unclosed().clone()).unwrap_or_default();
        MappedElsewhere::by(&unclosed, move || {
            let regions = SharedMemory::map_all(files, Sealing::Required)?;
            // Sealed only now: two of them may be one file.
            for (at, region) in regions.iter().enumerate() {
                region.keep_whole(&budget).map_err(|error| (at, error))?;
            }
            Ok(regions)
        })
    }

    /// Seals memory that this process has made and a peer has mapped, on a thread of its own. It is an error if the peer has made
    /// holes.
    #[cold]
    pub fn seal_whole(memory: Arc<SharedMemory>, unclosed: &Unclosed) -> MappedElsewhere {
        MappedElsewhere::by(unclosed, move || match memory.keep_whole(&HoleBudget::new(0)) {
            Ok(()) => Ok(vec![memory]),
            Err(error) => Err((0, error)),
        })
    }

    /// Maps the regions of a peer, each of so many bytes. They may have holes.
    #[cold]
    pub fn map_all(files: Vec<(PeerDescriptor, u64)>, sealing: Sealing) -> Mapped {
        let map = |(at, (file, len))| SharedMemory::map(file, len, sealing).map_err(|error| (at, error));
        files.into_iter().enumerate().map(map).collect()
    }

    /// Seals the file against holes, then fills those of the mapped bytes.
    fn keep_whole(&self, budget: &HoleBudget) -> Result<(), MapError> {
        fcntl_add_seals(self, SealFlags::FUTURE_WRITE).map_err(|_| MapError::CanHaveHoles)?;
        self.fill_holes(budget)
    }
}
