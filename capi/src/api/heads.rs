//! Heads for packets.

use super::known::look_up;
use super::types::{list, netmem_count, netmem_heads, netmem_heads_config, netmem_worker, place, string};
use super::worker::{cold, out};
use crate::errno::{EBUSY, EINVAL};
use crate::failure::{Failure, answer};
use crate::lanes::{LANES, Lane};
use crate::objects;
use crate::registry::{HEADS, READY, ReadyPool};
use crate::sites::Site;
use crate::workers::{State, go_in};
use netmem::HeadCache;
use netmem::packet::HeadCacheConfig;
use std::ffi::c_int;
use std::sync::Arc;

/// Opens heads for packets, for all workers of the memory; `config` may be NULL.
///
/// # Safety
/// As of the module.
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
/// The name is null, or a string.
unsafe fn read(config: Option<&netmem_heads_config>) -> Result<HeadCacheConfig, Failure> {
    let mut to = HeadCacheConfig::default();
    let Some(config) = config else { return Ok(to) };
    // SAFETY: the promise of C.
    if let Some(name) = unsafe { string("name", config.name) }? {
        to.cache.name = name.to_owned();
    }
    let quarter = |asked: u32, size: usize| if asked > 0 { asked as usize } else { size.div_ceil(4) };
    to.size = if config.size > 0 { config.size as usize } else { to.size };
    (to.refill, to.free) = (quarter(config.refill, to.size), quarter(config.flush, to.size));
    Ok(to)
}

/// Closes heads, of which no packet is out or in a lane any more, and of which no ready pool is open (else -EBUSY).
#[unsafe(no_mangle)]
pub extern "C" fn netmem_heads_close(heads: netmem_heads) -> c_int {
    answer(|| {
        HEADS.close(heads.word, |_| is_unused(heads.word))?;
        Ok(0)
    })
}

/// # Errors
/// The worker or a lane has packets of these heads, or a ready pool has the heads.
fn is_unused(word: u64) -> Result<(), Failure> {
    let lanes = || LANES.count(|lane: &Arc<Lane>| lane.tally.has_of(word));
    // The lanes twice: a packet may have come out of one, and another one have gone in, while those that are out were counted.
    let (before, out, after) = (lanes(), objects::out_of(word), lanes());
    let ready = READY.count(|pool: &ReadyPool| pool.heads == word);
    let text = match (out, before.max(after), ready) {
        (0, 0, 0) => return Ok(()),
        (0, 0, ready) => format!("{ready} ready pools have these heads: close them first"),
        (0, lanes, _) => {
            format!("packets of the heads wait in {lanes} lanes: receive them first, or close those lanes")
        }
        (out, ..) => format!("{out} packets of the heads are out: free them first"),
    };
    Err(Failure::new(EBUSY, text))
}

/// Ends a poll round: heads of packets that this worker freed and another one took go back to that one now, and not when there are enough of them.
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

/// The counters of heads: writes at most `room` and returns how many there are.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_heads_counts(
    heads: netmem_heads,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    answer(|| {
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
            ("came_home", stats.came_home),
        ];
        let all = all.into_iter().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        Ok(unsafe { list(counts, room, all) })
    })
}
