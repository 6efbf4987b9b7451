//! Other caches with objects of the heads' size that are in use, as in a kernel. The slabs of merged caches are shared
//! with them.

use netmem::page::Memory;
use netmem::slab::{Cache, CacheConfig, Object};
use netmem::sync::Worker;

use crate::bench::{Bench, SetUpError};

/// The share of the objects that the neighbours hold in each slab. The source does not tell its own. The more they hold,
/// the fewer objects a slab has for a bulk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Density {
    /// Every second one.
    Half,
    /// Every eighth one.
    Eighth,
    /// None: no other cache shares the slabs.
    Alone,
}

impl Density {
    /// One of so many objects is a neighbour's; 0 for none.
    pub(super) fn one_of(self) -> usize {
        match self {
            Self::Half => 2,
            Self::Eighth => 8,
            Self::Alone => 0,
        }
    }
}

/// Objects of the slabs in which a neighbour holds some.
const OBJECTS: usize = 4_096;

/// A neighbour's object. It is padded to the size of the heads.
#[repr(align(64))]
struct Line(#[allow(dead_code, reason = "room")] [u8; 64]);

/// The neighbours in one memory.
pub(super) struct Neighbours {
    caches: Vec<(Cache<Line>, Vec<Object<Line>>)>,
    /// Objects that each of them holds.
    each: usize,
}

impl Neighbours {
    /// Makes one cache for each of these settings, and holds its share of the objects.
    pub(super) fn new(
        memory: &Memory,
        worker: &mut Worker,
        density: Density,
        settings: &[CacheConfig],
    ) -> Result<Self, SetUpError> {
        let one_of = density.one_of();
        let mut caches = Vec::new();
        for config in settings.iter().filter(|_| one_of > 0) {
            let cache = Cache::new(memory, config).map_err(SetUpError::at("neighbour"))?;
            let (mut kept, mut others) = (Vec::new(), Vec::new());
            for place in 0..OBJECTS {
                let Ok(object) = cache.alloc(worker, Line([0; 64])) else { continue };
                if place % one_of == 0 { kept.push(object) } else { others.push(object) }
            }
            cache.free_bulk(worker, &mut others);
            caches.push((cache, kept));
        }
        Ok(Self { caches, each: OBJECTS / one_of.max(1) })
    }

    /// Gives all objects back and checks that the caches are sound.
    pub(super) fn settle(self, worker: &mut Worker, bench: &mut Bench<'_>) {
        let (mut held, mut wrong) = (0, 0);
        let whole = self.caches.len() * self.each;
        for (cache, mut objects) in self.caches {
            held += objects.len();
            cache.free_bulk(worker, &mut objects);
            wrong += cache.validate().len();
        }
        bench.check(
            "neighbours: every object held, and the caches sound",
            wrong == 0 && held == whole,
            format!("{held} held beside the heads, {wrong} found wrong"),
        );
    }
}
