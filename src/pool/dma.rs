//! How a device knows a pool's frames: the mapping is made when a page enters the pool and undone once, when
//! it leaves (source 004: "page kept DMA mapped").

use crate::limits::PAGE_SIZE;
use crate::page::{Memory, Page};
use crate::stats::Count;
use crate::sync::shim::AtomicU64;
use crate::sys::clock;
use std::sync::atomic::Ordering::Relaxed;

/// The kind of mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DmaMap {
    /// No device reads the frames by address.
    #[default]
    None,
    /// A device knows the whole region already and names a frame by its offset (an AF_XDP UMEM).
    Umem,
    /// A model of an IOMMU: every page mapped or unmapped costs this many nanoseconds of the core.
    Modelled {
        /// Nanoseconds a map or an unmap takes.
        cost_ns: u32,
    },
}

/// The mappings of one pool.
///
/// Conservation: `mapped − unmapped` is the number of the pool's pages that a device may reach.
#[derive(Debug, Default)]
pub(crate) struct Dma {
    kind: DmaMap,
    mapped: Count,
    unmapped: Count,
}

impl Dma {
    pub(crate) fn new(kind: DmaMap) -> Self {
        Dma { kind, ..Dma::default() }
    }

    /// Whether frames have an address for a device at all.
    pub(crate) fn is_mapping(&self) -> bool {
        self.kind != DmaMap::None
    }

    /// Maps a block of pages that enters the pool; each page's address for the device goes into its descriptor.
    pub(crate) fn map(&self, memory: &Memory, block: &Page) {
        let offset = block.address().addr() - memory.region().base().addr();
        self.each_page(
            memory,
            block,
            |word, i| word.store((offset + i * PAGE_SIZE) as u64, Relaxed),
            &self.mapped,
        );
    }

    /// Undoes the mapping of a block of pages that leaves the pool.
    pub(crate) fn unmap(&self, memory: &Memory, block: &Page) {
        self.each_page(memory, block, |word, _| word.store(0, Relaxed), &self.unmapped);
    }

    fn each_page(&self, memory: &Memory, block: &Page, write: impl Fn(&AtomicU64, usize), count: &Count) {
        let Some(first) = memory.index(block.number()).filter(|_| self.is_mapping()) else { return };
        for (i, desc) in memory.table().range(first, 1 << block.order()).enumerate() {
            write(&desc.word, i);
            self.pay();
            count.add_shared(1);
        }
    }

    /// Pages that a device may reach now.
    pub(crate) fn pages(&self) -> u64 {
        self.mapped.get().wrapping_sub(self.unmapped.get())
    }

    fn pay(&self) {
        if let DmaMap::Modelled { cost_ns } = self.kind {
            let until = clock::ticks() + (f64::from(cost_ns) * clock::ticks_per_ns()) as u64;
            while clock::ticks() < until {
                std::hint::spin_loop();
            }
        }
    }
}
