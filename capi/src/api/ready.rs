//! HOT: ready pools.

use super::burst::words;
use super::known::look_up;
use super::packet::{give_all, note_given, take};
use super::pool::find;
use super::types::{
    list, netmem_count, netmem_heads, netmem_packet, netmem_pool, netmem_ready, netmem_worker, place,
};
use super::worker::{cold, out};
use crate::failure::{Failure, answer, first_of};
use crate::misuse::{Kind, PACKET, refused};
use crate::objects::Uses;
use crate::packets;
use crate::registry::{self, HEADS, READY, ReadyPool};
use crate::sites::{self, Site};
use crate::table::{End, Tag};
use crate::workers::{State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::packet::ReadyPackets;
use netmem::{HeadCache, Packets, Worker};
use std::ffi::{c_char, c_int};
use std::iter;

/// Opens a ready pool: of packets of frames of `pool` and of these heads it has up to `most` ready for each worker of the memory; 0: 50. A pool that is short
/// of frames gets those that are ready, so none is missing elsewhere; one that clears its frames has none ready.
///
/// # Safety
/// As of the module.
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
        let found = look_up(&HEADS, known, *memory_word, (heads.word, CALL, Site::UNKNOWN));
        let heads_of =
            found.map_err(|errno| Failure::new(-errno, "the heads are none of this worker's memory"))?;
        let found = find(pools, *memory_word, pool.word, CALL, Site::UNKNOWN);
        let pool_of =
            found.map_err(|errno| Failure::new(-errno, "the pool is none of this worker's memory"))?;
        let most = if most == 0 { ReadyPackets::MAX } else { most as usize };
        let ready = ReadyPackets::new(pool_of, heads_of, most);
        to.word = READY.add(ReadyPool { ready, heads: heads.word, pool: pool.word }, *memory_word)?;
        Ok(0)
    })
}

/// Closes a ready pool. What it had ready goes back to the pool and the heads; packets that are out stay good, and are freed by netmem_packet_free.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_ready_close(ready: netmem_ready) -> c_int {
    answer(|| {
        READY.close(ready.word, |open| {
            // Workers that know it let go of it later: it has none ready from now on.
            open.ready.set_max(0);
            Ok(())
        })?;
        Ok(0)
    })
}

/// Takes up to `n` empty packets, ready ones first; the others are made. Returns how many, which are fewer only when the pool has no more frames or the
/// memory none for heads.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_ready_alloc_at(
    worker: netmem_worker,
    ready: netmem_ready,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_ready_alloc";
    // SAFETY: the promise of C.
    let (site, places) = unsafe { (Site::new(site), words(packets, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { ready: known, heads, packets, worker, tag, uses, held, memory_word, .. } = &mut *inside;
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
            word.map(|word| place.word = word).into_iter().count()
        }
        places => alloc(from, (heads_of, worker), (uses, tag), packets, places),
    };
    *held += got as u64;
    note_given(&places[..got], from.pool, site);
    got as c_int
}

/// Takes packets, ready ones first; how many.
#[inline(always)]
fn alloc(
    from: &ReadyPool,
    (heads, worker): (&HeadCache, &mut Worker),
    (uses, tag): (&mut Uses, &mut Tag),
    packets: &mut Packets,
    places: &mut [netmem_packet],
) -> usize {
    let mut got = 0;
    for places in places.chunks_mut(BATCH_MAX) {
        from.ready.get_bulk(worker, packets, places.len());
        let came = give_all((packets, from.heads), (uses, tag), (heads, worker), places);
        got += came;
        if came < places.len() {
            break;
        }
    }
    got
}

/// Frees packets, of which those stay ready that are one frame of the ready pool's pool, theirs alone, as far as there is room; the others go home as by
/// netmem_packet_free. Returns as that does; packets of other heads are refused (-EXDEV), and stay with the caller.
///
/// # Safety
/// As of the module.
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
    let (mut first, mut left) = (0, &*words);
    while let [word, rest @ ..] = left {
        match packets::take_run(uses, tag, (left, End::Freed), Some(to.heads), packets) {
            Ok((n, _)) => {
                if sites::is_on() {
                    sites::note_ended(left[..n].iter().copied(), site);
                }
                *held -= n as u64;
                to.ready.free_bulk(worker, packets);
                left = &left[n..];
            }
            Err(kind) => {
                first = first_of(first, || refused(kind, CALL, PACKET, *word, site));
                left = rest;
            }
        }
    }
    first
}

/// Gives all packets that are ready, with all workers, back to the pool and the heads; returns how many.
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

/// The counters of a ready pool: writes at most `room` and returns how many there are.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_ready_counts(
    ready: netmem_ready,
    counts: *mut netmem_count,
    room: usize,
) -> c_int {
    answer(|| {
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
        Ok(unsafe { list(counts, room, all) })
    })
}
