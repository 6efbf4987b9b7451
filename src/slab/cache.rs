//! The cache's handle.

use super::barn::Barn;
use super::grow;
use super::local::{Local, REF_SHIFT, Ref};
use super::object::Object;
use super::shared::{Shared, Slabs};
use crate::limits::{LOCAL_ORDER_MAX, PAGE_SIZE};
use crate::page::Memory;
use crate::stats::{Count, Lanes};
use crate::sync::shim::{Mutex, lock};
use crate::sync::{PerWorker, Worker};
use crate::sys::clock;
use std::marker::PhantomData;
use std::sync::Arc;

/// What a cache is made with.
#[derive(Debug, Clone)]
pub struct CacheConfig {
    /// What it is called in reports.
    pub name: String,
    /// Pages in a slab, as a power of two; None chooses the smallest order that wastes at most 1/16.
    pub order: Option<u8>,
    /// Objects in a sheaf; None chooses by size as Linux does (60 small ones, 4 of a page).
    pub sheaf: Option<usize>,
    /// Empty slabs are given back only while more than this many have free objects.
    pub min_partial: usize,
}

impl Default for CacheConfig {
    fn default() -> Self {
        CacheConfig { name: "cache".into(), order: None, sheaf: None, min_partial: 5 }
    }
}

/// Why a cache could not be made.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CacheError {
    /// The objects are too large for a slab.
    #[error("objects of {size} bytes: a slab of order {order} holds fewer than 1 or more than 65535")]
    Size {
        /// Bytes of an object.
        size: usize,
        /// The slab's order.
        order: u8,
    },
    /// A tunable is out of range.
    #[error("{what} {value}: give {range}")]
    Range {
        /// Which one.
        what: &'static str,
        /// What was given.
        value: usize,
        /// What would be right.
        range: &'static str,
    },
    /// The memory is too large for the sheaves' object numbers.
    #[error("objects need a memory of at most 32 GiB, this one has {bytes} bytes")]
    Memory {
        /// Bytes of the memory.
        bytes: usize,
    },
    /// The process has 4,095 caches already.
    #[error("the process has 4095 caches already: drop one first")]
    TooMany,
}

/// One worker's counters of a cache, under SLUB's names.
#[derive(Debug, Default)]
pub(crate) struct SlabLane {
    pub(super) cached: Count,
    alloc_fastpath: Count,
    pub(super) alloc_slowpath: Count,
    free_fastpath: Count,
    pub(super) free_slowpath: Count,
    pub(super) alloc_slab: Count,
    pub(super) free_slab: Count,
    pub(super) sheaf_refill: Count,
    pub(super) sheaf_flush: Count,
    pub(super) barn_get: Count,
    pub(super) barn_put: Count,
}

/// A cache's counters, summed over the workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SlabStats {
    /// Bytes from one object to the next.
    pub object_size: u64,
    /// Objects in a slab.
    pub objs_per_slab: u64,
    /// Slabs.
    pub slabs: u64,
    /// Objects in the workers' sheaves.
    pub cached: u64,
    /// Objects in the barn's full sheaves.
    pub barn: u64,
    /// Allocations from a sheaf.
    pub alloc_fastpath: u64,
    /// Allocations that found both sheaves empty.
    pub alloc_slowpath: u64,
    /// Frees into a sheaf.
    pub free_fastpath: u64,
    /// Frees that found both sheaves full, and objects dropped.
    pub free_slowpath: u64,
    /// Slabs made.
    pub alloc_slab: u64,
    /// Slabs given back.
    pub free_slab: u64,
    /// Sheaves filled from slabs.
    pub sheaf_refill: u64,
    /// Sheaves emptied into slabs.
    pub sheaf_flush: u64,
    /// Full sheaves taken from the barn.
    pub barn_get: u64,
    /// Full sheaves put into the barn.
    pub barn_put: u64,
}

/// A named cache of `T`s.
///
/// Clone the handle freely. Objects that are out when the last one goes stay good; the last of them to come
/// home gives the cache's pages back.
#[derive(Debug)]
pub struct Cache<T> {
    handle: Arc<Handle>,
    _of: PhantomData<fn() -> T>,
}

#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Cache { handle: Arc::clone(&self.handle), _of: PhantomData }
    }
}

impl<T: Send> Cache<T> {
    /// Makes a cache over a memory's pages; slabs are made as they are needed.
    ///
    /// # Errors
    /// [`CacheError`]; nothing is left behind then.
    #[cold]
    pub fn new(memory: &Memory, config: &CacheConfig) -> Result<Cache<T>, CacheError> {
        let align = align_of::<T>().max(1 << REF_SHIFT);
        let size = size_of::<T>().max(1).next_multiple_of(align);
        let (order, per_slab) = shape(size, align, config.order)?;
        let sheaf = config.sheaf.unwrap_or_else(|| sheaf_capacity(size));
        if !(1..=1 << 16).contains(&sheaf) {
            return Err(CacheError::Range { what: "sheaf", value: sheaf, range: "1 to 65536" });
        }
        if memory.bytes() > (Ref::MAX as usize) << REF_SHIFT {
            return Err(CacheError::Memory { bytes: memory.bytes() });
        }
        let shared = Shared::register(|number| {
            Arc::new(Shared {
                name: config.name.clone(),
                number,
                size,
                order,
                per_slab,
                sheaf,
                min_partial: config.min_partial,
                secret: (clock::ticks() as u32).wrapping_mul(0x9e37_79b9) ^ u32::from(number),
                locals: PerWorker::new(memory.roster(), || Local::new(sheaf)),
                lanes: Lanes::new(memory.roster()),
                barn: Mutex::new(Barn::new()),
                slabs: Mutex::new(Slabs::new()),
                memory: memory.clone(),
            })
        });
        let shared = shared.ok_or(CacheError::TooMany)?;
        memory.roster().on_leave(&shared);
        Ok(Cache { handle: Arc::new(Handle(shared)), _of: PhantomData })
    }

