//! COLD: the calls of `offload.rs` for raw frames.
//!
//! # Unsafe code
//! As in `raw.rs`: the caller vouches for the word.

use super::offload::{finish_frame, got, netmem_offload, read, said, set_of_frame};
use super::raw_data::change;
use super::types::{given, netmem_raw, place};
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
    // SAFETY: the promise of C, and the caller's about the word.
    said(unsafe { change(frame, CALL, |frame| Ok(finish_frame(frame, CALL))) })
}
