//! The memory: the handle from which everything else is made.

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
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// A handle to a region, its pages and its workers: clone it freely; the last drop gives the memory back.
///
/// Pages that are still out when the last handle goes keep the memory mapped until they are home.
#[derive(Debug, Clone)]
pub struct Memory {
    pub(super) shared: Handle<Shared>,
}

impl Memory {
    /// Takes the memory from the system and makes it all free pages.
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

    /// As [`Memory::new`], in a file that a peer process can map ([`Region::file`]), so that frames of it can be handed over as
    /// offsets. Slab caches cannot be made of such a memory.
    ///
    /// # Errors
    /// [`MemoryError`]; nothing is left behind then.
    ///
    /// # Safety
    /// A frame's bytes are an ordinary `&[u8]` or `&mut [u8]` to the program that holds it, so no other process may write them
    /// meanwhile. The caller gives the file, or a port that gives it on ([`memif`](crate::port::memif)), only to processes that
    /// keep to this: they read and write the bytes of a frame from the moment when it is handed to them until it is handed
    /// back, and no other byte. Nothing makes a peer keep to that. For one that is not trusted to, use [`Memory::new`]: ports
    /// over its frames copy.
    #[cold]
    pub unsafe fn shared(config: &MemoryConfig) -> Result<Memory, MemoryError> {
        config.check(config.bytes)?;
        let region = Region::shared_guarded(config.bytes, config.backing, config.hardening.guard)?;
        let pages = region.len() / PAGE_SIZE;
        Ok(Memory { shared: Handle::new(&Shared::new(region, pages, config)) })
    }

    /// Makes memory that the caller lends free pages; it gets it back when the last page and frame is home and every
    /// handle gone. Pages and frames are as anywhere; slab caches cannot be made of it. `config.bytes` and
    /// `config.backing` mean nothing here.
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

    /// Claims a worker's slot. Its home node is its slot modulo the number of nodes.
    ///
    /// # Errors
    /// [`WorkerError::AllTaken`] when all slots are in use.
    #[cold]
    pub fn worker(&self) -> Result<Worker, WorkerError> {
        self.shared.roster.claim()
    }

    /// The region the pages lie in.
    pub fn region(&self) -> &Arc<Region> {
        &self.shared.region
    }

    /// Allocates a block of 2^order pages, order 0..=10; None when no block can be made of all the pages
    /// that nobody holds and that are not the reserve (or the order is larger).
    ///
    /// # Cost
    /// Orders 0..=3 from the worker's list: no locked instruction, one line of the list. A miss takes the
    /// node's lock once per batch. Contents are what the last holder left.
    #[inline(always)]
    pub fn alloc(&self, w: &mut Worker, order: u8) -> Option<Page> {
        self.shared.alloc(w, order)
    }

    /// As [`Memory::alloc`], and when that finds nothing, out of the reserve: for work that frees memory.
    ///
    /// What comes out of the reserve says so ([`Page::is_reserve`]) and goes straight back to its node when freed.
    #[inline]
    pub fn alloc_urgent(&self, w: &mut Worker, order: u8) -> Option<Page> {
        self.shared.alloc(w, order).or_else(|| grow::alloc_urgent(&self.shared, w, order))
    }

    /// As [`Memory::alloc`], and when that finds nothing, a single page: for buffers that are better large, but
    /// do with less. [`Page::order`] tells which it was.
    #[inline]
    pub fn alloc_or_single(&self, w: &mut Worker, order: u8) -> Option<Page> {
        let block = self.shared.alloc(w, order);
        if order == 0 { block } else { block.or_else(|| self.shared.alloc(w, 0)) }
    }

    /// Gives a block back to the worker's list; a page of another memory goes home to its own.
    ///
    /// # Cost
    /// A single page: one line of the list, no descriptor; no locked instruction unless the list is full.
    #[inline(always)]
    pub fn free(&self, w: &mut Worker, page: Page) {
        self.shared.free(w, page);
    }

    /// Fills the empty places of `pages` with single pages; returns how many it filled.
    ///
    /// Places that hold a page already are left alone (the array form of Linux's bulk allocator). Fewer than there
    /// are empty places only when no page that may be taken is anywhere.
    ///
    /// # Cost
    /// One entry into the worker's list and a copy, as far as that goes; then one lock for each 128 pages.
    #[inline]
    pub fn alloc_bulk(&self, w: &mut Worker, pages: &mut [Option<Page>]) -> usize {
        self.shared.alloc_bulk(w, pages)
    }

