//! COLD: what of a pool can be changed while it runs.

use super::config::{PoolError, check_cache};
use super::pool::Pool;
use super::shared::Shared;
use crate::sync::shim::lock;

impl Pool {
    /// Lets the pool have `frames` at most from now on (rounded up to whole pages), 1 to its capacity.
    ///
    /// Up: pages are taken as they are needed. Down: pages too many whose frames are all home are unmapped and given back
    /// now, others as the last of their frames comes home (those on the remote free queue when a worker next takes or gives
    /// frames in the cold half, or this is called again). As long as there are such pages the owner's cache stays empty,
    /// so that every frame is looked at; nothing is allocated beyond what the pool has meanwhile.
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

    /// Lets the owner's cache hold `cache` frames, 0 to 65536, and be refilled to `refill`, 1 to the cache. With no cache
    /// every frame passes the depot, under its lock. The ring on the remote free queue stays as long as the cache was when the pool was
    /// made; what it has no room for takes the stack.
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

    /// What the owner's cache may hold, and what it is refilled to.
    pub fn cache(&self) -> (usize, usize) {
        lock(&self.shared.depot).cache
    }

    /// Keeps only pages of `node` from now on; None: of any. Pages of other nodes leave when their frames are home, and
    /// those frames are counted as waived.
    ///
    /// New pages come from the home node of whoever needs them
    /// ([`Memory::set_home_node`](crate::page::Memory::set_home_node)): where that is another one, pages are used once.
    #[cold]
    pub fn set_node(&self, node: Option<usize>) {
        self.shared.change(|depot| depot.node = node);
    }

    /// The node that pages are kept of, if it matters.
    pub fn node(&self) -> Option<usize> {
        lock(&self.shared.depot).node
    }

    /// Pages that are to leave and whose frames are not all home yet.
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
    /// Frames the pool may have now.
    pub(super) fn limit(&self) -> usize {
        lock(&self.depot).limit * self.per_page()
    }
}
