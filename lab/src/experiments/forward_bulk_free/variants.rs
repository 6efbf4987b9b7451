//! The source of heads in each variant, and the sharing of their slabs.

use netmem::forward::Free;
use netmem::packet::{HeadCacheConfig, HeadCacheMode};
use netmem::page::Memory;
use netmem::slab::{Cache, CacheConfig, Layer, Object};
use netmem::sync::Worker;

use crate::bench::{Bench, SetUpError};
use crate::json::{Params, Published, params};

/// Objects that the neighbour holds, each between two that were free for heads.
const NEIGHBOURS: usize = 2_048;

/// One way to make and free packets.
pub(super) struct Kind {
    pub(super) name: &'static str,
    /// In words, for the rows.
    pub(super) what: &'static str,
    pub(super) free: Free,
    heads: Option<Source>,
    published: Option<(f64, &'static str)>,
}

/// The source of heads.
#[derive(Clone, Copy)]
struct Source {
    layer: Layer,
    mode: HeadCacheMode,
    /// Heads in a ready array, and taken from the cache at once.
    size: usize,
    refill: usize,
    cpu_partial: usize,
    min_partial: usize,
    merge: bool,
}

/// The source's slab layer before its change.
const FOUND: Source = Source {
    layer: Layer::CpuSlab,
    mode: HeadCacheMode::Each,
    size: 64,
    refill: 16,
    cpu_partial: 13,
    min_partial: 5,
    merge: true,
};
/// The layer after its change: freed heads are collected and freed in bulk, and taken one by one.
const PATCHED: Source = Source { mode: HeadCacheMode::FlushOnly, ..FOUND };
const TUNED: Source = Source { cpu_partial: 256, min_partial: 9, ..PATCHED };
/// Not tuned: the source has "Without SLUB tuning, same performance comes with kernel cmdline slab_nomerge".
const NOMERGE: Source = Source { merge: false, ..PATCHED };
/// Taken in bulk as well.
const BULK: Source = Source { mode: HeadCacheMode::Bulk, ..FOUND };

const fn ready(size: usize, refill: usize) -> Source {
    Source { mode: HeadCacheMode::TwoSided, size, refill, merge: false, ..FOUND }
}

const SHEAF: Source = Source { layer: Layer::Sheaf, merge: false, ..FOUND };

const fn kind(name: &'static str, what: &'static str, free: Free, heads: Option<Source>) -> Kind {
    Kind { name, what, free, heads, published: None }
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
    kind("netmem/ready-128", "cpu_slab, ready 128/32/32", Free::Bulk, Some(ready(128, 32))),
    kind("netmem/sheaf-base", "sheaf, each", Free::Single, Some(SHEAF)),
    kind("netmem/sheaf-bulk", "sheaf, bulk", Free::Bulk, Some(Source { mode: HeadCacheMode::Bulk, ..SHEAF })),
    kind("netmem/frames-base", "none", Free::Single, None),
    kind("netmem/frames-bulk", "none", Free::Bulk, None),
];

impl Kind {
    /// Returns how heads are made. None if frames have no heads.
    pub(super) fn heads(&self) -> Option<HeadCacheConfig> {
        let Source { layer, mode, size, refill, cpu_partial, min_partial, merge } = self.heads?;
        let cache = cache(self.name, layer, (cpu_partial, min_partial), merge);
        Some(HeadCacheConfig { cache, mode, size, refill, free: 32, ..HeadCacheConfig::default() })
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
        ]);
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

fn cache(name: &str, layer: Layer, (cpu_partial, min_partial): (usize, usize), merge: bool) -> CacheConfig {
    let partial = (layer == Layer::CpuSlab).then_some(cpu_partial);
    let (cpu_partial, min_partial) = (partial, Some(min_partial));
    CacheConfig { name: name.to_owned(), layer, cpu_partial, min_partial, merge, ..CacheConfig::default() }
}

/// The objects of the neighbours: as large and as aligned as a head.
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "room")] [u8; 64]);

/// Caches with objects of the heads' size that are in use, as other caches of a kernel are. If a cache may be merged,
/// its slabs are also used by these.
pub(super) struct Neighbours(Vec<(Cache<Line>, Vec<Object<Line>>)>);

impl Neighbours {
    /// Makes one cache for each setting of the merged variants, and holds every second object of its slabs.
    pub(super) fn new(memory: &Memory, worker: &mut Worker) -> Result<Self, SetUpError> {
        let mut neighbours = Vec::new();
        for partial in [(FOUND.cpu_partial, FOUND.min_partial), (TUNED.cpu_partial, TUNED.min_partial)] {
            let config = cache("neighbour", Layer::CpuSlab, partial, true);
            let cache = Cache::new(memory, &config).map_err(SetUpError::at("neighbour"))?;
            let (mut kept, mut others) = (Vec::new(), Vec::new());
            for place in 0..2 * NEIGHBOURS {
                let Ok(object) = cache.alloc(worker, Line([0; 64])) else { continue };
                if place % 2 == 0 { kept.push(object) } else { others.push(object) }
            }
            cache.free_bulk(worker, &mut others);
            neighbours.push((cache, kept));
        }
        Ok(Neighbours(neighbours))
    }

    /// Gives all objects back and checks that the caches are sound.
    pub(super) fn settle(self, worker: &mut Worker, bench: &mut Bench<'_>) {
        let (mut held, mut wrong) = (0, 0);
        for (cache, mut objects) in self.0 {
            held += objects.len();
            cache.free_bulk(worker, &mut objects);
            wrong += cache.validate().len();
        }
        bench.check(
            "neighbours: every object held, and the caches sound",
            wrong == 0 && held == 2 * NEIGHBOURS,
            format!("{held} held beside the heads, {wrong} found wrong"),
        );
    }
}
