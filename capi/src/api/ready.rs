//! HOT: ready pools, which keep packets ready for the next use.

use super::burst::words;
use super::known::look_up;
use super::packet::{free_runs, give_all, short_of_packets, take};
use super::pool::find;
use super::types::{
    list, netmem_count, netmem_heads, netmem_packet, netmem_pool, netmem_ready, netmem_worker, place,
};
use super::worker::{cold, out};
use crate::answer::answer;
use crate::misuse::{Kind, PACKET, refused};
use crate::objects::Uses;
use crate::packets;
use crate::registry::{self, HEADS, READY, ReadyPool};
use crate::sites::{self, Site};
use crate::table::Tag;
use crate::workers::{State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::packet::ReadyPackets;
use netmem::{HeadCache, Packets, Worker};
use std::ffi::{c_char, c_int};
use std::iter;

/// Opens a ready pool for packets of frames of `pool` and heads of `heads`. It keeps up to `most` freed
/// packets ready for each worker of the memory. 0: 50.
/// If `pool` runs out of frames, the ready pool gives its packets back, so the packets it keeps are not
/// missing elsewhere. If `pool` clears its frames (netmem_pool_config), the ready pool keeps no packets.
/// Returns 0, or -ENFILE if the process has 4096 ready pools.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_ready_open(
    worker: netmem_worker,
    heads: netmem_heads,
    pool: netmem_pool,
    most: u32,
    ready: *mut netmem_ready,
) -> c_int {
    const CALL: &str = "netmem_ready_open";
    cold(worker, CALL, |mut inside| {
        // SAFETY: the promise of C.
        let to = unsafe { place("ready", ready) }?;
        let State { pools, heads: known, memory_word, .. } = &mut *inside;
        let heads_of = match look_up(&HEADS, known, *memory_word, (heads.word, CALL, Site::UNKNOWN)) {
            Ok(heads) => heads,
            Err(errno) => return Ok(errno),
        };
        let pool_of = match find(pools, *memory_word, pool.word, CALL, Site::UNKNOWN) {
            Ok(pool) => pool,
            Err(errno) => return Ok(errno),
        };
        let most = if most == 0 { ReadyPackets::MAX } else { most as usize };
        let ready = ReadyPackets::new(pool_of, heads_of, most);
        to.word = READY.add(ReadyPool { ready, heads: heads.word, pool: pool.word }, *memory_word)?;
        Ok(0)
    })
}

/// Closes a ready pool. Its ready packets go back to the pool and the heads. Packets that are allocated stay
/// valid; free them with netmem_packet_free.
/// Returns 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_ready_close(ready: netmem_ready) -> c_int {
    answer("netmem_ready_close", || {
        READY.close(ready.word, |open| {
            // Workers that have looked it up drop it later. It keeps no packets from now on.
            open.ready.set_max(0);
            Ok(())
        })?;
        Ok(0)
    })
}

