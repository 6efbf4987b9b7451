//! HOT: allocates, converts and frees packets in bursts.

use super::burst::words;
use super::known::look_up;
use super::pool::{find, short_of};
use super::transfer::pass_on;
use super::types::{netmem_frame, netmem_heads, netmem_packet, netmem_pool, netmem_worker};
use super::worker::out;
use crate::errno::{EBUSY, ENOMEM};
use crate::failure::{Failure, first_of, short};
use crate::misuse::{FRAME, Kind, PACKET, refused};
use crate::objects::{self, Uses, What};
use crate::opened::Known;
use crate::packets;
use crate::registry::HEADS;
use crate::sites::{self, Site};
use crate::table::{End, HOLDER, Tag};
use crate::workers::{Inside, State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, HeadCache, Packets, Pool, Worker};
use std::ffi::{c_char, c_int};
use std::iter;

/// Allocates up to `n` empty packets, each a frame of `pool` with a head of `heads`, and writes their handles
/// to `packets`.
/// Returns the number allocated. It is less than `n` only if the pool has no more frames or there is no
/// memory for heads: netmem_last_errno is ENOBUFS or ENOMEM, as for netmem_alloc.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_alloc_at(
    worker: netmem_worker,
    heads: netmem_heads,
    pool: netmem_pool,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_alloc";
    // SAFETY: the promise of C; a netmem_packet is one word.
    let (site, places) = unsafe { (Site::new(site), words(packets.cast::<u64>(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { pools, heads: known, packets, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    let (heads_of, pool_of, places) = match (
        look_up(&HEADS, known, *memory_word, (heads.word, CALL, site)),
        find(pools, *memory_word, pool.word, CALL, site),
        places,
    ) {
        (Ok(heads), Ok(pool), Ok(places)) => (heads, pool, places),
        (Err(errno), ..) | (_, Err(errno), _) | (.., Err(errno)) => return errno,
    };
    let got = match &mut *places {
        // A case of its own, because one packet needs no arrays on the stack.
        [place] if uses.reserve(1) => {
            let made = heads_of.alloc(worker, pool_of);
            let word = made.map(|packet| packets::give(uses, tag, packet, heads.word));
            word.map(|word| *place = word).into_iter().count()
        }
        places => alloc((heads_of, heads.word), (pool_of, worker), (uses, tag), packets, places),
    };
    if got < places.len() {
        short_of_packets(pool_of, worker, CALL);
    }
    *held += got as u64;
    sites::note_all_given(&places[..got], pool.word, site);
    got as c_int
}

/// Stores why there were fewer packets than a call asked for: the pool has no frame, or there is none to make a head.
#[cold]
pub fn short_of_packets(pool: &Pool, worker: &mut Worker, call: &str) {
    match pool.alloc(worker) {
        Some(frame) => {
            frame.free(worker);
            short(ENOMEM, format_args!("{call}: the memory has no more for heads"));
        }
        None => short_of(pool, call),
    }
}

/// Allocates packets. Returns the number allocated.
#[inline(never)]
fn alloc(
    (heads, of): (&HeadCache, u64),
    (pool, worker): (&Pool, &mut Worker),
    (uses, tag): (&mut Uses, &mut Tag),
    packets: &mut Packets,
    places: &mut [u64],
) -> usize {
    let mut got = 0;
    for places in places.chunks_mut(BATCH_MAX) {
        let mut frames = Batch::new();
        pool.alloc_burst(worker, &mut frames, places.len());
        heads.attach_burst(worker, &mut frames, packets);
        frames.free(worker);
        let came = give_all((packets, of), (uses, tag), (heads, worker), places);
        got += came;
        if came < places.len() {
            break;
        }
    }
    got
}

/// Gives out packets, at most as many as `places` has room for, and empties `packets`. Returns the number
/// given out.
#[inline(always)]
pub fn give_all(
    (packets, of): (&mut Packets, u64),
    (uses, tag): (&mut Uses, &mut Tag),
    (heads, worker): (&HeadCache, &mut Worker),
    places: &mut [u64],
) -> usize {
    if !uses.reserve(packets.len()) {
        heads.free_bulk(worker, packets);
        return 0;
    }
    packets::give_all(uses, tag, packets, |_| of, places)
}

/// Returns the pool from which the thing that this handle names was allocated, as far as tracing recorded it;
/// otherwise 0.
#[cold]
pub fn traced_pool(word: u64) -> u64 {
    sites::of(word as u32).map_or(0, sites::Sites::pool)
}

/// Converts up to `n` frames to packets, from the front of the array, without a copy: each frame gets a head
/// of `heads`. Writes the handles of the packets to `packets`, which must be another array. The handles of
/// the frames become invalid.
/// Returns the number converted. It is less than `n` if there is no memory for a head; the remaining frames
/// stay frames.
/// The call works in groups of 64 frames and stops before a group that contains an invalid handle. If that is
/// the first group, returns the negative errno of the handle.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_from_frames_at(
    worker: netmem_worker,
    heads: netmem_heads,
    frames: *const netmem_frame,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_from_frames";
    // SAFETY: the promise of C; the frames are only read, and a netmem_packet is one word.
    let (site, frames, places) =
        unsafe { (Site::new(site), words(frames.cast_mut(), n), words(packets.cast::<u64>(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { heads: known, packets, worker, tag, uses, memory_word, .. } = &mut *inside;
    let (heads_of, frames, places) =
        match (look_up(&HEADS, known, *memory_word, (heads.word, CALL, site)), frames, places) {
            (Ok(heads), Ok(frames), Ok(places)) => (heads, frames, places),
            (Err(errno), ..) | (_, Err(errno), _) | (.., Err(errno)) => return errno,
        };
    let mut made = 0;
    for (burst, places) in frames.chunks(BATCH_MAX).zip(places.chunks_mut(BATCH_MAX)) {
        let mut batch = Batch::new();
        if let Err((word, kind)) = super::port::take(tag, burst, &mut batch, End::Moved) {
            let errno = refused(kind, CALL, FRAME, word, site);
            return if made == 0 { errno } else { made as c_int };
        }
        let enough = uses.reserve(burst.len());
        let came = if enough { heads_of.attach_burst(worker, &mut batch, packets) } else { 0 };
        // Frames for which there was no head stay frames.
        burst[came..].iter().zip(batch.drain()).for_each(|(frame, took)| tag.restore(frame.word, took));
        give_all((packets, heads.word), (uses, tag), (heads_of, worker), places);
        if sites::is_on() {
            for (frame, packet) in burst[..came].iter().zip(&places[..came]) {
                sites::note_ended(iter::once(frame.word), site);
                sites::note_given(iter::once(*packet), traced_pool(frame.word), site);
            }
        }
        made += came;
        if came < burst.len() {
            short(ENOMEM, format_args!("netmem_packet_from_frames: the memory has no more for heads"));
            break;
        }
    }
    made as c_int
}

/// Converts up to `n` packets to frames, from the front of the array, without a copy: the heads are freed.
/// Writes the handles of the frames to `frames`, which must be another array. The handles of the packets
/// become invalid.
/// Returns the number converted. Stops at the first packet whose handle is invalid, that has several parts,
/// or whose bytes are shared. If that is the first packet, returns the negative errno: -EBUSY for several
/// parts or shared bytes. netmem_packet_make_sendable converts such a packet to one frame.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_into_frames_at(
    worker: netmem_worker,
    packets: *const netmem_packet,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_into_frames";
    // SAFETY: the promise of C; the packets are only read.
    let (site, packets, places) =
        unsafe { (Site::new(site), words(packets.cast_mut(), n), words(frames, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let (packets, places) = match (packets, places) {
        (Ok(packets), Ok(places)) => (packets, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let State { heads: known, worker, tag, uses, memory_word, .. } = &mut *inside;
    for (at, (packet, place)) in packets.iter().zip(places).enumerate() {
        let errno = match into_frame((known, *memory_word), worker, (uses, tag), packet.word) {
            Ok(frame) => {
                place.word = tag.give(frame);
                if sites::is_on() {
                    sites::note_ended(iter::once(packet.word), site);
                    sites::note_given(iter::once(place.word), traced_pool(packet.word), site);
                }
                continue;
            }
            Err(Some(kind)) => refused(kind, CALL, PACKET, packet.word, site),
            Err(None) => not_one_frame(CALL),
        };
        return if at == 0 { errno } else { at as c_int };
    }
    packets.len() as c_int
}

/// The failure of a call that needs a packet of one unshared frame.
#[cold]
pub fn not_one_frame(call: &str) -> c_int {
    let text = format!(
        "{call}: the packet has several parts, or others read its bytes too: call netmem_packet_make_sendable, which makes it one frame"
    );
    Failure::new(EBUSY, text).record()
}

/// Ends the use of a packet and returns the one frame that it consists of.
///
/// # Errors
/// The reason why the handle is invalid; None if the packet has several parts or its bytes are shared.
#[inline(always)]
fn into_frame(
    (known, memory): (&mut Known<HeadCache>, u64),
    worker: &mut Worker,
    (uses, tag): (&mut Uses, &mut Tag),
    word: u64,
) -> Result<netmem::Frame, Option<Kind>> {
    let (packet, of) = packets::lend(tag, word, Kind::UsedAfterMove)?;
    let Some(heads) = HEADS.of_part(known, memory, of) else {
        packets::put_back(tag, word, packet);
        return Err(Some(Kind::Closed));
    };
    match heads.detach(worker, packet) {
        Ok(frame) => {
            packets::end(uses, tag, word, End::Moved);
            Ok(frame)
        }
        Err(packet) => {
            packets::put_back(tag, word, packet);
            Err(None)
        }
    }
}

/// Frees `n` packets with all their parts, of any heads. Frees each packet whose handle is valid, even if
/// other handles in the array are not.
/// Returns 0, or the negative errno of the first invalid handle.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_free_at(
    worker: netmem_worker,
    packets: *const netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; they are only read, and the word is all that a packet is.
    let (site, packets) = unsafe { (Site::new(site), words(packets.cast_mut().cast(), n)) };
    match packets {
        Ok([one]) if !sites::is_on() => free_one(worker, *one, site),
        packets => free((worker, "netmem_packet_free", site), packets, None),
    }
}

/// [`free`] for one packet.
#[inline(always)]
fn free_one(worker: netmem_worker, word: u64, site: Site) -> c_int {
    const CALL: &str = "netmem_packet_free";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { heads: known, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    match packets::take(uses, tag, word, End::Freed) {
        Ok((packet, of)) => {
            *held -= 1;
            match HEADS.of_part(known, *memory_word, of) {
                Some(heads) => heads.free(worker, packet),
                // The heads were closed: frees the packet on the slow path.
                None => drop(packet),
            }
            0
        }
        Err(kind) => refused(kind, CALL, PACKET, word, site),
    }
}

/// Frees `n` packets, all of which must belong to `heads`. Works as netmem_packet_free, but refuses a packet
/// of other heads with -EXDEV; that packet stays with the caller.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_heads_free_at(
    worker: netmem_worker,
    heads: netmem_heads,
    packets: *const netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; they are only read, and the word is all that a packet is.
    let (site, packets) = unsafe { (Site::new(site), words(packets.cast_mut().cast(), n)) };
    free((worker, "netmem_heads_free", site), packets, Some(heads.word))
}

#[inline(never)]
fn free(
    (worker, call, site): (netmem_worker, &str, Site),
    words: Result<&mut [u64], c_int>,
    heads: Option<u64>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { heads: known, packets, worker, tag, uses, held, memory_word, .. } = &mut *inside;
    let heads = heads.map(|heads| look_up(&HEADS, known, *memory_word, (heads, call, site)).map(|_| heads));
    let (heads, words) = match (heads.transpose(), words) {
        (Ok(heads), Ok(words)) => (heads, words),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    free_runs((uses, tag, held), (words, heads), packets, (call, site), |packets, of| {
        send((known, *memory_word), of, packets, worker);
    })
}

/// Ends the uses of packets, which must have these heads if they are given. Calls `free` with each run of packets that have the
/// same heads, and with the handle of these heads; `free` takes all of them. Returns 0, or the negative errno of the first refused handle.
#[inline(always)]
pub fn free_runs(
    (uses, tag, held): (&mut Uses, &mut Tag, &mut u64),
    (mut left, heads): (&[u64], Option<u64>),
    packets: &mut Packets,
    (call, site): (&str, Site),
    mut free: impl FnMut(&mut Packets, u64),
) -> c_int {
    let mut first = 0;
    while let [word, rest @ ..] = left {
        match packets::take_run(uses, tag, (left, End::Freed), heads, packets) {
            Ok((n, of)) => {
                if sites::is_on() {
                    sites::note_ended(left[..n].iter().copied(), site);
                }
                *held -= n as u64;
                free(packets, of);
                left = &left[n..];
            }
            Err(kind) => {
                first = first_of(first, || refused(kind, call, PACKET, *word, site));
                left = rest;
            }
        }
    }
    first
}

/// Ends the use that a handle names and returns its packet. Refuses an invalid handle, and a packet of heads
/// other than `heads`.
#[inline(always)]
pub fn take(
    uses: &mut Uses,
    tag: &mut Tag,
    word: u64,
    heads: Option<u64>,
) -> Result<(netmem::Packet, u64), Kind> {
    let is_others = |heads| objects::look(tag, What::Packet, word).is_some_and(|claim| claim.of != heads);
    if heads.is_some_and(is_others) {
        return Err(Kind::WrongCache);
    }
    packets::take(uses, tag, word, End::Freed)
}

/// Frees packets to the heads that they belong to.
#[inline(always)]
fn send((known, memory): (&mut Known<HeadCache>, u64), of: u64, packets: &mut Packets, worker: &mut Worker) {
    if packets.is_empty() {
        return;
    }
    match HEADS.of_part(known, memory, of) {
        Some(heads) => heads.free_bulk(worker, packets),
        // The heads were closed: frees the packet on the slow path.
        None => packets.drain().for_each(drop),
    }
}

/// Detaches `n` packets from the worker, so that another worker can attach them. Works as netmem_detach.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_detach_at(
    worker: netmem_worker,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_packet is one word.
    let (site, packets) = unsafe { (Site::new(site), words(packets.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| {
        objects::detach(tag, What::Packet, word).ok_or_else(|| objects::why(What::Packet, word))
    };
    pass_on((worker, "netmem_packet_detach", PACKET, site), packets, pass, |inside, n| inside.held -= n)
}

/// Attaches `n` detached packets to the worker. Works as netmem_attach.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_attach_at(
    worker: netmem_worker,
    packets: *mut netmem_packet,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_packet is one word.
    let (site, packets) = unsafe { (Site::new(site), words(packets.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| {
        objects::attach(tag, What::Packet, word).ok_or_else(|| objects::why(What::Packet, word))
    };
    pass_on((worker, "netmem_packet_attach", PACKET, site), packets, pass, |inside, n| inside.held += n)
}

/// Ends all uses of packets that the worker holds. Returns the number ended.
#[cold]
pub fn reclaim(inside: &mut Inside) -> usize {
    let State { heads: known, packets, worker, tag, uses, held, memory_word, .. } = &mut **inside;
    let (mut words, holder) = (Vec::new(), tag.holder());
    objects::each_held(|word, _| words.extend((word & HOLDER == holder).then_some(word)));
    let mut reclaimed = 0;
    for word in words {
        let Ok((packet, of)) = packets::take(uses, tag, word, End::Reclaimed) else { continue };
        drop(packets.push(packet));
        send((known, *memory_word), of, packets, worker);
        reclaimed += 1;
    }
    *held = held.saturating_sub(reclaimed as u64);
    reclaimed
}
