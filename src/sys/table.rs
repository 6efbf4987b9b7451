//! A table with an entry for every chunk number, at one address for the whole process.
//!
//! 2^32 entries of two bytes are 8 GiB of addresses. Until a range is opened it is mapped read-only, which is not
//! charged to any account and reads as 0. So every number has an entry, and finding it is one addition and no check.

use super::region::{SEGMENT_SHIFT, SEGMENTS};
use crate::limits::PAGE_SIZE;
use rustix::io::Errno;
#[cfg(not(miri))]
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munlock, munmap};
use rustix::mm::{MprotectFlags, mprotect};
use std::cell::UnsafeCell;
use std::ops::Range;
use std::ptr;
use std::sync::atomic::AtomicU16;
use std::sync::{Mutex, PoisonError};

/// The number of entries of the table.
const ENTRIES: usize = SEGMENTS << SEGMENT_SHIFT;

/// One entry for each chunk number. It is one cell instead of one cell for each entry, because Miri checks every cell
/// behind a reference that is made or passed on.
#[repr(transparent)]
pub struct ChunkTable(UnsafeCell<[u16; ENTRIES]>);

// SAFETY: entries are accessed as atomics alone.
unsafe impl Sync for ChunkTable {}

impl ChunkTable {
    /// The entry of a chunk.
    ///
    /// # Panics
    /// Panics if the chunk has no entry.
    #[inline(always)]
    pub fn entry(&self, chunk: u32) -> &AtomicU16 {
        // If there are 2^32 entries, this check compiles to nothing.
        assert!((chunk as usize) < ENTRIES, "chunk {chunk} has no entry");
        // SAFETY: within the table, which is zeros or what was stored, as aligned as its entries, and accessed in this
        // way alone.
        unsafe { AtomicU16::from_ptr(self.0.get().cast::<u16>().add(chunk as usize)) }
    }
}

/// Why the table that maps each chunk to its pool could not be mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the first pool takes 8 GiB of addresses for the table of chunks, and mapping them failed ({0}): raise the limit on address space or on locked memory (ulimit -v, -l)"
)]
pub struct TableError(pub Errno);

/// The process's table. Each free trusts it, so no code outside of this crate may reach it:
/// ```compile_fail,E0603
/// use netmem::sys::table::chunk_table;
/// ```
/// ```compile_fail,E0432
/// use netmem::system::table::chunk_table;
/// ```
///
/// # Errors
/// [`TableError`] if there are no 8 GiB of addresses.
#[cold]
pub fn chunk_table() -> Result<&'static ChunkTable, TableError> {
    static TABLE: Mutex<Option<&'static ChunkTable>> = Mutex::new(None);
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    match *table {
        Some(table) => Ok(table),
        None => Ok(*table.insert(map().map_err(TableError)?)),
    }
}

/// Maps the table. It has no access at first and is unlocked then. Otherwise a process that locks all its memory would
/// fill it with pages, all of them the same page.
#[cfg(not(miri))]
fn map() -> rustix::io::Result<&'static ChunkTable> {
    let (bytes, flags) = (size_of::<ChunkTable>(), MapFlags::PRIVATE | MapFlags::NORESERVE);
    // SAFETY: a fresh anonymous mapping at an address the kernel chooses overlaps nothing. It is as large as the table,
    // aligned to a page, zero, and never unmapped once this succeeds; only the code that opened entries stores to them.
    unsafe {
        let base = mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), flags)?;
        let readable = munlock(base, bytes).and_then(|()| mprotect(base, bytes, MprotectFlags::READ));
        if let Err(errno) = readable {
            munmap(base, bytes)?;
            return Err(errno);
        }
        Ok(&*base.cast::<ChunkTable>())
    }
}

/// The small table that Miri has, all of it writable.
#[cfg(miri)]
fn map() -> rustix::io::Result<&'static ChunkTable> {
    // SAFETY: zeros are a value of every entry.
    Ok(Box::leak(unsafe { Box::new_zeroed().assume_init() }))
}

/// Makes the entries of a range of chunks writable, and also entries that share a page with them. They stay writable:
/// the next region with these numbers finds them as the last region left them, at 0.
///
/// # Errors
/// [`TableError`] if the system refuses.
#[cold]
pub fn open(chunks: Range<u32>) -> Result<(), TableError> {
    let table = chunk_table()?;
    if cfg!(miri) {
        return Ok(());
    }
    let bytes = |chunk: u32| chunk as usize * size_of::<AtomicU16>();
    let first = bytes(chunks.start) / PAGE_SIZE * PAGE_SIZE;
    let end = bytes(chunks.end).next_multiple_of(PAGE_SIZE);
    let base = ptr::from_ref(table).cast_mut().cast::<u8>().wrapping_add(first);
    let access = MprotectFlags::READ | MprotectFlags::WRITE;
    // SAFETY: whole pages of the table's own mapping, which only gain a right by this.
    unsafe { mprotect(base.cast(), end - first, access) }.map_err(TableError)
}

#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn every_number_has_an_entry_and_an_opened_one_keeps_what_is_stored() {
        let table = chunk_table().unwrap();
        assert_eq!((table.entry(0).load(Relaxed), table.entry(u32::MAX).load(Relaxed)), (0, 0));
        // In the last segment, which no region takes.
        let chunk = u32::MAX - 5000;
        open(chunk..chunk + 3).unwrap();
        table.entry(chunk + 2).store(7, Relaxed);
        assert_eq!([1, 2, 3].map(|i| table.entry(chunk + i).load(Relaxed)), [0, 7, 0]);
    }
}
