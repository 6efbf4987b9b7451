//! The source of heads in each variant.

use netmem::forward::Free;
use netmem::packet::{HeadCacheConfig, HeadCacheMode};
use netmem::slab::{CacheConfig, Layer};

use super::neighbours::Density;
use crate::json::{Params, Published, params};

/// One way to make and free packets.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// In words, for the rows.
    pub(super) what: &'static str,
    pub(super) free: Free,
    /// The share of the objects in merged slabs that is not the heads'.
    pub(super) density: Density,
    heads: Option<Source>,
    published: Option<(f64, &'static str)>,
}

/// The source of heads.
#[derive(Clone, Copy)]
struct Source {
    layer: Layer,
    mode: HeadCacheMode,
    /// Heads in a ready array, taken from the cache at once, and freed from a full array.
    size: usize,
    refill: usize,
    free: usize,
    cpu_partial: usize,
    min_partial: usize,
    merge: bool,
    /// Bytes from one head to the next.
    bytes: usize,
}

/// The source's slab layer before its change.
const FOUND: Source = Source {
    layer: Layer::CpuSlab,
    mode: HeadCacheMode::Each,
    size: 64,
    refill: 16,
    free: 32,
    cpu_partial: 13,
    min_partial: 5,
    merge: true,
    bytes: 64,
};
/// The layer after its change: freed heads are collected and freed in bulk, and taken one by one.
const PATCHED: Source = Source { mode: HeadCacheMode::FlushOnly, ..FOUND };
const TUNED: Source = Source { cpu_partial: 256, min_partial: 9, ..PATCHED };
/// Not tuned: the source has "Without SLUB tuning, same performance comes with kernel cmdline slab_nomerge".
const NOMERGE: Source = Source { merge: false, ..PATCHED };
/// Taken in bulk as well.
const BULK: Source = Source { mode: HeadCacheMode::Bulk, ..FOUND };

/// The size of the source's heads, of which a slab of a page has 16. A head of netmem takes 64 bytes.
const LARGE: usize = 256;

const fn large(of: Source) -> Source {
    Source { bytes: LARGE, ..of }
}

/// The reply's array, whose size it does not give. Half of a full one is freed.
const fn ready(size: usize, refill: usize) -> Source {
    Source { mode: HeadCacheMode::TwoSided, size, refill, free: size / 2, merge: false, ..FOUND }
}

const SHEAF: Source = Source { layer: Layer::Sheaf, merge: false, ..FOUND };

const fn kind(name: &'static str, what: &'static str, free: Free, heads: Option<Source>) -> Kind {
    Kind { name, what, free, density: Density::Half, heads, published: None }
}

/// A variant of heads alone, whose slabs are shared to another degree.
const fn shared(name: &'static str, what: &'static str, density: Density, heads: Source) -> Kind {
    Kind { density, ..kind(name, what, Free::Single, Some(heads)) }
}

