//! Opens and closes caches of objects and size classes.

use super::types::{
    flag, given, list, netmem_cache, netmem_count, netmem_sizes, netmem_worker, place, string, unreserved,
};
use super::worker::cold;
use crate::answer::answer;
use crate::errno::{EBUSY, EINVAL};
use crate::failure::{Failure, several};
use crate::objects;
use crate::registry::{self, CACHES, Source};
use netmem::limits::{LOCAL_ORDER_MAX, PAGE_SIZE};
use netmem::slab::{CacheConfig, CacheError, RawCache, SizeClasses};
use std::ffi::{c_char, c_int};

/// Options of netmem_cache_open.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct netmem_cache_config {
    /// Name in reports. NULL: "cache".
    pub name: *const c_char,
    /// Bytes of an object, 1 to 32768.
    pub size: u32,
    /// Alignment of an object's address in bytes, a power of two up to 32768. 0: 8.
    pub align: u32,
    /// 1: share no slabs with other caches. 0: caches of the same memory with objects of about the same size
    /// may share their slabs, which takes less memory. They then have the same counters (netmem_cache_counts).
    pub no_merge: u32,
    /// Must be 0.
    pub reserved: [u32; 5],
}

/// Maximum bytes of an object of a cache: those of a slab.
const OBJECT_MAX: usize = PAGE_SIZE << LOCAL_ORDER_MAX;

/// Opens a cache of objects of one size. All workers of the memory can use it.
/// Returns 0, -EFAULT if `config` is NULL, -EINVAL if the options are not usable or the memory is lent
/// (netmem_memory_lend) or lies in a file (`in_file`), or -ENFILE if the process has 4096 caches.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_cache_open(
    worker: netmem_worker,
    config: *const netmem_cache_config,
    cache: *mut netmem_cache,
) -> c_int {
    cold(worker, "netmem_cache_open", |inside| {
        // SAFETY: the promise of C.
        let (config, to) = unsafe { (given("config", config)?, place("cache", cache)?) };
        unreserved("netmem_cache_config", &config.reserved)?;
        // SAFETY: the promise of C.
        let name = unsafe { string("name", config.name) }?.unwrap_or("cache").to_owned();
        let align = if config.align == 0 { 8 } else { config.align as usize };
        if config.size == 0 || !align.is_power_of_two() {
            return Err(Failure::invalid("a cache: give a size, and an alignment that is a power of two"));
        }
        let with = CacheConfig {
            name,
            merge: !flag("netmem_cache_config.no_merge", config.no_merge)?,
            ..CacheConfig::default()
        };
        let made = RawCache::new(&inside.memory, config.size as usize, align, &with);
        let source = Source::Cache(made.map_err(|error| failure(config.size, error))?, config.size);
        to.word = CACHES.add(source, inside.memory_word)?;
        Ok(0)
    })
}

/// The failure of a cache that could not be made.
#[cold]
fn failure(size: u32, error: CacheError) -> Failure {
    match error {
        CacheError::Size { .. } => Failure::invalid(format!(
            "objects of {size} bytes: a cache has objects of at most {OBJECT_MAX}: give less, or take bytes (netmem_sizes_alloc) or pages (netmem_page_alloc)"
        )),
        error => Failure::new(EINVAL, error),
    }
}

/// Closes a cache.
/// Returns 0, or -EBUSY if objects of the cache are still allocated.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_cache_close(cache: netmem_cache) -> c_int {
    close("netmem_cache_close", cache.word, Source::cache)
}

/// Opens a set of size classes, which allocate any number of bytes up to 4 MiB, as malloc(3) does. All
/// workers of the memory can use it. `name` is the name in reports; NULL: "sizes".
/// Returns 0, or an errno of netmem_cache_open.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_sizes_open(
    worker: netmem_worker,
    name: *const c_char,
    sizes: *mut netmem_sizes,
) -> c_int {
    cold(worker, "netmem_sizes_open", |inside| {
        // SAFETY: the promise of C.
        let (name, to) = unsafe { (string("name", name)?, place("sizes", sizes)?) };
        let with = CacheConfig { name: name.unwrap_or("sizes").to_owned(), ..CacheConfig::default() };
        let made = SizeClasses::new(&inside.memory, &with);
        let source = Source::Sizes(made.map_err(|error| failure(0, error))?);
        to.word = CACHES.add(source, inside.memory_word)?;
        Ok(0)
    })
}

/// Closes a set of size classes.
/// Returns 0, or -EBUSY if bytes of it are still allocated.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_sizes_close(sizes: netmem_sizes) -> c_int {
    close("netmem_sizes_close", sizes.word, Source::sizes)
}

fn close<T>(call: &str, word: u64, kind: fn(Source) -> Option<T>) -> c_int {
    answer(call, || {
        registry::source(word, kind)?;
        let closed = CACHES.close(word, |_| match objects::out_of(word) {
            0 => Ok(()),
            out => {
                let objects = several(out, "object", "objects");
                Err(Failure::new(EBUSY, format!("{objects} of the cache not freed: free them first")))
            }
        })?;
        // Workers that have looked it up drop it later. The free objects that they keep go back now.
        give_back(&closed);
        Ok(0)
    })
}

/// Gives the free objects that workers keep back to the cache, and slabs without objects to the memory. Call it when
/// the memory runs out, or after a time of high load.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_cache_shrink(cache: netmem_cache) -> c_int {
    answer("netmem_cache_shrink", || {
        registry::source(cache.word, Source::cache)?.shrink();
        Ok(0)
    })
}

/// Does for size classes what netmem_cache_shrink does for a cache.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_sizes_shrink(sizes: netmem_sizes) -> c_int {
    answer("netmem_sizes_shrink", || {
        shrink_classes(&registry::source(sizes.word, Source::sizes)?);
        Ok(0)
    })
}

/// Gives the free objects that workers keep back to the slabs, and empty slabs to the memory.
fn give_back(source: &Source) {
    match source {
        Source::Cache(cache, _) => cache.shrink(),
        Source::Sizes(sizes) => shrink_classes(sizes),
    }
}

fn shrink_classes(sizes: &SizeClasses) {
    sizes.classes().iter().for_each(RawCache::shrink);
}

/// Reads the counters of a cache, under the names that `netmem stat` shows. Writes at most `room` counters to
/// `counts`. Caches that share slabs have the same counters: those of all of them (netmem_cache_config.no_merge).
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_cache_counts(
    cache: netmem_cache,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    answer("netmem_cache_counts", || {
        let found = registry::source(cache.word, Source::cache)?;
        let all = found.stats().counters();
        let all = all.into_iter().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        unsafe { list(counts, room, all) }
    })
}

/// Reads the counters of size classes, under the names of netmem_cache_counts: the sums over all classes. Bytes beyond
/// 8192 have no class and are not counted: each time, they are taken from the memory as pages. Classes share slabs with
/// caches of about the same size, unless these have `no_merge`, and then count for them too. Writes at most `room`
/// counters to `counts`.
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_sizes_counts(
    sizes: netmem_sizes,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    answer("netmem_sizes_counts", || {
        let found = registry::source(sizes.word, Source::sizes)?;
        let of_each: Vec<_> = found.classes().iter().map(|class| class.stats().counters()).collect();
        let sum = |at: usize| of_each.iter().map(|counters| counters[at].1).sum();
        let names = of_each.first().into_iter().flatten().enumerate();
        let all = names.map(|(at, (name, _))| netmem_count::new(name, sum(at)));
        // SAFETY: the promise of C.
        unsafe { list(counts, room, all) }
    })
}