/// Allocates up to `n` empty packets and writes their handles to `packets`. Takes ready packets first and
/// makes the others from the pool and the heads.
/// Returns the number allocated. It is less than `n` only if the pool has no more frames or there is no
/// memory for heads.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_ready_alloc_at(
    worker: netmem_worker,
    ready: netmem_ready,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_ready_alloc";
    // SAFETY: the promise of C; a netmem_packet is one word.
    let (site, places) = unsafe { (Site::new(site), words(packets.cast::<u64>(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { pools, ready: known, heads, packets, worker, tag, uses, held, memory_word, .. } =
        &mut *inside;
    let (from, places) = match (look_up(&READY, known, *memory_word, (ready.word, CALL, site)), places) {
        (Ok(from), Ok(places)) => (from, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    if !registry::is_pool(from.pool) {
        return refused(Kind::Closed, CALL, "pool", from.pool, site);
    }
    let heads_of = match look_up(&HEADS, heads, *memory_word, (from.heads, CALL, site)) {
        Ok(heads) => heads,
        Err(errno) => return errno,
    };
    let got = match &mut *places {
        [place] if uses.reserve(1) => {
            let word = from.ready.get(worker).map(|packet| packets::give(uses, tag, packet, from.heads));
            word.map(|word| *place = word).into_iter().count()
        }
        places => alloc(from, (heads_of, worker), (uses, tag), packets, places),
    };
    if got < places.len()
        && let Ok(pool) = find(pools, *memory_word, from.pool, CALL, site)
    {
        short_of_packets(pool, worker, CALL);
    }
    *held += got as u64;
    sites::note_all_given(&places[..got], from.pool, site);
    got as c_int
}

/// Allocates packets, ready ones first. Returns the number allocated.
#[inline(always)]
fn alloc(
    from: &ReadyPool,
    (heads, worker): (&HeadCache, &mut Worker),
    (uses, tag): (&mut Uses, &mut Tag),
    packets: &mut Packets,
    places: &mut [u64],
) -> usize {
    let mut got = 0;
    for places in places.chunks_mut(BATCH_MAX) {
        from.ready.get_burst(worker, packets, places.len());
        let came = give_all((packets, from.heads), (uses, tag), (heads, worker), places);
        got += came;
        if came < places.len() {
            break;
        }
    }
    got
}

/// Frees `n` packets. A packet stays ready if it is one unshared frame of the pool of `ready` and the worker
/// has room for another ready packet. Other packets are freed as by netmem_packet_free. A packet of other
/// heads is refused with -EXDEV and stays with the caller.
/// Returns 0, or the negative errno of the first refused handle.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_ready_free_at(
    worker: netmem_worker,
    ready: netmem_ready,
    packets: *const netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_ready_free";
    // SAFETY: the promise of C; they are only read, and the word is all that a packet is.
    let (site, words) = unsafe { (Site::new(site), words(packets.cast_mut().cast(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { ready: known, packets, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    let (to, words) = match (look_up(&READY, known, *memory_word, (ready.word, CALL, site)), words) {
        (Ok(to), Ok(words)) => (to, words),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    if let [one] = &*words {
        return match take(uses, tag, *one, Some(to.heads)) {
            Ok((packet, _)) => {
                *held -= 1;
                if sites::is_on() {
                    sites::note_ended(iter::once(*one), site);
                }
                to.ready.free(worker, packet);
                0
            }
            Err(kind) => refused(kind, CALL, PACKET, *one, site),
        };
    }
    free_runs((uses, tag, held), (words, Some(to.heads)), packets, (CALL, site), |packets, _| {
        to.ready.free_bulk(worker, packets);
    })
}

/// Gives the ready packets of all workers back to the pool and the heads.
/// Returns the number of packets given back.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_ready_drain(worker: netmem_worker, ready: netmem_ready) -> c_int {
    const CALL: &str = "netmem_ready_drain";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { ready: known, worker, memory_word, .. } = &mut *inside;
    match look_up(&READY, known, *memory_word, (ready.word, CALL, Site::UNKNOWN)) {
        Ok(from) => from.ready.drain(worker) as c_int,
        Err(errno) => errno,
    }
}

/// Reads the counters of a ready pool. Writes at most `room` counters to `counts`.
/// Returns the number of counters, which may be larger than `room`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_ready_counts(
    ready: netmem_ready,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    answer("netmem_ready_counts", || {
        let stats = READY.get(ready.word)?.0.ready.stats();
        let all = [
            ("now", stats.now),
            ("max", stats.max),
            ("taken", stats.taken),
            ("kept", stats.kept),
            ("missed", stats.missed),
            ("passed", stats.passed),
            ("released", stats.released),
        ];
        let all = all.into_iter().map(|(name, value)| netmem_count::new(name, value));
        // SAFETY: the promise of C.
        unsafe { list(counts, room, all) }
    })
}
