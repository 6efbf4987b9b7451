//! Where a region is mapped.

use super::{SEGMENT_BYTES, unmap};
use crate::limits::PAGE_SIZE;
use crate::sys::dump::leave_out_of_dumps;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// Holes tried before a region is given up; each further one means that something else was mapped into the last.
const PLACE_ATTEMPTS: usize = 64;

/// Maps `len` bytes of readable and writable memory, private or of a file, at a 2 GiB boundary.
///
/// Looks for a hole that is large enough and maps there without replacing anything: a mapping that another thread
/// puts into the hole first is found and left alone, and another hole is looked for. (Mapping over a reservation of
/// one's own is no way: where huge pages cannot be had the kernel may take the reservation away and then fail, and
/// the range is anybody's.)
pub(super) fn place(len: usize, flags: MapFlags, file: Option<&OwnedFd>) -> rustix::io::Result<*mut u8> {
    // One region looks at a time: holes that are being looked at are no holes for others.
    static LOOKING: Mutex<()> = Mutex::new(());
    let _alone = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    let sharing = if file.is_some() { MapFlags::SHARED } else { MapFlags::PRIVATE };
    let flags = flags | sharing | MapFlags::FIXED_NOREPLACE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    let mut failed = rustix::io::Errno::EXIST;
    for _ in 0..PLACE_ATTEMPTS {
        let hole = find_hole(len)?;
        // SAFETY: a fresh mapping that replaces nothing overlaps nothing of ours.
        let mapped = unsafe {
            match file {
                None => mmap_anonymous(hole.cast(), len, access, flags),
                Some(file) => mmap(hole.cast(), len, access, flags, file, 0),
            }
        };
        match mapped {
            Ok(base) if base.cast() == hole => {
                leave_out_of_dumps(hole, len);
                return Ok(hole);
            }
            // A kernel before 4.17 takes the address as a hint.
            Ok(elsewhere) => unmap(elsewhere.cast(), len),
            Err(rustix::io::Errno::EXIST) => {}
            Err(errno) => {
                failed = errno;
                break;
            }
        }
    }
    Err(failed)
}

/// An address at a 2 GiB boundary with `len` free bytes behind it, at this moment.
fn find_hole(len: usize) -> rustix::io::Result<*mut u8> {
    // With a page before and behind it that nothing else has at this moment either.
    let wide = len + SEGMENT_BYTES + 2 * PAGE_SIZE;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh anonymous mapping at an address the kernel chooses overlaps nothing of ours.
    let found = unsafe { mmap_anonymous(ptr::null_mut(), wide, ProtFlags::empty(), flags) }?.cast::<u8>();
    unmap(found, wide);
    let first = found.addr() + PAGE_SIZE;
    Ok(found.wrapping_add(first.next_multiple_of(SEGMENT_BYTES) - found.addr()))
}
