//! The page: a move-only claim on a block of 2^order pages.

use super::shared::{Shared, memory_of};
use super::table::MARK;
use crate::limits::{CHUNK_SIZE, PAGE_SIZE};
use crate::sys::{cpu, region};
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::ptr;
use std::sync::atomic::Ordering::Relaxed;

/// The number of chunks in a page. Page numbers and chunk numbers count the same memory.
const CHUNKS: u32 = (PAGE_SIZE / CHUNK_SIZE) as u32;

/// A block of 2^order pages with one owner; four bytes, move-only.
///
/// Give it back with [`Memory::free`](super::Memory::free). A page that is dropped is also freed, more slowly, and
/// never leaks. The memory stays mapped as long as a page is out.
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
#[repr(transparent)]
#[must_use = "dropping it frees it on the slow path: give it back with a worker"]
pub struct Page {
    /// The process-wide number of the first page, with [`MARK`] if the descriptor must be read.
    number: NonZeroU32,
}

impl Page {
    /// Claims the block with this number, as [`Page::into_number`] or `Memory::number` gave it.
    ///
    /// # Safety
    /// The block is out (not on a list), and there is no other claim on it.
    #[inline(always)]
    pub(crate) unsafe fn claim(number: NonZeroU32) -> Page {
        Page { number }
    }

    /// Creates the claim on a block of any order, of the memory that it belongs to.
    ///
    /// # Safety
    /// As [`Page::claim`]; `number` is that of the block's first page.
    pub(crate) unsafe fn claim_block(number: NonZeroU32) -> Page {
        // SAFETY: the block is out, so its memory lives.
        let memory = unsafe { memory_of(number) };
        let whole = memory.index(number.get()).and_then(|index| NonZeroU32::new(memory.number(index)));
        Page { number: whole.unwrap_or(number) }
    }

    /// Process-wide number of the first page; never 0.
    #[inline(always)]
    pub fn number(&self) -> NonZeroU32 {
        // No region has page 0, so the number without the mark is not 0.
        NonZeroU32::new(self.number.get() & !MARK).unwrap_or(self.number)
    }

    /// The number in the form in which a list holds it.
    #[inline(always)]
    pub(super) fn claim_number(&self) -> u32 {
        self.number.get()
    }

    /// The number of the first 2 KiB chunk.
    pub(crate) fn first_chunk(&self) -> u32 {
        self.number().get() * CHUNKS
    }

    /// log2 of the pages in the block.
    #[inline]
    pub fn order(&self) -> u8 {
        if self.number.get() & MARK == 0 { 0 } else { self.with_desc(|desc| desc.order()) }
    }

    /// The node that the block belongs to.
    pub fn node(&self) -> usize {
        // SAFETY: this page is out, so its memory lives.
        let memory = unsafe { memory_of(self.number) };
        memory.index(self.number.get()).map_or(0, |index| memory.nodes.of(index))
    }

    /// Whether the block was taken from the reserve
    /// ([`Memory::alloc_with_reserve`](super::Memory::alloc_with_reserve)). Such a block is for a use that frees memory.
    /// It should not be kept or recycled.
    #[inline]
    pub fn is_reserve(&self) -> bool {
        self.number.get() & MARK != 0 && self.with_desc(|desc| desc.is_reserve())
    }

    fn with_desc<R: Default>(&self, f: impl FnOnce(&super::Desc) -> R) -> R {
        // SAFETY: this page is out, so its memory lives.
        let memory = unsafe { memory_of(self.number) };
        memory.index(self.number.get()).map_or_else(R::default, |index| f(memory.table.desc(index)))
    }

    /// The block's bytes: `4096 << order`.
    pub fn bytes(&self) -> &[u8] {
        let len = PAGE_SIZE << self.order();
        // SAFETY: the block is mapped while the page is out, initialised (the kernel gives zeroes, and who
        // puts other values there initialises it) and aligned for
        // bytes. `&self` excludes a writer.
        unsafe { std::slice::from_raw_parts(self.address(), len) }
    }

    /// The block's bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = PAGE_SIZE << self.order();
        // SAFETY: as in `bytes`; `&mut self` is the only claim on the block.
        unsafe { std::slice::from_raw_parts_mut(self.address(), len) }
    }

    /// Makes every byte a value, after values of other types lay in the block.
    pub(crate) fn initialise(&mut self) {
        let len = PAGE_SIZE << self.order();
        // SAFETY: the block is mapped while the page is out, and `&mut self` is the only claim on it.
        unsafe { cpu::initialise(ptr::slice_from_raw_parts_mut(self.address(), len)) }
    }

    /// The address of the first byte, a multiple of 2^order pages behind the first byte of the region. A region that
    /// was lent begins at any page, so there the address itself is a multiple of one page only.
    pub(crate) fn address(&self) -> *mut u8 {
        region::address(self.first_chunk())
    }

    /// The owner of page `number`.
    ///
    /// # Safety
    /// The page is out.
    pub(crate) unsafe fn owner_of(number: NonZeroU32) -> u16 {
        // SAFETY: the page is out, so its memory lives.
        unsafe { memory_of(number) }.owner(number)
    }

    /// Writes the owner of the block into the descriptor. 0 means no owner.
    pub(crate) fn set_owner(&self, owner: u16) {
        self.with_desc(|desc| desc.owner.store(owner, Relaxed));
    }

    /// Makes the block's last page inaccessible, or accessible again, if the memory has guard pages
    /// ([`Hardening::guard`](super::Hardening::guard)). Returns false if the page does not have the requested state.
    /// After a call that made the page inaccessible, or tried to, the caller makes it accessible before it gives the
    /// block back. Nothing reads or writes the page until then.
    #[cold]
    pub(crate) fn guard_last(&self, on: bool) -> bool {
        // SAFETY: this page is out, so its memory lives.
        let memory = unsafe { memory_of(self.number) };
        let Some(index) = memory.index(self.number.get()).filter(|_| memory.hardened.chosen.guard) else {
            return false;
        };
        // Not by `order`: a claim that was made from an address has no mark.
        let last = index as usize + (1 << memory.table.desc(index).order()) - 1;
        // SAFETY: the block lies in the region, and this is the only claim on it.
        memory.hardened.guard(last as u32, on, || unsafe { memory.region.guard(last, on) })
    }

    /// Turns the claim into a number, to be kept where a `Page` cannot be: by a program in another language.
    /// [`Page::from_raw`] turns the number into a page again. Without that call the page is never freed.
    #[inline(always)]
    pub fn into_raw(self) -> NonZeroU32 {
        self.into_number()
    }

    /// Returns the page of a number that [`Page::into_raw`] gave.
    ///
    /// ```
    /// # use netmem::page::{Memory, MemoryConfig, Page};
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// # let mut w = memory.worker()?;
    /// let page = memory.alloc(&mut w, 1).ok_or("no page")?;
    /// let raw = page.into_raw();
    /// // SAFETY: it was given a line above, and is taken once.
    /// let page = unsafe { Page::from_raw(raw) };
    /// assert_eq!(page.order(), 1);
    /// memory.free(&mut w, page);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// `into_raw` gave the number, and the number is turned into a page once: it is a claim.
    #[inline(always)]
    pub unsafe fn from_raw(raw: NonZeroU32) -> Page {
        // SAFETY: the caller's promise.
        unsafe { Page::claim(raw) }
    }

    /// Gives the claim up without freeing the page. The caller puts the number on a list.
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
