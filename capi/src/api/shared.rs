//! HOT: shared frames, which several claims read.

use super::burst::words;
use super::known::look_up;
use super::packet::{give_all, traced_pool};
use super::transfer::pass_on;
use super::types::{netmem_frame, netmem_heads, netmem_packet, netmem_shared, netmem_worker};
use super::worker::out;
use crate::errno::{EBUSY, ENOMEM};
use crate::failure::{Failure, first_of, no_room, short};
use crate::misuse::{FRAME, Kind, SHARED, refused};
use crate::objects::{self, What};
use crate::packets;
use crate::registry::HEADS;
use crate::sites::{self, Site};
use crate::table::{End, HOLDER, Tag};
use crate::workers::{Inside, State, go_in};
use netmem::SharedFrame;
use netmem::pool::NoRoom;
use std::ffi::{c_char, c_int, c_void};
use std::{iter, ptr};

/// Records that a thing became another one of the same pool.
#[cold]
fn note_moved(from: u64, to: u64, site: Site) {
    sites::note_ended(iter::once(from), site);
    sites::note_given(iter::once(to), traced_pool(from), site);
}

/// Converts up to `n` frames to shared frames, from the front of the array. Writes their handles to `shared`,
/// which must be another array. The handles of the frames become invalid. Each shared frame has one claim;
/// netmem_shared_clone makes more.
/// Returns the number converted. Stops at the first invalid handle, or if there is no memory for a handle
/// (netmem_last_errno is ENOMEM): the frames from there on are unchanged. If the first handle is invalid, returns
/// its negative errno.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_share_at(
    worker: netmem_worker,
    frames: *const netmem_frame,
    shared: *mut netmem_shared,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_share";
    // SAFETY: the promise of C; the frames are only read.
    let (site, frames, places) = unsafe { (Site::new(site), words(frames.cast_mut(), n), words(shared, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { tag, uses, memory_word, .. } = &mut *inside;
    let (frames, places) = match (frames, places) {
        (Ok(frames), Ok(places)) => (frames, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    for (at, (frame, place)) in frames.iter().zip(places).enumerate() {
        if !uses.reserve(1) {
            short(ENOMEM, format_args!("{CALL}: there is no memory for handles"));
            return at as c_int;
        }
        let Some(taken) = tag.ending(End::Moved).take(frame.word) else {
            let errno = refused(Kind::of(tag.why(frame.word), false), CALL, FRAME, frame.word, site);
            return if at == 0 { errno } else { at as c_int };
        };
        place.word = packets::give_shared(uses, tag, taken.share(), *memory_word);
        if sites::is_on() {
            note_moved(frame.word, place.word, site);
        }
    }
    frames.len() as c_int
}

/// Changes one shared frame.
#[inline(always)]
fn change<R>(
    (worker, shared, call, site): (netmem_worker, netmem_shared, &str, Site),
    change: impl FnOnce(&mut SharedFrame) -> Result<R, NoRoom>,
) -> Result<R, c_int> {
    let Some(mut inside) = go_in(worker.word) else { return Err(out(worker, call, site)) };
    match packets::change_shared(&mut inside.tag, shared.word, change) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(no_room(call, error)),
        Err(kind) => Err(refused(kind, call, SHARED, shared.word, site)),
    }
}

/// Makes one more claim on the frame of `shared` and writes its handle to `clone`. The new claim has the same
/// data. Each claim is pulled and trimmed independently.
/// Returns 0, or -ENOMEM if there is no memory for a handle.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_clone_at(
    worker: netmem_worker,
    shared: netmem_shared,
    clone: *mut netmem_shared,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_shared_clone";
    // SAFETY: the promise of C.
    let (site, to) = unsafe { (Site::new(site), words(clone, 1)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { tag, uses, held, memory_word, .. } = &mut *inside;
    let to = match to {
        Ok(to) => to,
        Err(errno) => return errno,
    };
    if !uses.reserve(1) {
        return Failure::new(ENOMEM, format!("{CALL}: there is no memory for a word")).record();
    }
    match packets::change_shared(tag, shared.word, |shared| shared.clone()) {
        Ok(made) => {
            to[0].word = packets::give_shared(uses, tag, made, *memory_word);
            *held += 1;
            if sites::is_on() {
                sites::note_given(iter::once(to[0].word), traced_pool(shared.word), site);
            }
            0
        }
        Err(kind) => refused(kind, CALL, SHARED, shared.word, site),
    }
}

/// Frees `n` claims. The frame is freed with its last claim. Frees each claim whose handle is valid, even if
/// other handles in the array are not.
/// Returns 0, or the negative errno of the first invalid handle.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_free_at(
    worker: netmem_worker,
    shared: *const netmem_shared,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_shared_free";
    // SAFETY: the promise of C; they are only read.
    let (site, shared) = unsafe { (Site::new(site), words(shared.cast_mut(), n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { worker, tag, uses, held, .. } = &mut *inside;
    let shared = match shared {
        Ok(shared) => shared,
        Err(errno) => return errno,
    };
    let mut first = 0;
    for &mut netmem_shared { word } in shared {
        match packets::take_shared(uses, tag, word, End::Freed) {
            Ok(claim) => {
                claim.free(worker);
                *held -= 1;
                if sites::is_on() {
                    sites::note_ended(iter::once(word), site);
                }
            }
            Err(kind) => {
                first = first_of(first, || refused(kind, CALL, SHARED, word, site));
            }
        }
    }
    first
}

/// Returns the address of the data of a claim, for reading, or NULL if the handle is invalid.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_data_at(
    worker: netmem_worker,
    shared: netmem_shared,
    site: *const c_char,
) -> *const c_void {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let data = change((worker, shared, "netmem_shared_data", site), |shared| Ok(shared.data().as_ptr()));
    data.map_or(ptr::null(), <*const u8>::cast)
}

/// Returns the number of bytes of data of a claim.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_len_at(
    worker: netmem_worker,
    shared: netmem_shared,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let len = change((worker, shared, "netmem_shared_len", site), |shared| Ok(shared.len() as c_int));
    len.unwrap_or_else(|errno| errno)
}

/// Returns the number of claims on the frame at the time of the call.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_holders_at(
    worker: netmem_worker,
    shared: netmem_shared,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let holders =
        change((worker, shared, "netmem_shared_holders", site), |shared| Ok(shared.holders() as c_int));
    holders.unwrap_or_else(|errno| errno)
}

/// Removes `n` bytes from the start of the data of this claim. Other claims do not change.
/// Returns 0, or -ENOBUFS if there are fewer than `n` bytes of data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_pull_at(
    worker: netmem_worker,
    shared: netmem_shared,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let done = change((worker, shared, "netmem_shared_pull", site), |shared| shared.pull(n as usize));
    done.map_or_else(|errno| errno, |()| 0)
}

/// Truncates the data of this claim to its first `len` bytes. Other claims do not change.
/// Returns 0, or -ENOBUFS if there are fewer than `len` bytes of data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_trim_at(
    worker: netmem_worker,
    shared: netmem_shared,
    len: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let done = change((worker, shared, "netmem_shared_trim", site), |shared| shared.trim(len as usize));
    done.map_or_else(|errno| errno, |()| 0)
}

/// Converts the only claim on a frame back to a frame, which can be written and sent. Writes the handle of
/// the frame to `frame`. The handle of the claim becomes invalid.
/// Returns 0, or -EBUSY if there are other claims on the frame. After -EBUSY the claim is unchanged.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_into_frame_at(
    worker: netmem_worker,
    shared: netmem_shared,
    frame: *mut netmem_frame,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_shared_into_frame";
    // SAFETY: the promise of C.
    let (site, to) = unsafe { (Site::new(site), words(frame, 1)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { tag, uses, .. } = &mut *inside;
    let to = match to {
        Ok(to) => to,
        Err(errno) => return errno,
    };
    // While it is the only claim, no other call can clone it.
    let others = match packets::change_shared(tag, shared.word, |shared| shared.holders() - 1) {
        Ok(others) => others,
        Err(kind) => return refused(kind, CALL, SHARED, shared.word, site),
    };
    if others > 0 {
        return Failure::new(EBUSY, format!("{CALL}: {others} other claims are on the frame")).record();
    }
    let taken = packets::take_shared(uses, tag, shared.word, End::Moved);
    let Some(frame) = taken.ok().and_then(|claim| claim.into_frame().ok()) else { return -EBUSY };
    to[0].word = tag.give(frame);
    if sites::is_on() {
        note_moved(shared.word, to[0].word, site);
    }
    0
}

/// Converts a shared frame to a packet: the claim gets a head of `heads`. Writes the handle of the packet to
/// `packet`. The handle of the claim becomes invalid.
/// Returns 0, or -ENOMEM if there is no memory for a head. After -ENOMEM the claim is unchanged.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_from_shared_at(
    worker: netmem_worker,
    heads: netmem_heads,
    shared: netmem_shared,
    packet: *mut netmem_packet,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_packet_from_shared";
    // SAFETY: the promise of C; a netmem_packet is one word.
    let (site, to) = unsafe { (Site::new(site), words(packet.cast::<u64>(), 1)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { heads: known, packets, worker, tag, uses, memory_word, .. } = &mut *inside;
    let (heads_of, to) = match (look_up(&HEADS, known, *memory_word, (heads.word, CALL, site)), to) {
        (Ok(heads), Ok(to)) => (heads, to),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let second = match packets::change_shared(tag, shared.word, |shared| shared.clone()) {
        Ok(second) => second,
        Err(kind) => return refused(kind, CALL, SHARED, shared.word, site),
    };
    let made = if uses.reserve(1) { heads_of.attach_shared(worker, second) } else { Err(second) };
    match made {
        Ok(made) => drop(packets.push(made)),
        Err(second) => {
            second.free(worker);
            return Failure::new(ENOMEM, format!("{CALL}: there is no memory for a head")).record();
        }
    }
    give_all((packets, heads.word), (uses, tag), (heads_of, worker), to);
    // The packet has its own claim. The claim of the handle ends.
    packets::take_shared(uses, tag, shared.word, End::Moved).into_iter().for_each(|claim| claim.free(worker));
    if sites::is_on() {
        sites::note_ended(iter::once(shared.word), site);
        sites::note_given(iter::once(to[0]), traced_pool(shared.word), site);
    }
    0
}

/// Detaches `n` shared frames from the worker, so that another worker can attach them. Works as
/// netmem_detach.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_detach_at(
    worker: netmem_worker,
    shared: *mut netmem_shared,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_shared is one word.
    let (site, shared) = unsafe { (Site::new(site), words(shared.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| {
        objects::detach(tag, What::Shared, word).ok_or_else(|| objects::why(What::Shared, word))
    };
    pass_on((worker, "netmem_shared_detach", SHARED, site), shared, pass, |inside, n| inside.held -= n)
}

/// Attaches `n` detached shared frames to the worker. Works as netmem_attach.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_shared_attach_at(
    worker: netmem_worker,
    shared: *mut netmem_shared,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; a netmem_shared is one word.
    let (site, shared) = unsafe { (Site::new(site), words(shared.cast::<u64>(), n)) };
    let pass = |tag: &mut Tag, word| {
        objects::attach(tag, What::Shared, word).ok_or_else(|| objects::why(What::Shared, word))
    };
    pass_on((worker, "netmem_shared_attach", SHARED, site), shared, pass, |inside, n| inside.held += n)
}

/// Ends all uses of shared frames that the worker holds. Returns the number ended.
#[cold]
pub fn reclaim(inside: &mut Inside) -> usize {
    let State { worker, tag, uses, held, .. } = &mut **inside;
    let (mut words, holder) = (Vec::new(), tag.holder());
    objects::each_held(|word, _| words.extend((word & HOLDER == holder).then_some(word)));
    let mut reclaimed = 0;
    for word in words {
        let Ok(claim) = packets::take_shared(uses, tag, word, End::Reclaimed) else { continue };
        claim.free(worker);
        reclaimed += 1;
    }
    *held = held.saturating_sub(reclaimed as u64);
    reclaimed
}
