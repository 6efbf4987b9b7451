//! The memory: the handle from which everything else is made.

use super::allowance::Allowance;
use super::config::{MemoryConfig, MemoryError};
use super::grow;
use super::hardening::Hardening;
use super::nodes::Pressure;
use super::page::Page;
use super::random::Random;
use super::shared::Shared;
use super::stats::{NodeStats, PageStats};
use super::table::{Desc, Table};
use crate::limits::PAGE_SIZE;
use crate::sync::{Handle, Roster, Worker, WorkerError};
use crate::sys::region::{Lent, Region};
use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A handle to a region, its pages and its workers: clone it freely; the last drop gives the memory back.
///
/// If pages are still out when the last handle goes, the memory stays mapped until they are freed.
///
/// # After fork(2)
/// A memory and all that is made of it belong to the process that made it. A child of fork(2) may call exec or `_exit`, and
/// nothing of this crate. It must not even drop such a value: a lock may be held by a thread that the child does not have,
/// and the call would wait forever.
#[derive(Clone)]
pub struct Memory {
    pub(super) shared: Handle<Shared>,
}

/// Prints its size only. [`Memory::stats`] has the pages.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Memory {
    /// Takes memory from the system and makes it free pages.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    #[cold]
    pub fn new(config: &MemoryConfig) -> Result<Memory, MemoryError> {
        config.check(config.bytes)?;
        let region = match config.hardening.guard {
            false => Region::new(config.bytes, config.backing)?,
            true => Region::guarded(config.bytes, config.backing)?,
        };
        let pages = region.len() / PAGE_SIZE;
        Ok(Memory { shared: Handle::new(&Shared::new(region, pages, config)) })
    }

    /// Makes a memory as [`Memory::new`] does, in a file that a peer process can map ([`Region::file`]). Frames of it
    /// can be handed over as offsets. Slab caches cannot be made of such a memory.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    ///
    /// # Safety
    /// The bytes of a frame are an ordinary `&[u8]` or `&mut [u8]` to the program that holds the frame. So no other
    /// process may write them during that time. The caller gives the file only to processes that keep this rule. The
    /// same holds for a port that passes the file on ([`memif`](crate::port::memif)). A peer that keeps the rule reads
    /// and writes the bytes of a frame from the moment when the frame is handed to it until it hands the frame back,
    /// and accesses no other byte. Nothing forces a peer to keep the rule. For an untrusted peer, use [`Memory::new`]:
    /// ports over its frames copy.
    ///
    /// A child of this process (fork(2)) is another process too. It has the same bytes, and its own copy of the lists
    /// of free frames, so it must not use the memory.
    #[cold]
    pub unsafe fn shared(config: &MemoryConfig) -> Result<Memory, MemoryError> {
        config.check(config.bytes)?;
        let region = Region::shared_guarded(config.bytes, config.backing, config.hardening.guard)?;
        let pages = region.len() / PAGE_SIZE;
        Ok(Memory { shared: Handle::new(&Shared::new(region, pages, config)) })
    }

    /// Makes free pages of memory that the caller lends. The caller gets the memory back when the last page and frame
    /// is freed and every handle is gone. Pages and frames work as in any memory; slab caches cannot be made of it.
    /// `config.bytes` and `config.backing` have no effect here.
    ///
    /// ```
    /// use netmem::page::{Memory, MemoryConfig};
    /// use netmem::page::Lent;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (tell, back) = std::sync::mpsc::channel();
    /// let bytes = vec![0; 64 << 10].into_boxed_slice();
    /// let lent = Lent::bytes(bytes, move |bytes| drop(tell.send(bytes.len())))?;
    /// let memory = Memory::lent(lent, &MemoryConfig::default())?;
    /// let mut w = memory.worker()?;
    /// let page = memory.alloc(&mut w, 0);
    /// drop((w, memory));
    /// assert!(back.try_recv().is_err()); // a page is out
    /// drop(page);
    /// assert_eq!(back.try_recv(), Ok(64 << 10));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`MemoryError`]; the memory has been given back then.
    #[cold]
    pub fn lent(lent: Lent, config: &MemoryConfig) -> Result<Memory, MemoryError> {
        if config.hardening.guard {
            return Err(MemoryError::LentGuard);
        }
        let region = lent.into_region();
        config.check(region.len())?;
        let pages = region.len() / PAGE_SIZE;
        Ok(Memory { shared: Handle::new(&Shared::new(region, pages, config)) })
    }

    /// Claims a worker's slot. Its home node is its slot modulo the number of nodes, or the node to which an earlier
    /// worker of the slot moved it. If that worker owned pools when it left, and no other worker adopted them
    /// ([`Pool::adopt`](crate::pool::Pool::adopt)), the new worker owns them.
    ///
    /// # Errors
    /// [`WorkerError::AllTaken`] when all slots are in use.
    #[cold]
    pub fn worker(&self) -> Result<Worker, WorkerError> {
        self.shared.roster.claim()
    }

    /// The bytes that caches may keep free with demand.
    pub(crate) fn allowance(&self) -> &Arc<Allowance> {
        &self.shared.allowance
    }

    /// The region that holds the pages.
    pub fn region(&self) -> &Arc<Region> {
        &self.shared.region
    }

    /// Allocates a block of 2^order pages, order 0..=10. Returns None if no block can be made of all the pages that
    /// have no holder and are not the reserve, or if the order is larger.
    ///
    /// # Cost
    /// Orders 0..=3 come from the worker's list: no locked instruction, one line of the list. A miss takes the node's
    /// lock once for each batch. The contents are those that the last holder left.
    #[inline(always)]
    pub fn alloc(&self, w: &mut Worker, order: u8) -> Option<Page> {
        self.shared.alloc(w, order)
    }

    /// Allocates a block as [`Memory::alloc`] does, and takes it from the reserve if there is no other. For work that
    /// frees memory.
    ///
    /// A block from the reserve is marked ([`Page::is_reserve`]). When it is freed, it goes straight back to its node.
    #[inline]
    pub fn alloc_with_reserve(&self, w: &mut Worker, order: u8) -> Option<Page> {
        self.shared.alloc(w, order).or_else(|| grow::alloc_with_reserve(&self.shared, w, order))
    }

    /// Allocates a block as [`Memory::alloc`] does, or a single page if there is no such block. For buffers that are
    /// better large but work with less. [`Page::order`] tells which one it was.
    #[inline]
    pub fn alloc_or_single(&self, w: &mut Worker, order: u8) -> Option<Page> {
        let block = self.shared.alloc(w, order);
        if order == 0 { block } else { block.or_else(|| self.shared.alloc(w, 0)) }
    }

    /// Gives a block back to the worker's list. A page of another memory goes back to that memory.
    ///
    /// # Cost
    /// A single page: one line of the list, no descriptor. No locked instruction unless the list is full.
    #[inline(always)]
    pub fn free(&self, w: &mut Worker, page: Page) {
        self.shared.free(w, page);
    }

    /// Fills the empty slots of `pages` with single pages. Returns how many it filled.
    ///
    /// Slots that hold a page already are left alone, as in the array form of Linux's bulk allocator. It leaves a slot
    /// empty only if there is no page anywhere that may be taken.
    ///
    /// # Cost
    /// One entry into the worker's list and a copy, as long as the list has pages; then one lock for each 128 pages.
    #[inline]
    pub fn alloc_bulk(&self, w: &mut Worker, pages: &mut [Option<Page>]) -> usize {
        self.shared.alloc_bulk(w, pages)
    }

    /// Gives back every page in `pages` and leaves the slots empty.
    ///
    /// # Cost
    /// One entry into the worker's list and a copy if all are single pages that fit; otherwise the same as freeing one
    /// by one.
    #[inline]
    pub fn free_bulk(&self, w: &mut Worker, pages: &mut [Option<Page>]) {
        self.shared.free_bulk(w, pages);
    }

    /// Shrinks the worker's self-tuned lists ([`Lists::Tuned`](super::Lists::Tuned)) by an eighth, and every list of orders
    /// 4 to 9 by a block, and gives back the excess pages. Call it from time to time; Linux does it with every tick of its statistics.
    #[cold]
    pub fn decay(&self, w: &mut Worker) {
        grow::decay(&self.shared, w);
    }

    /// Makes another node the worker's home. The pages in the worker's lists go back to the node that they came from.
    /// Returns false if the node does not exist, or the worker belongs to another memory.
    #[cold]
    pub fn set_home_node(&self, w: &mut Worker, node: usize) -> bool {
        grow::set_home(&self.shared, w, node)
    }

    /// Sets the callback for pressure: the free pages of a node fall below its low watermark, or reach its high
    /// watermark again. Replaces an earlier callback.
    ///
    /// The callback runs on the thread that crossed the watermark. It gets that thread's worker if there is one at
    /// hand. No lock is held, and the callback may allocate and free.
    ///
    /// The memory keeps the callback until another one replaces it. If the callback owns this memory, or a cache of it,
    /// neither is ever dropped. Such a callback should hold a [`Weak`](std::sync::Weak) reference:
    ///
    /// ```
    /// # use netmem::{Memory, MemoryConfig, slab::{Cache, CacheConfig}};
    /// # use std::sync::Arc;
    /// # let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() })?;
    /// let cache = Arc::new(Cache::<u64>::new(&memory, &CacheConfig::default())?);
    /// let to_shrink = Arc::downgrade(&cache);
    /// memory.on_pressure(move |_, _| to_shrink.upgrade().iter().for_each(|cache| cache.shrink()));
    /// # let region = Arc::downgrade(memory.region());
    /// # drop((cache, memory));
    /// # assert!(region.upgrade().is_none());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cold]
    pub fn on_pressure(&self, call: impl Fn(Option<&mut Worker>, Pressure) + Send + Sync + 'static) {
        self.shared.nodes.set_on_pressure(Arc::new(call));
    }

    /// Switches the counters of nodes and of visits to them on or off. The counts so far stay. See
    /// [`MemoryConfig::statistics`](super::MemoryConfig::statistics).
    pub fn set_statistics(&self, on: bool) {
        self.shared.statistics.store(on, Relaxed);
    }

    /// Whether those counters count.
    pub fn statistics(&self) -> bool {
        self.shared.statistics.load(Relaxed)
    }

    /// The page counters. Exact at a quiescent point: then `free + cached` plus the pages out is `total`.
    pub fn stats(&self) -> PageStats {
        self.shared.stats()
    }

    /// The number of nodes that the region is split into.
    pub fn nodes(&self) -> usize {
        self.shared.nodes.each().len()
    }

    /// The counters of one node; None if the node does not exist.
    pub fn node_stats(&self, node: usize) -> Option<NodeStats> {
        self.shared.node_stats(node)
    }

    /// Bytes of the pages.
    pub fn bytes(&self) -> usize {
        self.shared.table.len() * PAGE_SIZE
    }

    /// Bytes that the page descriptors take.
    pub fn descriptor_bytes(&self) -> usize {
        self.shared.table.bytes()
    }

    /// The protections against misuse that the memory was made with.
    pub fn hardening(&self) -> Hardening {
        self.shared.hardened.chosen
    }

    /// The number of inaccessible pages inside of the region now, and how many more the system has refused so far. A
    /// refused guard page leaves its block or slab without one.
    pub fn guard_pages(&self) -> (u64, u64) {
        self.shared.hardened.guards()
    }

    /// The source of the order of fresh pages, objects and frames, and of secrets; None without [`Hardening`].
    pub(crate) fn random(&self) -> Option<&Random> {
        self.shared.hardened.random.as_ref()
    }

    /// The same source, if fresh items come in a random order.
    pub(crate) fn order(&self) -> Option<&Random> {
        self.random().filter(|_| self.hardening().random)
    }

    /// The descriptors of all pages.
    pub(crate) fn table(&self) -> &Table {
        &self.shared.table
    }

    /// The index in the table of the page with this process-wide number (or the number of its claim), if the page
    /// belongs to this memory.
    #[inline(always)]
    pub(crate) fn index(&self, number: NonZeroU32) -> Option<u32> {
        self.shared.index(number.get())
    }

    /// The number, for [`Page::claim`], of the block that begins at `index` and is out.
    pub(crate) fn number(&self, index: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(self.shared.number(index))
    }

    /// The descriptor of the page with this process-wide number, if the page belongs to this memory.
    pub(crate) fn desc(&self, number: NonZeroU32) -> Option<&Desc> {
        self.index(number).map(|index| self.shared.table.desc(index))
    }

    /// The roster of this memory's workers, for the stages above.
    pub(crate) fn roster(&self) -> &Roster {
        &self.shared.roster
    }

    /// Makes the `n`-th allocation from now on (0 is the next) that needs a node fail, once.
    #[cfg(test)]
    pub(crate) fn refuse(&self, n: usize) {
        self.shared.refusal.set(n);
    }

    /// Refuses the `n`-th change of a guard page from now on (0 is the next), once. Making and removing both count.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn refuse_guard(&self, n: usize) {
        self.shared.hardened.refusal.set(n);
    }

    /// Whether that allocation has come and failed. None fails from now on.
    #[cfg(test)]
    pub(crate) fn refusal_spent(&self) -> bool {
        self.shared.refusal.take()
    }
}
