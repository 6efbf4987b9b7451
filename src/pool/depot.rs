//! COLD: the state of a pool under its lock: free frames that no cache holds, the pages, and which pages are to leave.
//!
//! As long as no page is to leave, frames pass through the owner's cache and are not checked. Pages are to leave when
//! the pool was made smaller, or when they belong to another node or to the reserve. Then, or when every allocation is
//! to be seen, the depot is *watched*. The owner's cache has no room then, so that every frame takes the cold path and
//! passes here. Code that uses a frame again without its pool ([`Renewal`](super::Renewal)) frees the frame instead.
//! The page descriptors count how many frames of each page are free. A page leaves when all of them are free.

use super::config::PoolError;
use crate::page::Page;

/// The state that needs a lock. The lock is never held during a wait for the owner's slot, or during a call of the page
/// stage.
#[derive(Debug)]
pub(crate) struct Depot {
    /// Free frames that no cache holds. Room for all frames of the pool is reserved, so pushing never allocates.
    pub(super) spare: Vec<u32>,
    /// The pool's pages.
    pub(super) pages: Vec<Page>,
    /// Pages that do not belong to the pool any more, to be given back without the lock.
    pub(super) leaving: Vec<Page>,
    pub(super) closed: bool,
    /// Maximum number of pages of the pool now.
    pub(super) limit: usize,
    /// The size of the owner's cache, and the number of frames that it is refilled to.
    pub(super) cache: (usize, usize),
    /// The node that pages must belong to, if it matters.
    pub(super) node: Option<usize>,
    /// The number of pages of another node or of the reserve.
    pub(super) unfit: usize,
    /// Whether every allocation is to be seen.
    pub(super) traced: bool,
    /// Whether every frame is cleared when it is given out.
    pub(super) clears: bool,
    /// Whether every frame is cleared when it comes here.
    pub(super) init_on_free: bool,
    /// Whether every frame passes here, and the counts in the descriptors are right.
    pub(super) watched: bool,
    /// Frames of other pools that were put here so far. The correct value is 0.
    pub(super) foreign: u64,
}

impl Depot {
    /// Bytes of both lists at their maximum length.
    #[cold]
    pub(super) fn bytes(&self) -> usize {
        self.spare.capacity() * size_of::<u32>() + self.pages.capacity() * size_of::<Page>()
    }

    /// Makes an empty depot with room for all the frames and pages that a pool can have.
    ///
    /// # Errors
    /// [`PoolError::NoMemory`].
    pub(super) fn new(
        frames: usize,
        pages: usize,
        limit: usize,
        cache: (usize, usize),
    ) -> Result<Self, PoolError> {
        let (mut spare, mut list) = (Vec::<u32>::new(), Vec::<Page>::new());
        let reserved = spare.try_reserve_exact(frames).and_then(|()| list.try_reserve_exact(pages));
        let bytes = frames * size_of::<u32>() + pages * size_of::<Page>();
        reserved.map_err(|_| PoolError::NoMemory { what: "the pool's lists of frames and pages", bytes })?;
        Ok(Depot {
            spare,
            pages: list,
            leaving: Vec::new(),
            closed: false,
            limit,
            cache,
            node: None,
            unfit: 0,
            traced: false,
            clears: false,
            init_on_free: false,
            watched: false,
            foreign: 0,
        })
    }

    /// The number of free frames here.
    pub(super) fn free(&self) -> u64 {
        self.spare.len() as u64
    }

    /// Whether every frame has to pass here.
    pub(super) fn must_watch(&self) -> bool {
        !self.closed && (self.traced || self.clears || self.init_on_free || self.has_unwanted())
    }

    /// The number of the pool, for code that uses frames again without the pool. 0, which is no pool's number, while
    /// every frame has to pass here, and after the pool was closed.
    pub(super) fn renewable(&self, number: u16) -> u16 {
        if self.watched || self.closed { 0 } else { number }
    }

    /// Whether some pages are to leave as soon as their frames are free.
    pub(super) fn has_unwanted(&self) -> bool {
        self.pages.len() > self.limit || self.unfit > 0
    }

    /// Whether taking many pages at once is useless, because they are not kept.
    pub(super) fn takes_singly(&self) -> bool {
        self.unfit > 0
    }

    /// Whether this page is to leave as soon as its frames are free.
    pub(super) fn is_unwanted(&self, page: &Page) -> bool {
        self.pages.len() > self.limit || self.is_unfit(page)
    }

    /// Whether a page may be used but not kept: it is from the reserve, or belongs to another node.
    pub(super) fn is_unfit(&self, page: &Page) -> bool {
        page.is_reserve() || self.is_elsewhere(page)
    }

    /// Whether a page belongs to another node than the one that is set.
    pub(super) fn is_elsewhere(&self, page: &Page) -> bool {
        self.node.is_some_and(|node| node != page.node())
    }

    /// The size of the owner's cache now, and the number of frames that it is refilled to.
    pub(super) fn cache_now(&self) -> (usize, usize) {
        if self.watched { (0, 0) } else { self.cache }
    }
}
