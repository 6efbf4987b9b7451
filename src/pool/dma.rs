//! How a device knows a pool's frames: the mapping is made when a page enters the pool and undone once, when
//! it leaves ([brouer17-pages]: "page kept DMA mapped").

use crate::limits::{CACHE_LINE, PAGE_SIZE};
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
    /// A peer has mapped the region (memif) and names a frame by its offset in it.
    Memif,
    /// A device reaches the region at an address of its own (VFIO, a bus address): the frame's offset and this.
    Iova {
        /// Where the device finds the region's first byte.
        base: u64,
    },
    #[cfg(feature = "comparisons")]
    /// A model of an IOMMU: every page mapped or unmapped, and every line handed to the device, costs the core time.
    Modelled {
        /// Nanoseconds a map or an unmap takes.
        cost_ns: u32,
        /// Nanoseconds that handing 64 bytes to the device takes ([`Pool::sync_for_device`](super::Pool::sync_for_device)).
        line_ns: u32,
    },
}

impl DmaMap {
    /// Nanoseconds that a map or an unmap takes, and handing 64 bytes to the device: none but in the model.
    fn cost_ns(self) -> (u64, u64) {
        match self {
            #[cfg(feature = "comparisons")]
            DmaMap::Modelled { cost_ns, line_ns } => (cost_ns.into(), line_ns.into()),
            _ => (0, 0),
        }
    }
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
        let base = if let DmaMap::Iova { base } = self.kind { base } else { 0 };
        let first = base.wrapping_add((block.address().addr() - memory.region().base().addr()) as u64);
        let write = |word: &AtomicU64, i| word.store(first.wrapping_add((i * PAGE_SIZE) as u64), Relaxed);
        self.each_page(memory, block, write, &self.mapped);
    }

    /// Undoes the mapping of a block of pages that leaves the pool.
    pub(crate) fn unmap(&self, memory: &Memory, block: &Page) {
        self.each_page(memory, block, |word, _| word.store(0, Relaxed), &self.unmapped);
    }

    fn each_page(&self, memory: &Memory, block: &Page, write: impl Fn(&AtomicU64, usize), count: &Count) {
        let Some(first) = memory.index(block.number()).filter(|_| self.is_mapping()) else { return };
        for (i, desc) in memory.table().range(first, 1 << block.order()).enumerate() {
            write(&desc.word, i);
            spend(self.kind.cost_ns().0);
            count.add_shared(1);
        }
    }

    /// Pages that a device may reach now.
    pub(crate) fn pages(&self) -> u64 {
        self.mapped.get().wrapping_sub(self.unmapped.get())
    }

    /// Pays for handing `bytes` to the device.
    pub(crate) fn pay_sync(&self, bytes: usize) {
        spend(self.kind.cost_ns().1 * bytes.div_ceil(CACHE_LINE) as u64);
    }
}

/// Keeps the core for as many nanoseconds.
fn spend(ns: u64) {
    if ns == 0 {
        return;
    }
    let until = clock::ticks() + (ns as f64 * clock::ticks_per_ns()) as u64;
    while clock::ticks() < until {
        std::hint::spin_loop();
    }
}
