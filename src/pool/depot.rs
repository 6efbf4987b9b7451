//! COLD: what a pool has under its lock: free frames that no cache holds, its pages, and which of them are to leave.
//!
//! As long as nothing is to leave, frames pass through the owner's cache and are not looked at. When pages are to leave
//! (the pool was made smaller, pages are of another node or out of the reserve) or every allocation is to be seen, the
//! depot is *watched*: the owner's cache has no room then, so that every frame falls into the cold half and passes here,
//! and the page descriptors tally how many frames of each page are home. A page leaves when all of them are.

use crate::page::Page;

/// What needs a lock: never held while waiting for the owner's slot, nor while the page stage is called.
#[derive(Debug)]
pub(crate) struct Depot {
    /// Free frames that no cache holds; room for all of the pool's is reserved, so pushing never allocates.
    pub(super) spare: Vec<u32>,
    /// The pool's pages.
    pub(super) pages: Vec<Page>,
    /// Pages that are the pool's no more, to be given back without the lock.
    pub(super) leaving: Vec<Page>,
    pub(super) closed: bool,
    /// Pages the pool may have now.
    pub(super) limit: usize,
    /// What the owner's cache is to hold and to be refilled to.
    pub(super) cache: (usize, usize),
    /// The node that pages are to be of, if it matters.
    pub(super) node: Option<usize>,
    /// Pages of another node or out of the reserve.
    pub(super) unfit: usize,
    /// Whether every allocation is to be seen.
    pub(super) traced: bool,
    /// Whether every frame is cleared when it is given out.
    pub(super) clears: bool,
    /// Whether every frame is cleared when it comes here.
    pub(super) init_on_free: bool,
    /// Whether every frame passes here, and the descriptors' tallies are right.
    pub(super) watched: bool,
    /// Frames of other pools that were put here so far: none.
    pub(super) strangers: u64,
}

impl Depot {
    /// Bytes of both lists, as long as they can become.
    #[cold]
    pub(super) fn bytes(&self) -> usize {
        self.spare.capacity() * size_of::<u32>() + self.pages.capacity() * size_of::<Page>()
    }

    /// Empty, with room for all the frames and pages that a pool can have.
    pub(super) fn new(frames: usize, pages: usize, limit: usize, cache: (usize, usize)) -> Self {
        Depot {
            spare: Vec::with_capacity(frames),
            pages: Vec::with_capacity(pages),
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
            strangers: 0,
        }
    }

    /// Free frames here.
    pub(super) fn free(&self) -> u64 {
        self.spare.len() as u64
    }

    /// Whether every frame has to pass here.
    pub(super) fn must_watch(&self) -> bool {
        !self.closed && (self.traced || self.clears || self.init_on_free || self.has_unwanted())
    }

    /// Whether there are pages that are to leave as soon as their frames are home.
    pub(super) fn has_unwanted(&self) -> bool {
        self.pages.len() > self.limit || self.unfit > 0
    }

    /// Whether there is no use in taking many pages at once: they are not kept.
    pub(super) fn takes_singly(&self) -> bool {
        self.unfit > 0
    }

    /// Whether this page is to leave as soon as its frames are home.
    pub(super) fn is_unwanted(&self, page: &Page) -> bool {
        self.pages.len() > self.limit || self.is_unfit(page)
    }

    /// Whether a page may be used but not kept: out of the reserve, or of another node.
    pub(super) fn is_unfit(&self, page: &Page) -> bool {
        page.is_reserve() || self.is_elsewhere(page)
    }

    /// Whether a page is of another node than the one set.
    pub(super) fn is_elsewhere(&self, page: &Page) -> bool {
        self.node.is_some_and(|node| node != page.node())
    }

    /// What the owner's cache is to hold and to be refilled to now.
    pub(super) fn cache_now(&self) -> (usize, usize) {
        if self.watched { (0, 0) } else { self.cache }
    }
}
