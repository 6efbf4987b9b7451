//! Faults the pages of a mapping in, in parts between which the caller may end it.

use super::unmap;
use crate::sys::memfd::allocate;
use rustix::io::{self, Errno};
use rustix::mm::{Advice, madvise};
use std::cell::Cell;
use std::os::fd::OwnedFd;

/// Bytes that are faulted in by one call. The kernel takes some tens of milliseconds for them, and a signal that the process
/// handles does not end the call.
const PART: usize = 64 << 20;

thread_local! {
    /// Whether this thread goes on with a mapping, asked between two parts of it.
    static GOES_ON: Cell<fn() -> bool> = const { Cell::new(|| true) };
}

/// Calls `make`. Before each part but the first of a region that this thread maps meanwhile, `goes_on` is called. If it
/// returns false, the region is not made: [`RegionError::Map`](super::RegionError::Map) with `INTR`, and nothing stays mapped.
pub fn populating_while<T>(goes_on: fn() -> bool, make: impl FnOnce() -> T) -> T {
    /// Sets the former function again, also after a panic.
    struct Former(fn() -> bool);
    impl Drop for Former {
        fn drop(&mut self) {
            GOES_ON.set(self.0);
        }
    }
    let _former = Former(GOES_ON.replace(goes_on));
    make()
}

/// Faults every page in, so that no later access can fail or stall; of a mapping of `file`, if there is one. If that
/// fails, unmaps the range.
///
/// Before Linux 5.14 pages are faulted in by the first access to each, which may stall. The pages of a file are
/// allocated before that, because an access that finds none left is a SIGBUS.
pub(super) fn populate(base: *mut u8, len: usize, file: Option<&OwnedFd>) -> io::Result<*mut u8> {
    for from in (0..len).step_by(PART) {
        let (part, n) = (base.wrapping_add(from), PART.min(len - from));
        let done = if from > 0 && !GOES_ON.get()() {
            Err(Errno::INTR)
        } else {
            match fault_in(part, n) {
                Err(Errno::INVAL) => file.map_or(Ok(()), |file| allocate(file, from..from + n)),
                done => done,
            }
        };
        if let Err(errno) = done {
            unmap(base, len);
            return Err(errno);
        }
    }
    Ok(base)
}

/// Faults in pages of a mapping that was just made; `INVAL` before Linux 5.14.
fn fault_in(part: *mut u8, len: usize) -> io::Result<()> {
    #[cfg(test)]
    if BEFORE_5_14.get() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the range was just mapped by the caller and is ours alone; populating writes no byte.
    unsafe { madvise(part.cast(), len, Advice::LinuxPopulateWrite) }
}

#[cfg(test)]
thread_local! {
    /// Whether this thread sees a kernel that faults in no pages.
    pub(super) static BEFORE_5_14: Cell<bool> = const { Cell::new(false) };
}

#[cfg(test)]
mod tests {
    use super::super::{BackingPreference, Region, RegionError};
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// Number of parts for which it was asked.
    static ASKED: AtomicUsize = AtomicUsize::new(0);

    /// Seen: a start with 2 GiB went on for seconds after SIGTERM, in one call.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no madvise")]
    fn a_memory_that_is_not_wanted_any_more_is_given_up_between_two_parts() {
        for preference in [BackingPreference::Huge, BackingPreference::Small] {
            ASKED.store(0, Relaxed);
            let once = || ASKED.fetch_add(1, Relaxed) == 0;
            let made = populating_while(once, || Region::new(4 * PART, preference));
            assert!(matches!(made, Err(RegionError::Map { errno: Errno::INTR, .. })), "{made:?}");
            assert_eq!(ASKED.load(Relaxed), 2);
        }
        assert!(Region::new(2 * PART, BackingPreference::Small).is_ok(), "nobody asks any more");
        assert_eq!(ASKED.load(Relaxed), 2);
    }
}
