//! Memory of any size: `kmalloc` over a memory's pages.
//!
//! | bytes | from | aligned to |
//! |---|---|---|
//! | 0 | nowhere: [`SizeClasses::ZERO`], which may be freed and must not be read | 16 |
//! | 1 to 8192 | the caches of 13 classes | the largest power of two that divides the class (32 for 96) |
//! | to 4 MiB | blocks of pages, orders 2 to 10, whose last page is inaccessible if the memory has guard pages | the block's size |
//!
//! A power of two that divides a size also divides its address. This is `kmalloc`'s guarantee (kernel document "Memory
//! Allocation Guide"). The requested size is not recorded: all bytes of [`SizeClasses::size_of`] may be used.
//!
//! A pointer leads to its cache: its address gives the page, and the page's descriptor names the cache or says that it
//! is a large block.

mod bytes;
mod class;
mod free;
mod large;
mod resize;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use super::{CacheConfig, CacheError, RawCache};
use crate::page::Memory;
use crate::sync::Worker;
use class::CLASSES;
use std::alloc::Layout;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

pub use bytes::SlabBytes;

/// The address of [`SizeClasses::ZERO`].
const ZERO_ADDRESS: usize = 16;

/// In [`Shared::class_of`]: this number belongs to none of these caches.
const NONE: u8 = u8::MAX;

/// Allocates any number of bytes up to 4 MiB. Clone the handle freely.
///
/// Allocations that are out when the last handle goes stay valid, as objects of a [`Cache`](super::Cache) do.
///
/// ```
/// use netmem::page::{Memory, MemoryConfig};
/// use netmem::slab::{CacheConfig, SizeClasses};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::new(&MemoryConfig::default())?;
/// let mut w = memory.worker()?;
/// let sizes = SizeClasses::new(&memory, &CacheConfig { name: "kmalloc".into(), ..Default::default() })?;
///
/// let mut bytes = sizes.bytes(&mut w, 100).ok_or("no memory")?; // zeroed; is freed wherever it is dropped
/// bytes[99] = 1;
///
/// let raw = sizes.alloc(&mut w, 100).ok_or("no memory")?; // as kmalloc does: yours to free
/// // SAFETY: it is out, and this is its only claim.
/// unsafe {
///     assert_eq!(sizes.size_of(raw), 128);
///     sizes.free(&mut w, raw)?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct SizeClasses {
    shared: Arc<Shared>,
}

/// Prints the number of classes only.
impl fmt::Debug for SizeClasses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SizeClasses").field("classes", &self.shared.classes.len()).finish_non_exhaustive()
    }
}

struct Shared {
    classes: Box<[RawCache]>,
    /// The class of the cache with each number, or [`NONE`].
    class_of: Box<[u8]>,
    memory: Memory,
}

impl SizeClasses {
    /// The result of an allocation of 0 bytes: not null, aligned to 16, may be freed, and has nothing to read.
    pub const ZERO: NonNull<u8> = NonNull::new(ptr::without_provenance_mut(ZERO_ADDRESS)).expect("not 0");

    /// Makes the caches. `config` is for each of them; its name is followed by the class's size (`kmalloc-64`).
    ///
    /// # Errors
    /// As [`RawCache::new`]; nothing is left behind then.
    #[cold]
    pub fn new(memory: &Memory, config: &CacheConfig) -> Result<SizeClasses, CacheError> {
        let cache = |class: usize| {
            let name = format!("{}-{}", config.name, CLASSES[class]);
            RawCache::new(
                memory,
                CLASSES[class],
                class::align(class),
                &CacheConfig { name, ..config.clone() },
            )
        };
        let caches = (0..CLASSES.len()).map(cache).collect::<Result<Vec<_>, _>>()?;
        let last = caches.iter().map(RawCache::number).max().unwrap_or_default();
        let mut class_of = vec![NONE; usize::from(last) + 1].into_boxed_slice();
        for (class, cache) in caches.iter().enumerate() {
            class_of[usize::from(cache.number())] = class as u8;
        }
        let shared = Shared { classes: caches.into(), class_of, memory: memory.clone() };
        Ok(SizeClasses { shared: Arc::new(shared) })
    }

    /// The caches of the classes, smallest first: for their counters and tunables.
    pub fn classes(&self) -> &[RawCache] {
        &self.shared.classes
    }

    /// Allocates `bytes`. Returns None if there is no memory, or no block is so large. The contents are those that the
    /// last holder left.
    ///
    /// # Cost
    /// That of [`RawCache::alloc`] and the look-up of the class, which is nothing if `bytes` is a constant.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, w: &mut Worker, bytes: usize) -> Option<NonNull<u8>> {
        match class::of(bytes) {
            Some(class) => self.shared.classes[class].alloc(w),
            None => large::alloc(&self.shared.memory, w, bytes),
        }
    }

    /// Allocates as [`SizeClasses::alloc`] does. Every byte that may be used is 0, also beyond `bytes`.
    #[inline]
    #[track_caller]
    pub fn alloc_zeroed(&self, w: &mut Worker, bytes: usize) -> Option<NonNull<u8>> {
        let at = self.alloc(w, bytes)?;
        // SAFETY: it was allocated just now, so all its usable bytes belong to the caller alone.
        unsafe { at.write_bytes(0, self.size_of(at)) };
        Some(at)
    }

    /// Allocates room for `layout`, at an address that is a multiple of its alignment.
    #[track_caller]
    pub fn alloc_aligned(&self, w: &mut Worker, layout: Layout) -> Option<NonNull<u8>> {
        self.alloc(w, class::size_for(layout))
    }

    /// The class of the slab that contains the pointer, if it belongs to one of these caches.
    #[inline(always)]
    fn class_at(&self, at: NonNull<u8>) -> Option<usize> {
        let owner = large::owner(&self.shared.memory, at)?;
        let class = *self.shared.class_of.get(usize::from(owner))?;
        (class != NONE).then_some(usize::from(class))
    }

    /// The number of bytes that may be used: the requested size, rounded up to the class or the block; 0 for
    /// [`SizeClasses::ZERO`].
    ///
    /// # Safety
    /// `at` came from this `SizeClasses` or a clone of it, and is out.
    #[inline]
    pub unsafe fn size_of(&self, at: NonNull<u8>) -> usize {
        match self.class_at(at) {
            Some(class) => CLASSES[class],
            None => large::size(&self.shared.memory, at),
        }
    }
}
