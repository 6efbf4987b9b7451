//! How a device addresses a pool's frames. The mapping is made when a page enters the pool, and undone once, when the
//! page leaves ([brouer17-pages]: "page kept DMA mapped").

use crate::limits::PAGE_SIZE;
use crate::page::{Memory, Page};
use crate::stats::Count;
use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// How a device addresses a pool's frames.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum DmaMap {
    /// No device reads the frames by address.
    #[default]
    None,
    /// A device has mapped the whole region already and addresses a frame by its offset (an AF_XDP UMEM).
    Umem,
    /// A peer has mapped the region (memif) and addresses a frame by its offset in it.
    Memif,
    /// A device whose mappings are made page by page, and may be refused (VFIO, an IOMMU).
    Mapper(Arc<dyn DmaMapper>),
}

/// Maps memory for one device; the device's driver implements it.
///
/// A pool calls `map` once for each page, or block of pages, that it takes, and `unmap` once when that leaves. It never
/// calls them for a frame. No lock is held and no cache is entered during the call, so it may take its time. It must
/// not use the pool that it maps for.
///
/// ```
/// use netmem::pool::DmaMapper;
/// use netmem::{DmaMap, Memory, MemoryConfig, Pool, PoolConfig};
/// use std::ptr::NonNull;
/// use std::sync::Arc;
/// use std::{io, process};
///
/// /// An IOMMU with room for so many bytes, which finds them where the process does.
/// #[derive(Debug)]
/// struct Small(usize);
///
/// impl DmaMapper for Small {
///     fn map(&self, first: NonNull<u8>, bytes: usize) -> io::Result<u64> {
///         if bytes > self.0 { Err(io::ErrorKind::OutOfMemory.into()) } else { Ok(first.as_ptr().addr() as u64) }
///     }
///     fn unmap(&self, _: u64, _: usize) {}
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::new(&MemoryConfig::default())?;
/// let mut w = memory.worker()?;
/// let of = |room| PoolConfig { dma: DmaMap::Mapper(Arc::new(Small(room))), ..PoolConfig::default() };
/// let pool = Pool::new(&memory, &mut w, &of(4096))?;
/// let frame = pool.alloc(&mut w).ok_or("no frame")?;
/// assert_eq!(pool.device_address(&frame), Some(frame.data().as_ptr().addr() as u64));
///
/// let refused = Pool::new(&memory, &mut w, &of(0))?;
/// assert!(refused.alloc(&mut w).is_none(), "a page that cannot be mapped is not the pool's");
/// assert_eq!(refused.stats().map_failed, 1);
/// # Ok(())
/// # }
/// ```
pub trait DmaMapper: Send + Sync + fmt::Debug {
    /// Gives the device access to the `bytes` from `first` on. These are whole pages, which stay there until
    /// [`unmap`](Self::unmap). Returns the device's address of the first byte. Processor and device read and write them
    /// in turn.
    ///
    /// # Errors
    /// The reason of a refusal. The pages go back to the memory, and the allocation that wanted them finds none. The
    /// refusal is counted ([`PoolStats::map_failed`](super::PoolStats::map_failed)). If the mapping does not end within
    /// 64-bit addresses, the pool removes it, and counts it too.
    fn map(&self, first: NonNull<u8>, bytes: usize) -> io::Result<u64>;

    /// Removes a mapping, at the address that `map` returned. The device does not use it any more.
    fn unmap(&self, at: u64, bytes: usize);

    /// Makes the processor's writes from `at` on visible to the device, which gets the bytes next. Does nothing by
    /// default: the device sees the processor's caches, as on x86.
    fn sync_for_device(&self, at: u64, bytes: usize) {
        let _ = (at, bytes);
    }

    /// Makes the device's writes from `at` on visible to the processor, which got the bytes back. Does nothing by
    /// default.
    fn sync_for_cpu(&self, at: u64, bytes: usize) {
        let _ = (at, bytes);
    }
}