    #[inline(always)]
    fn shared(&self) -> &Shared {
        &self.handle.0
    }

    /// What it is called in reports.
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// Puts `value` into an object.
    ///
    /// # Errors
    /// The value, when no free object of the cache exists and no slab can be made.
    ///
    /// # Cost
    /// From the sheaf: no locked instruction, one line of the sheaf, one of counters, and the object's own.
    #[inline]
    pub fn alloc(&self, w: &mut Worker, value: T) -> Result<Object<T>, T> {
        match self.take(w) {
            Some(object) => Ok(self.shared().claim(object, value)),
            None => Err(value),
        }
    }

    #[inline(always)]
    fn take(&self, w: &mut Worker) -> Option<Ref> {
        let shared = self.shared();
        let lane = shared.lanes.of(w);
        let hit = shared.locals.enter(w).and_then(|mut local| {
            let object = local.pop()?;
            if let Some(lane) = lane {
                lane.cached.set(local.len() as u64);
                lane.alloc_fastpath.add(1);
            }
            Some(object)
        });
        hit.or_else(|| grow::alloc(shared, w))
    }

    /// Takes the value out and gives the object back; an object of another cache goes home to its own.
    ///
    /// # Cost
    /// As [`Cache::alloc`], and the descriptor of the object's page.
    #[inline]
    pub fn free(&self, w: &mut Worker, object: Object<T>) -> T {
        let shared = self.shared();
        if !shared.owns(object.address()) {
            return object.into_value();
        }
        let (address, value) = object.take();
        let object = shared.object(address);
        let lane = shared.lanes.of(w);
        let kept = shared.locals.enter(w).is_some_and(|mut local| {
            let kept = local.push(object);
            if let Some(lane) = lane {
                lane.cached.set(local.len() as u64);
                lane.free_fastpath.add(u64::from(kept));
            }
            kept
        });
        if !kept {
            grow::free(shared, w, object);
        }
        value
    }

    /// Puts `make`'s values into `n` objects and appends them to `objects`, or does nothing; true if it did.
    #[inline]
    pub fn alloc_bulk(
        &self,
        w: &mut Worker,
        n: usize,
        objects: &mut Vec<Object<T>>,
        mut make: impl FnMut() -> T,
    ) -> bool {
        let begin = objects.len();
        for _ in 0..n {
            let Some(object) = self.take(w) else {
                let got = objects.split_off(begin);
                self.free_bulk(w, got);
                return false;
            };
            objects.push(self.shared().claim(object, make()));
        }
        true
    }

    /// Drops the values and gives the objects back.
    #[inline]
    pub fn free_bulk(&self, w: &mut Worker, objects: impl IntoIterator<Item = Object<T>>) {
        for object in objects {
            self.free(w, object);
        }
    }

    /// The cache's counters.
    pub fn stats(&self) -> SlabStats {
        let shared = self.shared();
        let sum = |pick: fn(&SlabLane) -> &Count| shared.lanes.sum(pick);
        SlabStats {
            object_size: shared.size as u64,
            objs_per_slab: u64::from(shared.per_slab),
            slabs: lock(&shared.slabs).count as u64,
            cached: sum(|lane| &lane.cached),
            barn: lock(&shared.barn).objects() as u64,
            alloc_fastpath: sum(|lane| &lane.alloc_fastpath),
            alloc_slowpath: sum(|lane| &lane.alloc_slowpath),
            free_fastpath: sum(|lane| &lane.free_fastpath),
            free_slowpath: sum(|lane| &lane.free_slowpath),
            alloc_slab: sum(|lane| &lane.alloc_slab),
            free_slab: sum(|lane| &lane.free_slab),
            sheaf_refill: sum(|lane| &lane.sheaf_refill),
            sheaf_flush: sum(|lane| &lane.sheaf_flush),
            barn_get: sum(|lane| &lane.barn_get),
            barn_put: sum(|lane| &lane.barn_put),
        }
    }
}

/// The order and the objects of a slab: the smallest order that wastes at most 1/16 of it, then 1/2.
fn shape(size: usize, align: usize, order: Option<u8>) -> Result<(u8, u16), CacheError> {
    let objects = |order: u8| (PAGE_SIZE << order) / size;
    let chosen = order.or_else(|| {
        [16, 8, 4, 2].into_iter().find_map(|part| {
            (0..=LOCAL_ORDER_MAX)
                .find(|&o| objects(o) > 0 && ((PAGE_SIZE << o) % size) * part <= PAGE_SIZE << o)
        })
    });
    let order = chosen.unwrap_or(LOCAL_ORDER_MAX);
    let fits = order <= crate::limits::ORDER_MAX && align <= PAGE_SIZE;
    match u16::try_from(objects(order.min(crate::limits::ORDER_MAX))) {
        Ok(per_slab) if fits && per_slab > 0 && per_slab < u16::MAX => Ok((order, per_slab)),
        _ => Err(CacheError::Size { size, order }),
    }
}

/// Objects in a sheaf by their size (Linux 7.0's table).
fn sheaf_capacity(size: usize) -> usize {
    match size {
        PAGE_SIZE.. => 4,
        1024.. => 12,
        256.. => 26,
        _ => 60,
    }
}
