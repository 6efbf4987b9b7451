//! Counters and holders of pools and caches.

use super::types::{
    list, netmem_cache, netmem_count, netmem_holder, netmem_ledger, netmem_pool, netmem_sizes, place,
};
use crate::answer::answer;
use crate::registry::Source;
use crate::{objects, registry, sites, table};
use netmem::pool::{AllocStats, PoolStats, RecycleStats};
use std::collections::BTreeMap;
use std::ffi::c_int;

/// Counts the frames of a pool by state into `ledger`. The result is exact as long as no thread moves a frame
/// during the count.
/// Returns 1 if the states add up to the total, 0 if they do not.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_pool_ledger(pool: netmem_pool, ledger: *mut netmem_ledger) -> c_int {
    answer("netmem_pool_ledger", || {
        // SAFETY: the promise of C.
        let to = unsafe { place("ledger", ledger) }?;
        let ledger = registry::pool(pool.word)?.pool.ledger();
        *to = netmem_ledger {
            total: ledger.total,
            free: ledger.free,
            cached: ledger.cached,
            ready: ledger.ready,
            owned: ledger.owned,
            posted: ledger.posted,
            queued: ledger.queued,
            returning: ledger.returning,
            miscounted: ledger.miscounted,
            reserved: [0; 7],
        };
        Ok(ledger.balanced().into())
    })
}

/// Reads the counters of a pool, under the names that `netmem stat pools` shows. Writes at most `room`
/// counters to `counts`.
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_pool_counts(
    pool: netmem_pool,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    answer("netmem_pool_counts", || {
        let PoolStats { alloc, recycle, released, failed, .. } = registry::pool(pool.word)?.pool.stats();
        let AllocStats { fast, slow, slow_high_order, empty, refill, waive, .. } = alloc;
        let RecycleStats { cached, cache_full, ring, ring_full, .. } = recycle;
        let all = [
            ("alloc_fast", fast),
            ("alloc_slow", slow),
            ("alloc_slow_high_order", slow_high_order),
            ("alloc_empty", empty),
            ("alloc_refill", refill),
            ("alloc_waive", waive),
            ("recycle_cached", cached),
            ("recycle_cache_full", cache_full),
            ("recycle_ring", ring),
            ("recycle_ring_full", ring_full),
            ("released", released),
            ("failed", failed),
        ];
        let all = all.into_iter().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        unsafe { list(counts, room, all) }
    })
}

/// Lists the call sites that allocated frames of a pool that are not freed yet, the site with most frames
/// first. Covers frames that were allocated while tracing was on (netmem_trace), also if they are packets or
/// shared frames now. Each packet and each claim counts as one. Writes at most `room` entries to `holders`.
/// Returns the number of call sites, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_pool_holders(
    pool: netmem_pool,
    holders: *mut netmem_holder,
    room: usize,
) -> c_int {
    answer("netmem_pool_holders", || {
        registry::pool(pool.word)?;
        let all = by_site(pool.word, |call| {
            table::each_held(&mut *call);
            objects::each_held(|word, _| call(word as u32));
        });
        // SAFETY: the promise of C.
        unsafe { list(holders, room, all.into_iter()) }
    })
}

/// Lists the call sites that allocated objects of a cache that are not freed yet. Works as
/// netmem_pool_holders; the field `frames` is the number of objects.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_cache_holders(
    cache: netmem_cache,
    holders: *mut netmem_holder,
    room: usize,
) -> c_int {
    // SAFETY: the promise of C.
    unsafe { holders_of("netmem_cache_holders", (cache.word, Source::cache), holders, room) }
}

/// Lists the call sites that allocated bytes of size classes that are not freed yet. Works as netmem_cache_holders.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_sizes_holders(
    sizes: netmem_sizes,
    holders: *mut netmem_holder,
    room: usize,
) -> c_int {
    // SAFETY: the promise of C.
    unsafe { holders_of("netmem_sizes_holders", (sizes.word, Source::sizes), holders, room) }
}

/// Lists the call sites that allocated objects of a cache or of size classes.
///
/// # Safety
/// See the module.
unsafe fn holders_of<T>(
    call: &str,
    (word, kind): (u64, fn(Source) -> Option<T>),
    holders: *mut netmem_holder,
    room: usize,
) -> c_int {
    answer(call, || {
        registry::source(word, kind)?;
        let all = by_site(word, |call| objects::each_held(|word, _| call(word as u32)));
        // SAFETY: the promise of C.
        unsafe { list(holders, room, all.into_iter()) }
    })
}

/// The call sites at which things of this pool or cache were allocated that are still held, the site with
/// most first. `each` calls its argument with the number that the sites of each held thing are recorded
/// under.
fn by_site(of: u64, each: impl FnOnce(&mut dyn FnMut(u32))) -> Vec<netmem_holder> {
    let mut by_site = BTreeMap::new();
    each(&mut |number| {
        if let Some(sites) = sites::of(number).filter(|sites| sites.pool() == of) {
            let site = sites.given();
            let holder = netmem_holder { site: site.address(), frames: 0, reserved: [0; 2] };
            by_site.entry(site.text()).or_insert(holder).frames += 1;
        }
    });
    let mut all: Vec<netmem_holder> = by_site.into_values().collect();
    all.sort_by_key(|holder| std::cmp::Reverse(holder.frames));
    all
}
