//! How a device knows a pool's frames: the mapping is made when a page enters the pool and undone once, when
//! it leaves (source 004: "page kept DMA mapped").

use crate::page::{Memory, Page};
use crate::stats::Count;
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

    /// Maps a page that enters the pool; its address for the device goes into the descriptor's word.
    pub(crate) fn map(&self, memory: &Memory, page: &Page) {
        if self.kind != DmaMap::None
            && let Some(desc) = memory.desc(page.number())
        {
            let offset = page.address().addr() - memory.region().base().addr();
            desc.word.store(offset as u64, Relaxed);
            self.pay();
            self.mapped.add_shared(1);
        }
    }

    /// Undoes the mapping of a page that leaves the pool.
    pub(crate) fn unmap(&self, memory: &Memory, page: &Page) {
        if self.kind != DmaMap::None
            && let Some(desc) = memory.desc(page.number())
        {
            desc.word.store(0, Relaxed);
            self.pay();
            self.unmapped.add_shared(1);
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
