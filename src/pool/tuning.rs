//! COLD: the settings of a pool that can be changed at run time.

use super::config::{PoolError, check_cache};
use super::pool::Pool;
use super::shared::Shared;
use crate::sync::shim::lock;

impl Pool {
    /// Sets the maximum number of frames of the pool (rounded up to whole pages), 1 to its capacity.
    ///
    /// Up: pages are taken as they are needed. Down: excess pages whose frames are all free are unmapped and given back
    /// now. Other pages are given back when the last of their frames is freed. A page whose frames are on the remote
    /// free queue goes when the owner next allocates, when another worker finds no free frame elsewhere, or when this
    /// is called again. As long as there are such pages, the owner's cache stays empty, so that every frame is checked.
    /// In that time the pool allocates no new pages.
    ///
    /// Ready packets and the open frames of [`Fragments`](super::Fragments) are not free. They keep their pages until
    /// they are used and freed. The pairs of a worker that takes no packets stay until
    /// [`ReadyPackets::drain`](crate::packet::ReadyPackets::drain) is called, or until the pool runs out of frames.
    ///
    /// # Errors
    /// [`PoolError::Range`]; nothing has changed then.
    #[cold]
    pub fn resize(&self, frames: usize) -> Result<(), PoolError> {
        if !(1..=self.capacity()).contains(&frames) {
            return Err(PoolError::Range {
                what: "frames",
                value: frames,
                range: "1 to the pool's capacity",
            });
        }
        let pages = frames.div_ceil(self.shared.per_page());
        self.shared.change(|depot| depot.limit = pages);
        Ok(())
    }

    /// Sets the size of the owner's cache, 0 to 65536 frames, and the number of frames that it is refilled to, 1 to the
    /// size. Without a cache every frame passes the depot, under its lock. The ring of the remote free queue keeps the
    /// length that the cache had when the pool was made. Frames that the ring has no room for take the stack.
    ///
    /// # Errors
    /// [`PoolError::Range`]; nothing has changed then.
    #[cold]
    pub fn set_cache(&self, cache: usize, refill: usize) -> Result<(), PoolError> {
        check_cache(cache, refill)?;
        let cache = cache.min(self.capacity());
        self.shared.change(|depot| depot.cache = (cache, refill.min(cache)));
        Ok(())
    }

    /// The size of the owner's cache, and the number of frames that it is refilled to.
    pub fn cache(&self) -> (usize, usize) {
        lock(&self.shared.depot).cache
    }

    /// Keeps only pages of `node` from now on; None: of any node. Pages of other nodes leave when their frames are
    /// free, and those frames are counted as waived.
    ///
    /// New pages come from the home node of the worker that needs them
    /// ([`Memory::set_home_node`](crate::page::Memory::set_home_node)). If that is another node, the pages are used
    /// once.
    #[cold]
    pub fn set_node(&self, node: Option<usize>) {
        self.shared.change(|depot| depot.node = node);
    }

    /// The node that kept pages belong to, if it matters.
    pub fn node(&self) -> Option<usize> {
        lock(&self.shared.depot).node
    }

    /// The number of pages that are to leave and whose frames are not all free yet.
    pub fn leaving_pages(&self) -> usize {
        let depot = lock(&self.shared.depot);
        depot
            .pages
            .iter()
            .filter(|page| depot.is_unfit(page))
            .count()
            .max(depot.pages.len().saturating_sub(depot.limit))
    }
}

impl Shared {
    /// Maximum number of frames of the pool now.
    pub(super) fn limit(&self) -> usize {
        lock(&self.depot).limit * self.per_page()
    }
}
