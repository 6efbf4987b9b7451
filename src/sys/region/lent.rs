//! Memory that the caller lends: a region over it, and its return to the caller.

use super::{Backing, PageKind, Region, RegionError, SEGMENT_CHUNKS, take_segments};
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use std::fmt;
use std::sync::Arc;

/// A region over the caller's memory, for one memory to be made of ([`Memory::lent`](crate::page::Memory::lent)).
#[derive(Debug)]
pub struct Lent(Arc<Region>);

/// The value that keeps lent memory alive. It is dropped when no part of the memory is in use any more.
pub(super) struct Keeper(#[expect(dead_code, reason = "held for its Drop")] Box<dyn Send + Sync>);

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper")
    }
}

impl Lent {
    /// Lends the whole pages that lie in `bytes`. `back` gets all of `bytes` when the last page and frame is freed and
    /// every handle is gone, on the thread on which that happens.
    ///
    /// # Errors
    /// [`RegionError`]; `back` has been called then.
    #[cold]
    pub fn bytes(
        bytes: Box<[u8]>,
        back: impl FnOnce(Box<[u8]>) + Send + Sync + 'static,
    ) -> Result<Lent, RegionError> {
        let len = bytes.len();
        let bytes = Box::into_raw(bytes);
        let keeper = Borrowed { bytes, back: Some(back) };
        // SAFETY: the keeper owns the bytes and gives them back only when it is dropped.
        unsafe { Lent::adopt(bytes.cast(), len, keeper) }
    }

    /// Lends the whole pages that lie in the `len` bytes at `base`: a mapping of the caller's, or a UMEM that it
    /// already has. `keeper` is dropped when the last page and frame is freed and every handle is gone.
    ///
    /// Memory that another process maps too, as with memif and vhost-user, is a mapping of a memfd. Its descriptor goes
    /// to the peer over a Unix socket, and frames are offsets into it
    /// ([`Pool::device_address`](crate::pool::Pool::device_address) with
    /// [`DmaMap::Memif`](crate::pool::DmaMap::Memif)). Seal the memfd first. Otherwise a peer could make it shorter and
    /// take pages away from their holders, which is a SIGBUS (memfd_create(2), "File sealing").
    ///
    /// ```
    /// use netmem::{page::{Lent, Memory, MemoryConfig}, pool::{DmaMap, Pool, PoolConfig}};
    /// use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
    /// use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    ///
    /// struct Mapping(*mut u8, usize);
    /// // SAFETY: it only names the mapping.
    /// unsafe impl Send for Mapping {}
    /// // SAFETY: as above.
    /// unsafe impl Sync for Mapping {}
    /// impl Drop for Mapping {
    ///     fn drop(&mut self) {
    ///         // SAFETY: dropped when nothing of the mapping is in use any more.
    ///         let _ = unsafe { munmap(self.0.cast(), self.1) };
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// const BYTES: usize = 1 << 20;
    /// let memfd = memfd_create("frames", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    /// ftruncate(&memfd, BYTES as u64)?;
    /// fcntl_add_seals(&memfd, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    /// let (access, shared) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
    /// // SAFETY: a new mapping, where the kernel finds room.
    /// let base = unsafe { mmap(std::ptr::null_mut(), BYTES, access, shared, &memfd, 0) }?.cast();
    /// // SAFETY: mapped until the keeper unmaps it; nobody else has the descriptor yet.
    /// let lent = unsafe { Lent::adopt(base, BYTES, Mapping(base, BYTES)) }?;
    /// let memory = Memory::lent(lent, &MemoryConfig::default())?;
    /// let mut w = memory.worker()?;
    /// let config = PoolConfig { frames: 256, dma: DmaMap::Memif, ..PoolConfig::default() };
    /// let pool = Pool::new(&memory, &mut w, &config)?;
    /// let frame = pool.alloc(&mut w).ok_or("no frame")?;
    /// assert!(pool.device_address(&frame).is_some_and(|offset| offset < BYTES as u64));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`RegionError`]; `keeper` has been dropped then.
    ///
    /// # Safety
    /// Until `keeper` is dropped, the bytes are mapped, readable, writable and initialised. Only code that is made of
    /// this region, and devices that frames were given to, read or write them. A peer process is such a device: it may
    /// access the bytes of a frame from the moment when the frame is given to it until the frame comes back. Nothing
    /// forces a peer to keep this rule. Do not share memory in this way with an untrusted peer.
    #[cold]
    pub unsafe fn adopt(
        base: *mut u8,
        len: usize,
        keeper: impl Send + Sync + 'static,
    ) -> Result<Lent, RegionError> {
        let keeper = Keeper(Box::new(keeper));
        if base.addr().checked_add(len).is_none() {
            return Err(RegionError::LentWraps { base: base.addr(), bytes: len });
        }
        let skipped = base.addr().wrapping_neg() % PAGE_SIZE;
        let whole = len.saturating_sub(skipped) / PAGE_SIZE * PAGE_SIZE;
        if whole == 0 {
            return Err(RegionError::Lent { bytes: len });
        }
        let base = base.wrapping_add(skipped);
        let segments = (whole / CHUNK_SIZE).div_ceil(SEGMENT_CHUNKS as usize);
        let first_segment = take_segments(base, segments, false).ok_or(RegionError::Segments { segments })?;
        base.expose_provenance();
        let backing = Backing { kind: PageKind::Lent, refused: Vec::new() };
        let keeper = Some(keeper);
        Ok(Lent(Arc::new(Region {
            base,
            len: whole,
            first_segment,
            segments,
            backing,
            keeper,
            file: None,
            fences: None,
        })))
    }

