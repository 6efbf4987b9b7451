//! COLD: the time at which a packet was recorded, of frames, packets and raw frames.
//!
//! # Unsafe code
//! As in `raw.rs`: the caller vouches for the word of a raw frame.

use super::types::{netmem_frame, netmem_packet, netmem_raw, netmem_worker, place};
use super::{frame, packet_data, raw_data};
use crate::misuse::refused_in_child;
use crate::process;
use crate::sites::Site;
use std::ffi::{c_char, c_int};
use std::time::Duration;

/// No time, as `NETMEM_NO_TIMESTAMP` of `netmem.h`.
const NONE: u64 = u64::MAX;

/// Writes a time to its place. Returns whether there is any.
fn got(timestamp: Option<Duration>, to: &mut u64) -> c_int {
    // Later times are not stored.
    *to = timestamp.and_then(|since| u64::try_from(since.as_nanos()).ok()).unwrap_or(NONE);
    timestamp.is_some().into()
}

/// The time that a program gives; None if it gives none.
fn given(nanoseconds: u64) -> Option<Duration> {
    (nanoseconds != NONE).then(|| Duration::from_nanos(nanoseconds))
}

/// Writes to `nanoseconds` the time at which the packet in a frame was recorded or received, in nanoseconds since 1970. A
/// frame has one if it was received from a pcap port with timestamps=recorded or from a packet port with
/// timestamps=kernel, or got one by netmem_set_timestamp. The time stays with its frame through lanes, packets, raw frames
/// and shared frames. A frame that is freed or posted for reception loses it.
/// Returns 1. Returns 0 if the frame has no such time, and writes NETMEM_NO_TIMESTAMP.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_get_timestamp_at(
    worker: netmem_worker,
    frame: netmem_frame,
    nanoseconds: *mut u64,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, to) = unsafe { (Site::new(site), place("nanoseconds", nanoseconds)) };
    let to = match to {
        Ok(to) => to,
        Err(failure) => return failure.record(),
    };
    let had = frame::look((worker, frame, "netmem_get_timestamp", site), |frame| got(frame.timestamp(), to));
    had.unwrap_or_else(|errno| errno)
}

/// Stores the time at which the packet in a frame was recorded, in nanoseconds since 1970. NETMEM_NO_TIMESTAMP removes it.
/// A pcap port writes the packet with this time.
/// Returns 0, or -ENOBUFS if the headroom is less than the 18 bytes that an offload and a time take together, or if the
/// frame has no data. Nothing has changed then.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_set_timestamp_at(
    worker: netmem_worker,
    frame: netmem_frame,
    nanoseconds: u64,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let set = frame::change((worker, frame, "netmem_set_timestamp", site), |frame| {
        frame.set_timestamp(given(nanoseconds))
    });
    set.map_or_else(|errno| errno, |()| 0)
}

/// Does for a packet what netmem_get_timestamp does for a frame. The time is that of the first part.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_packet_get_timestamp_at(
    worker: netmem_worker,
    packet: netmem_packet,
    nanoseconds: *mut u64,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let (site, to) = unsafe { (Site::new(site), place("nanoseconds", nanoseconds)) };
    let to = match to {
        Ok(to) => to,
        Err(failure) => return failure.record(),
    };
    let call = "netmem_packet_get_timestamp";
    let had = packet_data::look((worker, packet, call, site), |packet| got(packet.timestamp(), to));
    had.unwrap_or_else(|errno| errno)
}

/// Does for a raw frame what netmem_get_timestamp does for a frame.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_get_timestamp(mut frame: netmem_raw, nanoseconds: *mut u64) -> c_int {
    const CALL: &str = "netmem_raw_get_timestamp";
    // SAFETY: the promise of C.
    let to = match unsafe { place("nanoseconds", nanoseconds) } {
        Ok(to) => to,
        Err(failure) => return failure.record(),
    };
    // SAFETY: the caller's promise about the word.
    let had = unsafe { raw_data::change(&raw mut frame, CALL, |frame| Ok(got(frame.timestamp(), to))) };
    had.unwrap_or_else(|errno| errno)
}

/// Does for a raw frame what netmem_set_timestamp does for a frame. This changes the word of the frame.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_set_timestamp(frame: *mut netmem_raw, nanoseconds: u64) -> c_int {
    const CALL: &str = "netmem_raw_set_timestamp";
    if process::is_child() {
        return refused_in_child(CALL);
    }
    // SAFETY: the promise of C, and the caller's about the word.
    let set = unsafe { raw_data::change(frame, CALL, |frame| frame.set_timestamp(given(nanoseconds))) };
    set.map_or_else(|errno| errno, |()| 0)
}