pub(super) const VARIANTS: &[Kind] = &[
    Kind {
        published: Some((2_043_575.0, "one kmem_cache_free() per packet")),
        ..kind("netmem/base", "cpu_slab, each", Free::Single, Some(FOUND))
    },
    Kind {
        published: Some((2_090_522.0, "bulk free at TX completion with detached freelists")),
        ..kind("netmem/patched", "cpu_slab, freed in bulk", Free::Single, Some(PATCHED))
    },
    Kind {
        published: Some((2_124_217.0, "bulk free, tuned: cpu_partial 256 and min_partial 9")),
        ..kind("netmem/tuned", "cpu_slab, freed in bulk, tuned", Free::Single, Some(TUNED))
    },
    Kind {
        published: Some((2_121_824.0, "bulk free, slab_nomerge, without tuning")),
        ..kind("netmem/nomerge", "cpu_slab, freed in bulk, not merged", Free::Single, Some(NOMERGE))
    },
    kind("netmem/collected", "cpu_slab, freed in bulk", Free::Bulk, Some(PATCHED)),
    kind("netmem/collected-nomerge", "cpu_slab, freed in bulk, not merged", Free::Bulk, Some(NOMERGE)),
    kind("netmem/bulk", "cpu_slab, bulk", Free::Bulk, Some(BULK)),
    kind(
        "netmem/bulk-nomerge",
        "cpu_slab, bulk, not merged",
        Free::Bulk,
        Some(Source { merge: false, ..BULK }),
    ),
    kind("netmem/ready-8", "cpu_slab, ready 64/8/32", Free::Bulk, Some(ready(64, 8))),
    kind("netmem/ready-16", "cpu_slab, ready 64/16/32", Free::Bulk, Some(ready(64, 16))),
    kind("netmem/ready-32", "cpu_slab, ready 64/32/32", Free::Bulk, Some(ready(64, 32))),
    // Today's array of Linux, which frees a quarter.
    kind(
        "netmem/ready-128",
        "cpu_slab, ready 128/32/32",
        Free::Bulk,
        Some(Source { free: 32, ..ready(128, 32) }),
    ),
    kind("netmem/ready-128-8", "cpu_slab, ready 128/8/64", Free::Bulk, Some(ready(128, 8))),
    kind("netmem/ready-128-16", "cpu_slab, ready 128/16/64", Free::Bulk, Some(ready(128, 16))),
    kind("netmem/ready-256-8", "cpu_slab, ready 256/8/128", Free::Bulk, Some(ready(256, 8))),
    kind("netmem/ready-256-16", "cpu_slab, ready 256/16/128", Free::Bulk, Some(ready(256, 16))),
    shared("netmem/base-eighth", "cpu_slab, each", Density::Eighth, FOUND),
    shared("netmem/patched-eighth", "cpu_slab, freed in bulk", Density::Eighth, PATCHED),
    shared("netmem/base-alone", "cpu_slab, each", Density::Alone, FOUND),
    shared("netmem/patched-alone", "cpu_slab, freed in bulk", Density::Alone, PATCHED),
    shared("netmem/base-256", "cpu_slab, each, 256 bytes", Density::Half, large(FOUND)),
    shared("netmem/patched-256", "cpu_slab, freed in bulk, 256 bytes", Density::Half, large(PATCHED)),
    shared("netmem/tuned-256", "cpu_slab, freed in bulk, tuned, 256 bytes", Density::Half, large(TUNED)),
    shared(
        "netmem/nomerge-256",
        "cpu_slab, freed in bulk, not merged, 256 bytes",
        Density::Half,
        large(NOMERGE),
    ),
    kind("netmem/sheaf-base", "sheaf, each", Free::Single, Some(SHEAF)),
    kind("netmem/sheaf-bulk", "sheaf, bulk", Free::Bulk, Some(Source { mode: HeadCacheMode::Bulk, ..SHEAF })),
    kind("netmem/frames-base", "none", Free::Single, None),
    kind("netmem/frames-bulk", "none", Free::Bulk, None),
];

impl Kind {
    /// Returns how heads are made. None if frames have no heads.
    pub(super) fn heads(&self) -> Option<HeadCacheConfig> {
        let heads = self.heads?;
        let Source { mode, size, refill, free, .. } = heads;
        let cache = cache(self.name, heads);
        Some(HeadCacheConfig { cache, mode, size, refill, free, ..HeadCacheConfig::default() })
    }

    /// Returns the parameters of the heads for the rows, from the configuration itself and not from its name.
    pub(super) fn settings(&self) -> Params {
        let Some(HeadCacheConfig { cache, mode, .. }) = self.heads() else { return Params::new() };
        let layer = if cache.layer == Layer::CpuSlab { "cpu_slab" } else { "sheaf" };
        let heads = match mode {
            HeadCacheMode::Each => "one by one",
            HeadCacheMode::Bulk => "in bulk",
            HeadCacheMode::FlushOnly => "collected",
            HeadCacheMode::TwoSided => "ready array",
        };
        let mut settings = params([
            ("layer", layer.into()),
            ("form", heads.into()),
            ("min_partial", cache.min_partial.into()),
            ("merge", cache.merge.into()),
            ("head_bytes", cache.size_min.into()),
        ]);
        if cache.merge {
            settings.insert("neighbours_one_of".to_owned(), self.density.one_of().into());
        }
        if let Some(objects) = cache.cpu_partial {
            settings.insert("cpu_partial".to_owned(), objects.into());
        }
        settings
    }

    /// Returns the figure of the source.
    pub(super) fn published(&self) -> Option<Published> {
        let (pps, what) = self.published?;
        let of = format!(
            "Linux 4.1.0-mmotm, one core of an i7-4790K at 4 GHz, IPv4 forwarding of one UDP flow, {what}"
        );
        Some(Published { value: pps, unit: "pps".to_owned(), of })
    }
}

fn cache(name: &str, heads: Source) -> CacheConfig {
    let Source { layer, cpu_partial, min_partial, merge, bytes, .. } = heads;
    let partial = (layer == Layer::CpuSlab).then_some(cpu_partial);
    let (name, cpu_partial, min_partial) = (name.to_owned(), partial, Some(min_partial));
    CacheConfig { name, layer, cpu_partial, min_partial, merge, size_min: bytes, ..CacheConfig::default() }
}

/// Returns the settings of all merged caches.
pub(super) fn merged() -> Vec<CacheConfig> {
    [FOUND, TUNED, large(FOUND), large(TUNED)].map(|heads| cache("neighbour", heads)).into()
}
