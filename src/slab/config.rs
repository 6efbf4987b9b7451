//! The settings of a cache, and the tunables that can be changed at run time.

use super::debug::{DebugOptions, Layout};
use super::slabs::capacity;
use super::word::WordForm;
use crate::limits::{LOCAL_ORDER_MAX, ORDER_MAX, PAGE_SIZE};

/// The per-worker layer of a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layer {
    /// Two arrays of free objects, and a barn of full and empty ones for all workers (Linux 6.18 and later). The barn keeps
    /// ten full arrays, and more with demand: at most 65,536 objects, and all barns of a memory together at most an
    /// eighth of it.
    #[default]
    Sheaf,
    #[cfg(feature = "comparisons")]
    /// An active slab and a list of partial ones (Linux before 6.18; [brouer15-bulk] tunes it).
    CpuSlab,
}

/// The settings of a cache.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// The name of the cache in reports.
    pub name: String,
    /// Pages in a slab, as a power of two; None chooses the smallest order that wastes at most 1/16.
    pub order: Option<u8>,
    /// Objects in a sheaf. None chooses by size: as many as 32 KiB hold, at least 4 and at most 64. A cache with a number
    /// here is not merged.
    pub sheaf: Option<usize>,
    /// Empty slabs are given back only while more than this many others have free objects. None is log2(size) / 2,
    /// within 5..=10, as in Linux.
    pub min_partial: Option<usize>,
    /// Maximum number of free objects in a worker's partial slabs, in the layer `CpuSlab`. None chooses by size as
    /// Linux did in 2015 (13 for 256 bytes).
    pub cpu_partial: Option<usize>,
    /// The per-worker layer.
    pub layer: Layer,
    /// How the words of slabs are changed.
    pub word: WordForm,
    /// Whether another cache of the memory with objects of about this size may share this one's slabs.
    pub merge: bool,
    #[cfg(feature = "comparisons")]
    /// Minimum size of an object in bytes: smaller objects are padded. For comparison only, with the larger objects of
    /// a source ([brouer15-bulk]).
    pub size_min: usize,
    /// The misuse to look for.
    #[cfg(feature = "slab-debug")]
    pub debug: DebugOptions,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig {
            name: "cache".into(),
            order: None,
            sheaf: None,
            min_partial: None,
            cpu_partial: None,
            layer: Layer::default(),
            word: WordForm::default(),
            merge: true,
            #[cfg(feature = "comparisons")]
            size_min: 0,
            #[cfg(feature = "slab-debug")]
            debug: DebugOptions::default(),
        }
    }
}

impl CacheConfig {
    /// The size of an object of `size` bytes with its padding.
    pub(super) fn padded(&self, size: usize) -> usize {
        #[cfg(feature = "comparisons")]
        return size.max(self.size_min);
        #[cfg(not(feature = "comparisons"))]
        size
    }

    /// The misuse to look for.
    pub(super) fn debug(&self) -> DebugOptions {
        #[cfg(feature = "slab-debug")]
        return self.debug;
        #[cfg(not(feature = "slab-debug"))]
        DebugOptions::default()
    }
}

/// Why a cache could not be made, or why a tunable could not be changed.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheError {
    /// The objects are too large for a slab of this order, or so small that it holds too many. Without a chosen order a
    /// slab has at most 32 KiB.
    #[error(
        "objects of {size} bytes: a slab of order {order} holds fewer than 1 or more than 32767, or does not align them: choose another order, up to 10"
    )]
    Size {
        /// The size of an object in bytes.
        size: usize,
        /// The order of the slab.
        order: u8,
    },
    /// The memory is lent by the caller, so it may not be aligned as slabs are, or a peer may map and write it.
    #[error(
        "no objects in memory that the caller lends or a peer may map: make the cache of a private memory from the system"
    )]
    Lent,
    /// The alignment is not a power of two, or is larger than a slab.
    #[error("alignment {align}: give a power of two up to 32768")]
    Align {
        /// The requested alignment.
        align: usize,
    },
    /// A tunable is out of range.
    #[error("{what} {value}: give {range}")]
    Range {
        /// The name of the tunable.
        what: &'static str,
        /// The value that was given.
        value: usize,
        /// The valid range.
        range: &'static str,
    },
    /// There is no tunable of this name.
    #[error("no tunable {name:?}: there are order, min_partial, cpu_partial and sheaf_capacity")]
    Unknown {
        /// The requested name.
        name: String,
    },
    /// The cache's layer has no such tunable.
    #[error(
        "{what} means nothing to this cache: it has another layer, or debug, or its objects are hardened"
    )]
    Layer {
        /// The tunable.
        what: &'static str,
    },
    /// The process has 4,095 caches already.
    #[error("the process has 4095 caches already: drop one first")]
    TooMany,
}

