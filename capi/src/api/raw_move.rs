//! HOT: moves raw frames through ports and lanes, and converts them to frames with handles and back.

use super::burst::words;
use super::lane::{end, no_receiver, no_sender};
use super::port::{find_port, receive};
use super::raw::claims;
use super::types::{netmem_frame, netmem_lane, netmem_port, netmem_raw, netmem_worker};
use super::worker::out;
use crate::lanes::End;
use crate::misuse::{FRAME, Kind, RAW, refused};
use crate::registry;
use crate::sites::{self, Site};
use crate::slots::slot;
use crate::table::{self, Bad, HOLDER, NONE};
use crate::workers::{State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Frame, Port, Worker};
use std::ffi::{c_char, c_int};
use std::iter;
use std::mem;
use std::num::NonZeroU64;
use std::sync::atomic::Ordering::Relaxed;

/// The raw frame of a claim.
fn raw(frame: Frame) -> netmem_raw {
    netmem_raw { word: frame.into_raw().get() }
}

/// The result of a call that stopped at a word of 0 or came to its end, after `n` frames of `frames`.
fn stopped(frames: &[netmem_raw], n: usize, call: &str) -> c_int {
    match frames.first() {
        Some(netmem_raw { word: 0 }) if n == 0 => refused(Kind::MadeUp, call, RAW, 0, Site::UNKNOWN),
        _ => n as c_int,
    }
}

/// Why a word names no raw frame: the frame has a use, as a frame with a handle, or no frame has its number. None if it does.
#[inline(always)]
fn why_not_raw(frame: &Frame) -> Option<Bad> {
    // Relaxed: a use that another thread begins at the same time is a second use of the same claim, which only the caller
    // can avoid.
    match slot(frame.id().get()).map(|slot| slot.load(Relaxed) & HOLDER) {
        Some(NONE) => None,
        Some(_) => Some(Bad::Over(Some(table::End::Moved))),
        None => Some(Bad::MadeUp),
    }
}

/// Receives up to `n` raw frames. Works as netmem_port_rx, but gives out no handles. A port may be used by
/// calls with handles and by raw calls.
/// Returns the number received.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_rx_raw(
    worker: netmem_worker,
    port: netmem_port,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    const CALL: &str = "netmem_port_rx_raw";
    // SAFETY: the promise of C.
    let frames = unsafe { words(frames, n) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { ports, worker, .. } = &mut *inside;
    match (find_port(ports, port, CALL, Site::UNKNOWN), frames) {
        (Ok(open), Ok(frames)) => receive(open, worker, frames, raw) as c_int,
        (Err(errno), _) | (_, Err(errno)) => errno,
    }
}

/// Posts up to `n` raw frames for transmission. Stops before a word of 0.
/// Returns the number posted. The port owns these frames. The other frames stay with the caller: the call moves
/// them to the end of `frames`, in order, so that they begin at the index that the call returns.
/// Returns -EBADF if the first word is 0.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_tx_raw(
    worker: netmem_worker,
    port: netmem_port,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    // SAFETY: the promise of C, and the caller's.
    unsafe {
        post((worker, port, "netmem_port_tx_raw"), words(frames, n), |port, worker, batch| {
            port.tx(worker, batch)
        })
    }
}

/// Posts up to `n` raw frames for reception. Data that they still have is dropped. Returns as netmem_port_tx_raw
/// does.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_port_fill_raw(
    worker: netmem_worker,
    port: netmem_port,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    // SAFETY: the promise of C, and the caller's.
    unsafe {
        post((worker, port, "netmem_port_fill_raw"), words(frames, n), |port, worker, batch| {
            port.fill(worker, batch)
        })
    }
}

