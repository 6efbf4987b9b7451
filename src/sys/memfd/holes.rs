//! COLD: pages that this process allocates in memory of its peers.
//!
//! Their bytes count until no process has the memory any more, which inotify(7) says: the kernel drops the watch of a file
//! without a name when its last descriptor is closed and its last mapping is gone. A peer that leaves and keeps its
//! memory keeps the bytes counted.

use super::{MapError, PAGE, SharedMemory, allocate};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

/// Number of files whose end is awaited at once. Each adds two events to a queue of 16,384
/// (/proc/sys/fs/inotify/max_queued_events), so none is lost.
const FILES_MAX: usize = 256;
/// Room for the events of one read.
const EVENTS: usize = 4096;

/// Bytes that may be allocated in memory of the peers of one port. A clone is the same budget.
#[derive(Clone, Debug)]
pub struct HoleBudget {
    most: u64,
    spent: Arc<Mutex<Spent>>,
}

/// What is allocated in memory that some process still has.
#[derive(Debug, Default)]
struct Spent {
    /// The instance of inotify, from the first file on.
    watches: Option<OwnedFd>,
    /// Bytes by the watch of their file.
    files: HashMap<i32, u64>,
}

impl HoleBudget {
    /// A budget of `most` bytes.
    pub fn new(most: u64) -> HoleBudget {
        HoleBudget { most, spent: Arc::default() }
    }

    /// Counts the holes of the file, which are these bytes, until no process has the file any more.
    fn spend(&self, file: &impl AsFd, bytes: u64) -> Result<(), MapError> {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        spent.forget_freed();
        let is_full = spent.files.len() >= FILES_MAX;
        let left = if is_full { 0 } else { self.most.saturating_sub(spent.files.values().sum()) };
        if bytes > left {
            return Err(MapError::Holes { bytes, left });
        }
        let watch = spent.watch(file).map_err(MapError::Unwatched)?;
        // A file that is offered twice has one watch.
        *spent.files.entry(watch).or_default() += bytes;
        Ok(())
    }
}

impl Spent {
    /// Counts no more what has been freed.
    fn forget_freed(&mut self) {
        let Some(watches) = &self.watches else { return };
        let mut room = [MaybeUninit::uninit(); EVENTS];
        let mut events = Reader::new(watches, &mut room);
        // It does not wait: an error ends the events.
        while let Ok(event) = events.next() {
            self.files.remove(&event.wd());
        }
    }

    /// The watch of that file, whose name in /proc leads to it.
    fn watch(&mut self, file: &impl AsFd) -> Result<i32, Errno> {
        let watches = match &self.watches {
            Some(watches) => watches,
            None => self.watches.insert(inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?),
        };
        let name = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
        inotify::add_watch(watches, name, WatchFlags::DELETE_SELF)
    }
}

impl SharedMemory {
    /// Allocates the pages that are missing, if they are within the budget. The file must be sealed against holes.
    pub(super) fn fill_holes(&self, budget: &HoleBudget) -> Result<(), MapError> {
        let mut holes = Vec::new();
        let mut bytes = 0;
        // The owner may fill holes meanwhile, and can make none.
        while bytes <= budget.most
            && let Some(hole) = self.next_hole(holes.last().map_or(0, |hole: &Range<usize>| hole.end))?
        {
            bytes += hole.len().next_multiple_of(PAGE) as u64;
            holes.push(hole);
        }
        if bytes == 0 {
            return Ok(());
        }
        budget.spend(self, bytes)?;
        for hole in holes {
            allocate(self, hole.clone()).map_err(MapError::Refused)?;
            // What is allocated and not yet used can still be given back, by a fallocate(2) of its owner that fails.
            for page in hole.step_by(PAGE) {
                self.read(page as u64, &mut [0]);
            }
        }
        Ok(())
    }

    /// Returns the first pages from `at` on that are missing. Pages that were allocated and never written count as missing.
    fn next_hole(&self, at: usize) -> Result<Option<Range<usize>>, MapError> {
        let place = |whence| match seek(self, whence) {
            Ok(place) => Ok(usize::try_from(place).unwrap_or(usize::MAX)),
            // Behind the last page, or the last data.
            Err(Errno::NXIO) => Ok(usize::MAX),
            Err(errno) => Err(MapError::Refused(errno)),
        };
        let begin = place(SeekFrom::Hole(at as u64))?;
        if begin >= self.len {
            return Ok(None);
        }
        Ok(Some(begin..place(SeekFrom::Data(begin as u64))?.min(self.len)))
    }
}

#[cfg(test)]
mod tests;
