//! Opens and closes heads for packets.

use super::known::look_up;
use super::types::{
    list, netmem_count, netmem_heads, netmem_heads_config, netmem_worker, place, string, unreserved,
};
use super::worker::{cold, out};
use crate::answer::answer;
use crate::errno::{EBUSY, EINVAL};
use crate::failure::{Failure, several};
use crate::lanes::{LANES, Lane};
use crate::objects;
use crate::registry::{HEADS, READY, ReadyPool};
use crate::sites::Site;
use crate::workers::{State, go_in};
use netmem::HeadCache;
use netmem::packet::HeadCacheConfig;
use std::ffi::c_int;
use std::sync::Arc;

/// Opens a cache of packet heads. All workers of the memory can use it. `config` may be NULL, which selects
/// the defaults.
/// Returns 0, -EINVAL if the options are not usable or the memory is lent (netmem_memory_lend) or lies in a
/// file (`in_file`), or -ENFILE if the process has 4096 heads.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_heads_open(
    worker: netmem_worker,
    config: *const netmem_heads_config,
    heads: *mut netmem_heads,
) -> c_int {
    cold(worker, "netmem_heads_open", |inside| {
        // SAFETY: the promise of C.
        let (to, config) = unsafe { (place("heads", heads)?, read(config.as_ref())?) };
        let made = HeadCache::with(&inside.memory, &config);
        let made = made.map_err(|error| Failure::new(EINVAL, error))?;
        to.word = HEADS.add(made, inside.memory_word)?;
        Ok(0)
    })
}

/// # Safety
/// The name is null or a string.
unsafe fn read(config: Option<&netmem_heads_config>) -> Result<HeadCacheConfig, Failure> {
    let mut to = HeadCacheConfig::default();
    let Some(config) = config else { return Ok(to) };
    unreserved("netmem_heads_config", &config.reserved)?;
    // SAFETY: the promise of C.
    if let Some(name) = unsafe { string("name", config.name) }? {
        to.cache.name = name.to_owned();
    }
    to.size = number("size", config.size, SIZE_MAX, to.size)?;
    to.refill = number("refill", config.refill, to.size, to.size.div_ceil(4))?;
    to.free = number("flush", config.flush, to.size, to.size.div_ceil(4))?;
    Ok(to)
}

/// Maximum number of free heads that each worker keeps, as netmem.h states it.
const SIZE_MAX: usize = 4096;

/// Returns the number that a field selects.
///
/// # Errors
/// It is more than `most`. The text names the field, which has another name in the library.
fn number(field: &str, asked: u32, most: usize, default: usize) -> Result<usize, Failure> {
    match asked as usize {
        0 => Ok(default),
        asked if asked <= most => Ok(asked),
        _ => Err(Failure::invalid(format!(
            "netmem_heads_config.{field} is {asked}: give 1 to {most}, or 0 for {default}"
        ))),
    }
}

/// Closes heads.
/// Returns 0, or -EBUSY if packets of these heads are still allocated or wait in a lane, or a ready pool of
/// these heads is open.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_heads_close(heads: netmem_heads) -> c_int {
    answer("netmem_heads_close", || {
        // Workers that have looked the heads up drop them later. The heads that they keep go back now.
        HEADS.close(heads.word, |_| is_unused(heads.word))?.shrink();
        Ok(0)
    })
}

/// Checks that nothing uses these heads.
/// # Errors
/// A worker holds packets of these heads, a lane has some, or a ready pool uses the heads.
fn is_unused(word: u64) -> Result<(), Failure> {
    let lanes = || LANES.count(|lane: &Arc<Lane>| lane.tally.has_of(word));
    // Counts the lanes twice: during the count of allocated packets, one packet may leave a lane and another
    // one may enter.
    let (before, out, after) = (lanes(), objects::out_of(word), lanes());
    let ready = READY.count(|pool: &ReadyPool| pool.heads == word);
    let text = match (out, before.max(after), ready) {
        (0, 0, 0) => return Ok(()),
        (0, 0, ready) => {
            format!("{} of these heads open: close them first", several(ready, "ready pool", "ready pools"))
        }
        (0, lanes, _) => {
            let lanes = several(lanes, "lane", "lanes");
            format!("packets of the heads wait in {lanes}: receive them first, or close the lanes")
        }
        (out, ..) => format!("{} of the heads not freed: free them first", several(out, "packet", "packets")),
    };
    Err(Failure::new(EBUSY, text))
}

/// Gives the free heads that workers keep, and empty slabs of heads, back to the memory.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_heads_shrink(heads: netmem_heads) -> c_int {
    answer("netmem_heads_shrink", || {
        HEADS.get(heads.word)?.0.shrink();
        Ok(0)
    })
}

/// Ends a poll round. Heads that this worker freed and another worker had taken go back to that worker now,
/// without waiting for a full batch.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_heads_end_round(worker: netmem_worker, heads: netmem_heads) -> c_int {
    const CALL: &str = "netmem_heads_end_round";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { heads: known, worker, memory_word, .. } = &mut *inside;
    match look_up(&HEADS, known, *memory_word, (heads.word, CALL, Site::UNKNOWN)) {
        Ok(heads) => {
            heads.end_round(worker);
            0
        }
        Err(errno) => errno,
    }
}

/// Reads the counters of heads. Writes at most `room` counters to `counts`.
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_heads_counts(
    heads: netmem_heads,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    answer("netmem_heads_counts", || {
        let stats = HEADS.get(heads.word)?.0.stats();
        let all = [
            ("ready", stats.ready),
            ("away", stats.away),
            ("taken", stats.taken),
            ("kept", stats.kept),
            ("refill", stats.refill),
            ("refilled", stats.refilled),
            ("flush", stats.flush),
            ("flushed", stats.flushed),
            ("cache_taken", stats.cache_taken),
            ("cache_given", stats.cache_given),
            ("sent_home", stats.sent_home),
            ("returned", stats.returned),
        ];
        let all = all.into_iter().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        unsafe { list(counts, room, all) }
    })
}