    /// Gives back every page in `pages` and leaves the places empty.
    ///
    /// # Cost
    /// One entry into the worker's list and a copy when all are single pages that fit; else as one by one.
    #[inline]
    pub fn free_bulk(&self, w: &mut Worker, pages: &mut [Option<Page>]) {
        self.shared.free_bulk(w, pages);
    }

    /// Lets the worker's self-tuned lists ([`Lists::Tuned`](super::Lists::Tuned)) shrink by an eighth and gives back
    /// what they hold too many. To be called now and then, as Linux does with every tick of its statistics.
    #[cold]
    pub fn decay(&self, w: &mut Worker) {
        grow::decay(&self.shared, w);
    }

    /// Makes another node the worker's home; its lists go back to the node they came from. False when there is no
    /// such node, or the worker is of another memory.
    #[cold]
    pub fn set_home_node(&self, w: &mut Worker, node: usize) -> bool {
        grow::set_home(&self.shared, w, node)
    }

    /// Sets what is called when the free pages of a node fall below its low watermark or reach its high one again;
    /// replaces what was set before.
    ///
    /// It runs on the thread that crossed the mark, with its worker where it has one at hand, and inside of nothing:
    /// no lock is held, and it may allocate and free.
    #[cold]
    pub fn on_pressure(&self, call: impl Fn(Option<&mut Worker>, Pressure) + Send + Sync + 'static) {
        self.shared.nodes.set_on_pressure(Arc::new(call));
    }

    /// Switches the page counters on or off; the counts so far stay.
    pub fn set_statistics(&self, on: bool) {
        self.shared.statistics.store(on, Relaxed);
    }

    /// Whether the counters are kept.
    pub fn statistics(&self) -> bool {
        self.shared.statistics.load(Relaxed)
    }

    /// The page counters. Exact at a quiescent point: then `free + cached` plus the pages out is `total`.
    pub fn stats(&self) -> PageStats {
        self.shared.stats()
    }

    /// Nodes the region is split into.
    pub fn nodes(&self) -> usize {
        self.shared.nodes.each().len()
    }

    /// The counters of one node; None when there is no such node.
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

    /// What is done against misuse, as it was made with.
    pub fn hardening(&self) -> Hardening {
        self.shared.hardened.chosen
    }

    /// Inaccessible pages inside of the region now, and how many more were wanted and refused by the system so far: what they
    /// would have stood behind has none.
    pub fn guard_pages(&self) -> (u64, u64) {
        self.shared.hardened.guards()
    }

    /// Where fresh pages, objects and frames get their order, and secrets come from; None without [`Hardening`].
    pub(crate) fn random(&self) -> Option<&Random> {
        self.shared.hardened.random.as_ref()
    }

    /// The same, where fresh things come in a random order.
    pub(crate) fn order(&self) -> Option<&Random> {
        self.random().filter(|_| self.hardening().random)
    }

    /// The descriptors of all pages.
    pub(crate) fn table(&self) -> &Table {
        &self.shared.table
    }

    /// The index in the table of the page with this process-wide number (or claim's number), if it is of this memory.
    #[inline(always)]
    pub(crate) fn index(&self, number: NonZeroU32) -> Option<u32> {
        self.shared.index(number.get())
    }

    /// The number, for [`Page::claim`], of the block that begins at `index` and is out.
    pub(crate) fn number(&self, index: u32) -> Option<NonZeroU32> {
        NonZeroU32::new(self.shared.number(index))
    }

    /// The descriptor of the page with this process-wide number, if it is of this memory.
    pub(crate) fn desc(&self, number: NonZeroU32) -> Option<&Desc> {
        self.index(number).map(|index| self.shared.table.desc(index))
    }

    /// The roster of this memory's workers, for the stages above.
    pub(crate) fn roster(&self) -> &Roster {
        &self.shared.roster
    }

    /// Makes the `n`-th allocation from now on (0 is the next) that has to ask a node fail, once.
    #[cfg(test)]
    pub(crate) fn refuse(&self, n: usize) {
        self.shared.refusal.set(n);
    }

    /// Makes the `n`-th guard page from now on (0 is the next) that is made or taken away be refused, once.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn refuse_guard(&self, n: usize) {
        self.shared.hardened.refusal.set(n);
    }

    /// Whether that allocation came and failed; none will from now on.
    #[cfg(test)]
    pub(crate) fn refusal_spent(&self) -> bool {
        self.shared.refusal.take()
    }
}
