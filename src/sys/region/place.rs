//! Chooses the address at which a region is mapped.

use super::guard::Fences;
use super::{RegionError, SEGMENT_BYTES, unmap};
use crate::limits::PAGE_SIZE;
use crate::sys::dump::leave_out_of_dumps;
use rustix::io::{self, Errno};
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::{Mutex, PoisonError};

/// The number of holes to try before a region is given up. Each further try means that something else was mapped into
/// the last hole.
const PLACE_ATTEMPTS: usize = 64;

/// Lets one region search at a time: a hole that one search examines is not a hole for another.
static LOOKING: Mutex<()> = Mutex::new(());

/// The mapping that was made.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) base: *mut u8,
    /// The guard pages around it, if it has any.
    pub(super) fences: Option<Fences>,
}

/// Maps `len` bytes of readable and writable memory, private or of a file, at a 2 GiB boundary; with `guarded`, between
/// two inaccessible pages.
///
/// It looks for a hole that is large enough, and maps there without replacing anything. If another thread maps into the
/// hole first, or beside it where a guard page should be, that mapping is left alone, and the search continues with
/// another hole. (Mapping over one's own reservation does not work: if there are no huge pages, the kernel may remove
/// the reservation and then fail, and any thread can map into the range.)
pub(super) fn place(
    len: usize,
    flags: MapFlags,
    file: Option<&OwnedFd>,
    guarded: bool,
) -> Result<Placed, RegionError> {
    let _alone = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
    first_free(len, flags, file, guarded, || find_hole(len))
}

/// Maps at the first hole of `next` at which nothing lies. With fences, nothing may lie beside it either.
fn first_free(
    len: usize,
    flags: MapFlags,
    file: Option<&OwnedFd>,
    guarded: bool,
    mut next: impl FnMut() -> io::Result<*mut u8>,
) -> Result<Placed, RegionError> {
    let refused = |errno| RegionError::Map { bytes: len, errno };
    let mut failed = refused(Errno::EXIST);
    for _ in 0..PLACE_ATTEMPTS {
        let hole = next().map_err(|errno| RegionError::AddressSpace { bytes: wide(len), errno })?;
        match map_at(hole, len, flags, file) {
            Ok(true) => {}
            Ok(false) => continue,
            Err(errno) => return Err(refused(errno)),
        }
        match guarded.then(|| Fences::around(hole, len)).transpose() {
            Ok(fences) => {
                leave_out_of_dumps(hole, len);
                return Ok(Placed { base: hole, fences });
            }
            Err(errno) => {
                unmap(hole, len);
                failed = RegionError::Guard { errno };
                if errno != Errno::EXIST {
                    break;
                }
            }
        }
    }
    Err(failed)
}

/// Maps at a hole. Returns false if something else lies there by now.
fn map_at(hole: *mut u8, len: usize, flags: MapFlags, file: Option<&OwnedFd>) -> io::Result<bool> {
    let sharing = if file.is_some() { MapFlags::SHARED } else { MapFlags::PRIVATE };
    let flags = flags | sharing | MapFlags::FIXED_NOREPLACE;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a fresh mapping that replaces nothing overlaps nothing of ours.
    let mapped = unsafe {
        match file {
            None => mmap_anonymous(hole.cast(), len, access, flags),
            Some(file) => mmap(hole.cast(), len, access, flags, file, 0),
        }
    };
    match mapped {
        Ok(base) if base.cast() == hole => Ok(true),
        // A kernel before 4.17 takes the address as a hint.
        Ok(elsewhere) => {
            unmap(elsewhere.cast(), len);
            Ok(false)
        }
        Err(Errno::EXIST) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// The bytes in which a 2 GiB boundary with `len` bytes behind it lies, with a page before and behind them.
fn wide(len: usize) -> usize {
    len + SEGMENT_BYTES + 2 * PAGE_SIZE
}

/// An address at a 2 GiB boundary with `len` free bytes behind it at this moment.
fn find_hole(len: usize) -> io::Result<*mut u8> {
    let wide = wide(len);
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a fresh anonymous mapping at an address the kernel chooses overlaps nothing of ours.
    let found = unsafe { mmap_anonymous(ptr::null_mut(), wide, ProtFlags::empty(), flags) }?.cast::<u8>();
    unmap(found, wide);
    let first = found.addr() + PAGE_SIZE;
    Ok(found.wrapping_add(first.next_multiple_of(SEGMENT_BYTES) - found.addr()))
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_comes_to_lie_where_a_fence_is_to_be_makes_another_hole_be_looked_for() {
        const LEN: usize = 2 << 20;
        let _alone = LOOKING.lock().unwrap_or_else(PoisonError::into_inner);
        let (hole, taken) = (find_hole(LEN).unwrap(), MapFlags::PRIVATE | MapFlags::FIXED_NOREPLACE);
        let beside = hole.wrapping_add(LEN);
        // SAFETY: a fresh mapping that replaces nothing overlaps nothing of ours.
        unsafe { mmap_anonymous(beside.cast(), PAGE_SIZE, ProtFlags::empty(), taken) }.unwrap();
        let mut holes = [hole].into_iter();
        let next = || holes.next().map_or_else(|| find_hole(LEN), Ok);
        let placed = first_free(LEN, MapFlags::empty(), None, true, next).unwrap();
        assert!(placed.base != hole && placed.fences.is_some());
        let refused = first_free(LEN, MapFlags::empty(), None, true, || Ok(hole)).unwrap_err();
        assert_eq!(refused, RegionError::Guard { errno: Errno::EXIST });
        unmap(placed.base, LEN);
        unmap(beside, PAGE_SIZE);
    }

    /// Seen: "mapping 2097152 bytes failed", where two GiB more are asked for.
    #[test]
    fn a_refusal_of_address_space_names_the_bytes_that_were_asked_for() {
        let refused = first_free(2 << 20, MapFlags::empty(), None, false, || Err(Errno::NOMEM)).unwrap_err();
        assert!(refused.to_string().starts_with("no 2149588992 bytes of address space"), "{refused}");
    }
}
