//! COLD: the calls of `offload.rs` for raw frames.
//!
//! # Unsafe code
//! As in `raw.rs`: the caller vouches for the word.

use super::burst::words;
use super::offload::{finish_frame, got, netmem_offload, read, said, set_of_frame};
use super::pool::find;
use super::raw_data::{change, look};
use super::segments::cut;
use super::types::{given, netmem_pool, netmem_raw, netmem_worker, place};
use super::worker::out;
use crate::misuse::{Kind, RAW, refused, refused_in_child};
use crate::process;
use crate::sites::Site;
use crate::workers::{State, go_in};
use std::ffi::c_int;

/// Does for a raw frame what netmem_get_offload does for a frame.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_get_offload(
    mut frame: netmem_raw,
    offload: *mut netmem_offload,
) -> c_int {
    // SAFETY: the promise of C.
    let to = match unsafe { place("offload", offload) } {
        Ok(to) => to,
        Err(failure) => return failure.record(),
    };
    // SAFETY: the caller's promise about the word.
    let had =
        unsafe { change(&raw mut frame, "netmem_raw_get_offload", |frame| Ok(got(frame.offload(), to))) };
    had.unwrap_or_else(|errno| errno)
}

/// Does for a raw frame what netmem_set_offload does for a frame. This changes the word of the frame.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_set_offload(
    frame: *mut netmem_raw,
    offload: *const netmem_offload,
) -> c_int {
    const CALL: &str = "netmem_raw_set_offload";
    if process::is_child() {
        return refused_in_child(CALL);
    }
    // SAFETY: the promise of C.
    match unsafe { given("offload", offload) }.and_then(read) {
        // SAFETY: the promise of C, and the caller's about the word.
        Ok(offload) => said(unsafe { change(frame, CALL, |frame| Ok(set_of_frame(frame, offload, CALL))) }),
        Err(failure) => failure.record(),
    }
}

/// Does for a raw frame what netmem_finish_checksum does for a frame. This changes the word of the frame.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_finish_checksum(frame: *mut netmem_raw) -> c_int {
    const CALL: &str = "netmem_raw_finish_checksum";
    if process::is_child() {
        return refused_in_child(CALL);
    }
    // SAFETY: the promise of C, and the caller's about the word.
    said(unsafe { change(frame, CALL, |frame| Ok(finish_frame(frame, CALL))) })
}

/// Cuts the packet in a raw frame into its segments, as netmem_cut_segments does, and writes them to raw frames of `pool`.
/// The frame stays as it is, and stays with the caller.
/// Returns what netmem_cut_segments returns, or -EBADF if the word of `frame` is 0.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_cut_segments(
    worker: netmem_worker,
    pool: netmem_pool,
    frame: netmem_raw,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    const CALL: &str = "netmem_raw_cut_segments";
    // SAFETY: the promise of C.
    let places = unsafe { words(frames, n) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { pools, worker, memory_word, .. } = &mut *inside;
    let (from, places) = match (find(pools, *memory_word, pool.word, CALL, Site::UNKNOWN), places) {
        (Ok(from), Ok(places)) => (from, places),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    // SAFETY: the caller's promise about the word, which stays the claim.
    let Some(frame) = (unsafe { look(frame) }) else {
        return refused(Kind::MadeUp, CALL, RAW, 0, Site::UNKNOWN);
    };
    match cut(CALL, &frame, from, worker, places.len()) {
        Ok(segments) => {
            let made = segments.len();
            for (place, segment) in places.iter_mut().zip(segments) {
                place.word = segment.into_raw().get();
            }
            made as c_int
        }
        Err(errno) => errno,
    }
}
