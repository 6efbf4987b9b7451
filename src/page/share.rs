//! Pages with several holders, and the release of the last claim.
//!
//! The count, the owner and the owner's word are in the page's descriptor. A claim is the page's number.

use super::owner::{Owner, OwnerId, owner};
use super::page::Page;
use super::refs::{Left, Refs};
use super::shared::{memory_beyond, memory_of};
use super::table::Desc;
use crate::sync::Worker;
use crate::sys::cpu;
use std::mem::ManuallyDrop;
use std::num::NonZeroU32;
use std::sync::atomic::Ordering::Relaxed;

/// One of several claims on a block of pages: read-only, four bytes.
///
/// [`Page::share`] makes it. Cloning it is one atomic addition. Give it back with [`SharedPage::release`], or drop it,
/// which does the same without a worker. When one claim is left, the owner's early callback is called. At the last
/// release the owner gets the page.
///
/// ```
/// use netmem::page::{Memory, MemoryConfig, Owner, OwnerId};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
/// let mut w = memory.worker()?;
/// let owner = OwnerId::register(Owner { release: |_, page, _word| Some(page), early: None })?;
/// let mut page = memory.alloc(&mut w, 0).ok_or("no page")?;
/// page.bytes_mut()[0] = 7;
/// let first = page.share(owner, 42);
/// let second = first.clone();
/// first.release(&mut w);
/// assert_eq!((second.bytes()[0], second.word(), second.holders()), (7, 42, 1));
/// second.release(&mut w); // the owner returned the page, so it is free now
/// # Ok(())
/// # }
/// ```
#[derive(Debug, PartialEq, Eq)]
#[must_use = "dropping it releases its claim on the slow path: give it back with a worker"]
pub struct SharedPage {
    /// As in a [`Page`].
    number: NonZeroU32,
}

impl Page {
    /// Makes the page one that can have several holders. At the last release, `owner` gets the page and `word`.
    pub fn share(self, owner: OwnerId, word: u64) -> SharedPage {
        SharedPage::begin(self, owner, word)
    }
}

impl SharedPage {
    fn begin(page: Page, owner: OwnerId, word: u64) -> Self {
        let shared = SharedPage { number: page.into_number() };
        if let Some(desc) = shared.desc() {
            desc.owner.store(owner.number(), Relaxed);
            desc.word.store(word, Relaxed);
            Refs(&desc.refs).begin();
        }
        shared
    }

    /// The descriptor. It always exists, because the page came out of a memory's list.
    #[inline(always)]
    fn desc(&self) -> Option<&Desc> {
        // SAFETY: the claim keeps the page out, and the page keeps the memory; the borrow of the claim bounds the
        // reference.
        let memory = unsafe { memory_of(self.number) };
        memory.index(self.number.get()).map(|index| memory.table.desc(index))
    }

    /// Runs `f` on the page, which stays shared.
    fn with_page<R>(&self, f: impl FnOnce(&Page) -> R) -> R {
        // SAFETY: the block is out; the claim is never dropped nor lent for writing, so that holders only read.
        f(&ManuallyDrop::new(unsafe { Page::claim(self.number) }))
    }

    /// Process-wide number of the first page.
    // Accesses no memory: also correct after the page is gone.
    pub fn number(&self) -> NonZeroU32 {
        self.with_page(Page::number)
    }

    /// log2 of the pages in the block.
    pub fn order(&self) -> u8 {
        self.with_page(Page::order)
    }

    /// The block's bytes: `4096 << order`.
    pub fn bytes(&self) -> &[u8] {
        let (address, len) = self.with_page(|page| (page.address(), page.bytes().len()));
        // SAFETY: as in `Page::bytes`; no thread can write the page while it is shared.
        unsafe { std::slice::from_raw_parts(address, len) }
    }

    /// The word that the page was shared with.
    pub fn word(&self) -> u64 {
        self.desc().map_or(0, |desc| desc.word.load(Relaxed))
    }

    /// The number of claims on the page at this moment.
    pub fn holders(&self) -> u32 {
        self.desc().map_or(1, |desc| Refs(&desc.refs).count())
    }

    /// Prefetches the page's descriptor for writing. A release that comes somewhat later then need not wait for another
    /// core's line.
    #[inline(always)]
    pub fn prefetch_release(&self) {
        if let Some(desc) = self.desc() {
            cpu::prefetch_write(std::ptr::from_ref(desc).cast());
        }
    }

    /// Gives this claim up.
    ///
    /// # Cost
    /// One locked instruction and the page's descriptor. The last release calls the owner and frees the page that it
    /// returns.
    pub fn release(self, w: &mut Worker) {
        ManuallyDrop::new(self).give_up(Some(w));
    }

    /// Returns the page itself if this is the only claim on it. The owner is not called.
    ///
    /// # Errors
    /// The claim, if there are others.
    pub fn into_page(self) -> Result<Page, SharedPage> {
        let Some(desc) = self.desc().filter(|desc| Refs(&desc.refs).end()) else { return Err(self) };
        disown(desc);
        // SAFETY: the count went from one, this claim, to none: the block is out and has no other claim.
        Ok(unsafe { Page::claim(ManuallyDrop::new(self).number) })
    }

    fn give_up(&mut self, w: Option<&mut Worker>) {
        let Some(desc) = self.desc() else { return };
        // Read while the claim still keeps the page. After that another release may give the page away.
        let (owner, word) = (owner(desc.owner.load(Relaxed)), desc.word.load(Relaxed));
        match Refs(&desc.refs).release() {
            Left::Several => {}
            Left::One => {
                if let Some(early) = owner.and_then(|owner| owner.early) {
                    early(w, self.number(), word);
                }
            }
            Left::Nothing => self.end(w, owner, word),
        }
    }

    /// Handles the release of the last claim: the owner gets the page, and the page that it returns is freed.
    #[cold]
    fn end(&mut self, mut w: Option<&mut Worker>, owner: Option<&'static Owner>, word: u64) {
        if let Some(desc) = self.desc() {
            disown(desc);
        }
        // SAFETY: the count is at zero and only this release was told so: the block is out and has no other claim.
        let page = unsafe { Page::claim(self.number) };
        // SAFETY: the page is out; the result keeps the memory beyond the page, for `free`.
        let memory = unsafe { memory_beyond(self.number) };
        let returned = match owner {
            Some(owner) => (owner.release)(w.as_deref_mut(), page, word),
            None => Some(page),
        };
        if let (Some(page), Some(w)) = (returned, w) {
            memory.free(w, page);
        }
        // Without a worker the page is freed by its own Drop.
    }
}

/// Removes the owner of the page.
fn disown(desc: &Desc) {
    desc.owner.store(0, Relaxed);
    desc.word.store(0, Relaxed);
}

impl Clone for SharedPage {
    #[inline]
    fn clone(&self) -> Self {
        if let Some(desc) = self.desc() {
            Refs(&desc.refs).clone_claim();
        }
        SharedPage { number: self.number }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        self.give_up(None);
    }
}