/// Posts raw frames to a port.
///
/// # Safety
/// The words are claims. Those of the frames that the port takes end with this call.
#[inline(always)]
unsafe fn post(
    (worker, port, call): (netmem_worker, netmem_port, &str),
    frames: Result<&mut [netmem_raw], c_int>,
    post: impl Fn(&mut dyn Port, &mut Worker, &mut Batch) -> usize,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, Site::UNKNOWN) };
    let State { ports, worker, .. } = &mut *inside;
    let (open, frames) = match (find_port(ports, port, call, Site::UNKNOWN), frames) {
        (Ok(open), Ok(frames)) => (open, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let mut posted = 0;
    for burst in frames.chunks_mut(BATCH_MAX) {
        // SAFETY: the caller's promise.
        let mut batch = unsafe { claims(burst) };
        let asked = batch.len();
        post(&mut *open.port, worker, &mut batch);
        let taken = asked - batch.len();
        burst[taken..asked].iter_mut().zip(batch.drain()).for_each(|(place, frame)| *place = raw(frame));
        posted += taken;
        if taken < burst.len() {
            break;
        }
    }
    stopped(frames, posted, call)
}

/// Sends up to `n` raw frames through a lane, from the front of the array. Only the lane's sender may call it.
/// Stops before a word of 0. The receiver can receive them as raw frames or as frames with handles.
/// Returns the number sent, which is less than `n` if the lane becomes full. The receiver owns these frames.
/// The other frames stay with the caller, unchanged.
/// Returns -EBADF if the first word is 0, or -EPIPE if the receiver has closed its end.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_send_raw(
    worker: netmem_worker,
    lane: netmem_lane,
    frames: *const netmem_raw,
    n: u32,
) -> c_int {
    const CALL: &str = "netmem_lane_send_raw";
    // SAFETY: the promise of C; the frames are only read.
    let frames = unsafe { words(frames.cast_mut(), n) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { lanes, worker, .. } = &mut *inside;
    let (sending, frames) = match (end(&mut lanes.sending, End::Sender, (lane, CALL, Site::UNKNOWN)), frames)
    {
        (Ok(sending), Ok(frames)) => (sending, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let Some(room) = sending.room() else { return no_receiver(CALL) };
    let mut sent = 0;
    for burst in frames[..frames.len().min(room)].chunks(BATCH_MAX) {
        // SAFETY: the caller's promise.
        let mut batch = unsafe { claims(burst) };
        let taken = batch.len();
        sending.list(worker, &mut batch);
        sent += taken;
        if taken < burst.len() {
            break;
        }
    }
    sending.flush(worker);
    stopped(frames, sent, CALL)
}

/// Receives up to `n` raw frames from a lane, oldest first. Works as netmem_lane_receive, but gives out no
/// handles: it also receives frames that were sent by their handles.
/// Returns as netmem_lane_receive does.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_lane_receive_raw(
    worker: netmem_worker,
    lane: netmem_lane,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    const CALL: &str = "netmem_lane_receive_raw";
    // SAFETY: the promise of C.
    let frames = unsafe { words(frames, n) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { lanes, worker, .. } = &mut *inside;
    let which = (lane, CALL, Site::UNKNOWN);
    match (end(&mut lanes.receiving, End::Receiver, which), frames) {
        (Ok(receiving), Ok(frames)) => {
            receiving.receive_all(worker, frames, raw).map_or_else(|| no_sender(CALL), |got| got as c_int)
        }
        (Err(errno), _) | (_, Err(errno)) => errno,
    }
}

/// Converts `n` frames to raw frames, from the front of the array, without a copy. Writes their words to `raw`,
/// which must be another array. The handles of the frames become invalid.
/// Returns the number converted. Stops at the first invalid handle; if that is the first of all, returns its
/// negative errno.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_from_frames_at(
    worker: netmem_worker,
    frames: *const netmem_frame,
    raw: *mut netmem_raw,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_raw_from_frames";
    // SAFETY: the promise of C; the handles are only read.
    let (site, frames, places) = unsafe { (Site::new(site), words(frames.cast_mut(), n), words(raw, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { tag, held, .. } = &mut *inside;
    let (frames, places) = match (frames, places) {
        (Ok(frames), Ok(places)) => (frames, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let (mut ending, mut converted) = (tag.ending(table::End::Moved), 0);
    for (frame, place) in frames.iter().zip(places) {
        let Some(taken) = ending.take(frame.word) else { break };
        *place = self::raw(taken);
        converted += 1;
    }
    *held -= converted as u64;
    if sites::is_on() {
        sites::note_ended(frames[..converted].iter().map(|frame| frame.word), site);
    }
    match frames.get(converted) {
        Some(bad) => {
            let errno = refused(Kind::of(tag.why(bad.word), false), CALL, FRAME, bad.word, site);
            if converted == 0 { errno } else { converted as c_int }
        }
        None => converted as c_int,
    }
}

/// Converts `n` raw frames to frames of this worker, from the front of the array, without a copy. Writes their
/// handles to `frames`, which must be another array. Stops before a word of 0. The words are raw frames no
/// longer: use the handles. The call stops at a word that was converted before, and whose frame is not raw again yet
/// (used_after_move).
/// Returns the number converted, or the negative errno if the first word is refused: -EBADF for 0, -ESTALE for a word
/// that was converted before.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_into_frames_at(
    worker: netmem_worker,
    raw: *const netmem_raw,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_raw_into_frames";
    // SAFETY: the promise of C; the words are only read.
    let (site, raw, places) = unsafe { (Site::new(site), words(raw.cast_mut(), n), words(frames, n)) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { tag, held, .. } = &mut *inside;
    let mut converted = 0;
    let (raw, places) = match (raw, places) {
        (Ok(raw), Ok(places)) => (raw, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    for (n, (&netmem_raw { word }, place)) in raw.iter().zip(places).enumerate() {
        // SAFETY: the caller's promise. A word that is refused stays the caller's.
        let Some(frame) = NonZeroU64::new(word).map(|word| unsafe { Frame::from_raw(word) }) else { break };
        let traced = sites::is_on().then(|| registry::pool_of(&frame));
        if let Some(why) = why_not_raw(&frame) {
            mem::forget(frame);
            let errno = refused(Kind::of(why, false), CALL, RAW, word, site);
            return if n == 0 { errno } else { n as c_int };
        }
        place.word = tag.give(frame);
        *held += 1;
        converted = n + 1;
        if let Some(pool) = traced {
            sites::note_given(iter::once(place.word), pool, site);
        }
    }
    stopped(raw, converted, CALL)
}