/// The order and the number of objects of a slab: the smallest order that wastes at most 1/16 of it, then 1/8 and so
/// on.
pub(super) fn order(
    layout: Layout,
    (size, align): (usize, usize),
    order: Option<u8>,
) -> Result<u8, CacheError> {
    let aligned = |order: u8| PAGE_SIZE << order >= align;
    let wasted = |order: u8| (PAGE_SIZE << order) - usize::from(capacity(layout, order)) * layout.stride;
    let good = |part: usize, order: u8| {
        aligned(order) && capacity(layout, order) > 0 && wasted(order) * part <= PAGE_SIZE << order
    };
    let smallest =
        || [16, 8, 4, 2, 1].iter().find_map(|&part| (0..=LOCAL_ORDER_MAX).find(|&o| good(part, o)));
    let order = order.or_else(smallest).unwrap_or(LOCAL_ORDER_MAX);
    if order > ORDER_MAX || !aligned(order) || capacity(layout, order) == 0 {
        return Err(CacheError::Size { size, order });
    }
    Ok(order)
}

/// Bytes of objects in a sheaf.
const SHEAF_BYTES: usize = 32 << 10;

/// The number of objects in a sheaf by their size: as many as 32 KiB hold, at least 4 and at most 64. Linux 7.0 has 4, 12,
/// 26 and 60. A worker that frees what another allocates pays for the barn's lines at each exchange, so a sheaf holds at
/// least a burst of 32 if it can.
pub(super) fn sheaf_capacity(size: usize) -> usize {
    (SHEAF_BYTES / size.max(1)).clamp(4, 64)
}

/// The number of free objects in a worker's partial slabs, by the size of objects (Linux in 2015).
pub(super) fn cpu_partial(size: usize) -> usize {
    match size {
        PAGE_SIZE.. => 2,
        1024.. => 6,
        256.. => 13,
        _ => 30,
    }
}

/// The number of partial slabs to keep, by the size of objects (SLUB: log2(size) / 2 within 5..=10).
pub(super) fn min_partial(size: usize) -> usize {
    (size.max(1).ilog2() as usize / 2).clamp(5, 10)
}

/// A tunable: its name, its bounds, and the text of the bounds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tunable {
    pub(super) name: &'static str,
    most: usize,
    least: usize,
    range: &'static str,
}

/// All tunables, in the order in which `Shared::create` checks the settings of a cache.
pub(super) const TUNABLES: [Tunable; 4] = [
    Tunable { name: "order", least: 0, most: ORDER_MAX as usize, range: "0 to 10" },
    Tunable { name: "min_partial", least: 0, most: 1 << 20, range: "0 to 1048576" },
    Tunable { name: "cpu_partial", least: 0, most: 1 << 20, range: "0 to 1048576" },
    Tunable { name: "sheaf_capacity", least: 1, most: 1 << 16, range: "1 to 65536" },
];

impl Tunable {
    /// Returns the value if it is within the bounds.
    pub(super) fn check(&self, value: usize) -> Result<usize, CacheError> {
        let Tunable { name, range, .. } = *self;
        let good = (self.least..=self.most).contains(&value);
        good.then_some(value).ok_or(CacheError::Range { what: name, value, range })
    }
}
