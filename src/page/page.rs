//! The page: a move-only claim on a block of 2^order pages.

use super::shared::{Shared, memory_of};
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::sys::region;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;

/// Chunks in a page: page numbers and chunk numbers count the same memory.
const CHUNKS: u32 = (PAGE_SIZE / CHUNK_SIZE) as u32;

/// A block of 2^order pages that is yours alone; four bytes, move-only.
///
/// Give it back with [`Memory::free`](super::Memory::free); dropped anywhere else it goes home too, by a
/// slower way, and never leaks. The memory stays mapped as long as a page is out.
///
/// ```compile_fail,E0382
/// # use netmem::{page::{Memory, MemoryConfig}};
/// let memory = Memory::new(&MemoryConfig::default()).unwrap();
/// let mut w = memory.worker().unwrap();
/// let page = memory.alloc(&mut w, 0).unwrap();
/// memory.free(&mut w, page);
/// memory.free(&mut w, page); // a page cannot be freed twice
/// ```
#[derive(Debug, PartialEq, Eq)]
pub struct Page {
    /// Process-wide number of the first page.
    number: NonZeroU32,
}

impl Page {
    /// Claims the block that begins at page `number`.
    ///
    /// # Safety
    /// The block is out (not on a list), and nobody else claims it.
    #[inline(always)]
    pub(crate) unsafe fn claim(number: NonZeroU32) -> Page {
        Page { number }
    }

    /// Process-wide number of the first page; never 0.
    #[inline(always)]
    pub fn number(&self) -> NonZeroU32 {
        self.number
    }

    /// The number of the first 2 KiB chunk.
    pub(crate) fn first_chunk(&self) -> u32 {
        self.number.get() * CHUNKS
    }

    /// log2 of the pages in the block.
    pub fn order(&self) -> u8 {
        // SAFETY: this page is out, so its memory lives.
        unsafe { memory_of(self.number) }.order(self.number)
    }

    /// The block's bytes: `4096 << order`.
    pub fn bytes(&self) -> &[u8] {
        let len = PAGE_SIZE << self.order();
        // SAFETY: the block is mapped while the page is out, initialised (the kernel gives zeroes), aligned for
        // bytes, and `&self` excludes a writer.
        unsafe { std::slice::from_raw_parts(self.address(), len) }
    }

    /// The block's bytes, to write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = PAGE_SIZE << self.order();
        // SAFETY: as in `bytes`; `&mut self` is the only claim on the block.
        unsafe { std::slice::from_raw_parts_mut(self.address(), len) }
    }

    /// The first byte's address; 2^order pages aligned.
    pub(crate) fn address(&self) -> *mut u8 {
        region::address(self.first_chunk())
    }

    /// Who holds page `number`.
    ///
    /// # Safety
    /// The page is out.
    pub(crate) unsafe fn owner_of(number: NonZeroU32) -> u16 {
        // SAFETY: the page is out, so its memory lives.
        unsafe { memory_of(number) }.owner(number)
    }

    /// Gives the claim up without freeing: the caller puts the number on a list.
    #[inline(always)]
    pub(crate) fn into_number(self) -> NonZeroU32 {
        ManuallyDrop::new(self).number
    }
}

impl Drop for Page {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: this page is out, so its memory lives, and the claim ends here.
        unsafe { Shared::put_from_anywhere(self.number) }
    }
}