    pub(crate) fn into_region(self) -> Arc<Region> {
        self.0
    }
}

/// Bytes that were a box, and the function that gets them back.
struct Borrowed<F: FnOnce(Box<[u8]>)> {
    bytes: *mut [u8],
    back: Option<F>,
}

// SAFETY: the bytes are owned as by the box that they were, which is Send.
unsafe impl<F: FnOnce(Box<[u8]>) + Send> Send for Borrowed<F> {}
// SAFETY: nothing is done with a shared reference to it.
unsafe impl<F: FnOnce(Box<[u8]>) + Sync> Sync for Borrowed<F> {}

impl<F: FnOnce(Box<[u8]>)> Drop for Borrowed<F> {
    fn drop(&mut self) {
        // SAFETY: the pointer came out of a box, and is made one again once, at the end of the only owner.
        let bytes = unsafe { Box::from_raw(self.bytes) };
        if let Some(back) = self.back.take() {
            back(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::region;
    use std::ptr;

    /// Seen: such a range was accepted, and the first write to a frame in it ended the process.
    #[test]
    fn a_range_that_wraps_around_the_address_space_is_refused() {
        for (base, bytes) in
            [(usize::MAX - 5, 2 << 20), (usize::MAX - PAGE_SIZE + 1, PAGE_SIZE), (1, usize::MAX)]
        {
            // SAFETY: it is refused, and nothing of it is read.
            let refused = unsafe { Lent::adopt(ptr::without_provenance_mut(base), bytes, ()) };
            assert_eq!(refused.map(drop), Err(RegionError::LentWraps { base, bytes }));
        }
        // SAFETY: as above.
        let refused = unsafe { Lent::adopt(ptr::without_provenance_mut(usize::MAX - 5), 5, ()) };
        assert_eq!(refused.map(drop), Err(RegionError::Lent { bytes: 5 }));
    }

    #[test]
    fn a_mapping_of_the_callers_own_is_numbered_kept_and_never_unmapped_by_us() {
        let bytes = Box::into_raw(vec![7u8; 3 * PAGE_SIZE].into_boxed_slice());
        let (base, len) = (bytes.cast::<u8>(), bytes.len());
        let keeper = Arc::new(());
        let alive = Arc::downgrade(&keeper);
        // SAFETY: the bytes are mapped until the end of this test, and no other code uses them during that time.
        let region = unsafe { Lent::adopt(base, len, keeper) }.unwrap().into_region();
        assert_eq!(
            (region.base().addr() % PAGE_SIZE, region.len() / PAGE_SIZE),
            (0, 2 + usize::from(base.addr() % PAGE_SIZE == 0))
        );
        let first = region.first_chunk();
        assert_eq!(region::address(first + 1), region.base().wrapping_add(CHUNK_SIZE));
        // SAFETY: as above.
        unsafe { region.base().write(1) };
        let clone = Arc::clone(&region);
        drop(region);
        assert!(alive.upgrade().is_some());
        let written = clone.base();
        drop(clone);
        assert!(alive.upgrade().is_none());
        // SAFETY: as above.
        assert_eq!(unsafe { written.read() }, 1);
        // SAFETY: they came from a box, and the region over them is gone.
        drop(unsafe { Box::from_raw(bytes) });
    }
}