/// Whether a [`DmaMapper`] ever mapped a pool of the process. Without one, no mapper is told of writes, and a port does
/// not look up the pools of its frames. Set before such a pool hands out its first frame, and never unset. Code that
/// has a frame of the pool sees that it is set.
static ANY_MAPPER: AtomicBool = AtomicBool::new(false);

/// Whether there was ever a pool with a mapper.
#[inline]
pub(super) fn any_mapper() -> bool {
    ANY_MAPPER.load(Relaxed)
}

/// The mappings of one pool.
///
/// Conservation: `mapped − unmapped` is the number of the pool's pages that a device may reach.
#[derive(Debug, Default)]
pub(crate) struct Dma {
    kind: DmaMap,
    mapped: Count,
    unmapped: Count,
    failed: Count,
}

impl Dma {
    pub(crate) fn new(kind: DmaMap) -> Self {
        if matches!(kind, DmaMap::Mapper(_)) {
            ANY_MAPPER.store(true, Relaxed);
        }
        Dma { kind, ..Dma::default() }
    }

    /// The mapper to tell of writes, if there is one.
    #[inline]
    pub(crate) fn mapper(&self) -> Option<&dyn DmaMapper> {
        match &self.kind {
            DmaMap::Mapper(mapper) => Some(&**mapper),
            _ => None,
        }
    }

    /// Maps a block of pages that is to enter the pool. The device's address of each page goes into the page's
    /// descriptor. Returns false if the device cannot have the block. The caller's code runs, which may panic.
    pub(crate) fn map(&self, memory: &Memory, block: &Page) -> bool {
        let (pages, address) = (1 << block.order(), block.address());
        let first = match &self.kind {
            DmaMap::None => return true,
            DmaMap::Umem | DmaMap::Memif => Some((address.addr() - memory.region().base().addr()) as u64),
            DmaMap::Mapper(mapper) => {
                NonNull::new(address).and_then(|first| mapped(&**mapper, first, pages * PAGE_SIZE))
            }
        };
        let (Some(first), Some(number)) = (first, memory.index(block.number())) else {
            self.failed.add_shared(1);
            return false;
        };
        for (i, desc) in memory.table().range(number, pages).enumerate() {
            desc.word.store(first.wrapping_add((i * PAGE_SIZE) as u64), Relaxed);
        }
        self.mapped.add_shared(pages as u64);
        true
    }

    /// Removes the mapping of a block of pages that leaves the pool. The caller's code runs, which may panic.
    pub(crate) fn unmap(&self, memory: &Memory, block: &Page) {
        if matches!(self.kind, DmaMap::None) {
            return;
        }
        let pages = 1 << block.order();
        let Some(number) = memory.index(block.number()) else { return };
        let mut first = None;
        for desc in memory.table().range(number, pages) {
            // Reset to the state in which the page stage gave it.
            first = first.or(Some(desc.word.load(Relaxed)));
            desc.word.store(0, Relaxed);
        }
        self.unmapped.add_shared(pages as u64);
        if let (Some(mapper), Some(first)) = (self.mapper(), first) {
            mapper.unmap(first, pages * PAGE_SIZE);
        }
    }

    /// The number of pages that a device can access now.
    pub(crate) fn pages(&self) -> u64 {
        self.mapped.get().wrapping_sub(self.unmapped.get())
    }

    /// Blocks of pages that the device could not have.
    pub(crate) fn failed(&self) -> u64 {
        self.failed.get()
    }
}

/// Maps memory, if all its bytes have an address.
fn mapped(mapper: &dyn DmaMapper, first: NonNull<u8>, bytes: usize) -> Option<u64> {
    let at = mapper.map(first, bytes).ok()?;
    if at.checked_add(bytes as u64 - 1).is_none() {
        mapper.unmap(at, bytes);
        return None;
    }
    Some(at)
}
