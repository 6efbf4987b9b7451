//! HOT: reads and changes single raw frames. None of these calls takes a worker: the word holds what they change.

use super::types::netmem_raw;
use crate::failure::{Failure, no_room};
use crate::misuse::{Kind, RAW, refused};
use crate::sites::Site;
use netmem::Frame;
use netmem::pool::NoRoom;
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::ptr;

/// The frame of a raw word, which stays the claim. None for a word of 0.
///
/// # Safety
/// The caller vouches for the word, as `raw.rs` says.
#[inline(always)]
pub unsafe fn look(frame: netmem_raw) -> Option<ManuallyDrop<Frame>> {
    // SAFETY: the caller's promise.
    NonZeroU64::new(frame.word).map(|word| ManuallyDrop::new(unsafe { Frame::from_raw(word) }))
}

/// Changes a raw frame and its word.
///
/// # Errors
/// The errno for the call: `frame` is null, its word is 0, or `change` failed. Nothing has changed then.
///
/// # Safety
/// The promise of C; and the caller vouches for the word.
#[inline(always)]
pub unsafe fn change<R>(
    frame: *mut netmem_raw,
    call: &str,
    change: impl FnOnce(&mut Frame) -> Result<R, NoRoom>,
) -> Result<R, c_int> {
    // SAFETY: the promise of C.
    let to = unsafe { frame.as_mut() }.ok_or_else(|| Failure::null("frame").record())?;
    // SAFETY: the caller's promise. The word goes back to the caller below.
    let found = unsafe { look(*to) };
    let mut frame = found.ok_or_else(|| refused(Kind::MadeUp, call, RAW, 0, Site::UNKNOWN))?;
    let done = change(&mut frame).map_err(|error| no_room(call, error));
    to.word = ManuallyDrop::into_inner(frame).into_raw().get();
    done
}

/// Returns the address of the data of a raw frame, or NULL if the word is 0.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_data(frame: netmem_raw) -> *mut c_void {
    // SAFETY: the caller's promise.
    let frame = unsafe { look(frame) };
    frame.map_or(ptr::null_mut(), |frame| frame.data().as_ptr().cast_mut().cast())
}

/// Returns the number of bytes of data of a raw frame, or 0 if the word is 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_raw_len(frame: netmem_raw) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { look(frame) }.map_or(0, |frame| frame.len() as c_int)
}

/// Returns the free bytes before the data of a raw frame, or 0 if the word is 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_raw_headroom(frame: netmem_raw) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { look(frame) }.map_or(0, |frame| frame.headroom() as c_int)
}

/// Returns the free bytes after the data of a raw frame, or 0 if the word is 0.
#[unsafe(no_mangle)]
pub extern "C" fn netmem_raw_tailroom(frame: netmem_raw) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { look(frame) }.map_or(0, |frame| frame.tailroom() as c_int)
}

/// Appends `n` bytes to the data of a raw frame. This changes the word of the frame.
/// Returns the address of the first appended byte, or NULL if the tailroom is less than `n`. The bytes are not
/// cleared: write all of them.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_put(frame: *mut netmem_raw, n: u32) -> *mut c_void {
    // SAFETY: the promise of C, and the caller's.
    let tail = unsafe {
        change(frame, "netmem_raw_put", |frame| frame.put(n as usize).map(|tail| tail.as_mut_ptr()))
    };
    tail.map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Prepends `n` bytes to the data of a raw frame, for a header. This changes the word of the frame.
/// Returns the new address of the data, or NULL if the headroom is less than `n`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_push(frame: *mut netmem_raw, n: u32) -> *mut c_void {
    let push = |frame: &mut Frame| frame.push(n as usize).map(|()| frame.data_mut().as_mut_ptr());
    // SAFETY: the promise of C, and the caller's.
    let start = unsafe { change(frame, "netmem_raw_push", push) };
    start.map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Removes `n` bytes from the start of the data of a raw frame. This changes the word of the frame.
/// Returns the new address of the data, or NULL if there are fewer than `n` bytes of data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_pull(frame: *mut netmem_raw, n: u32) -> *mut c_void {
    let pull = |frame: &mut Frame| frame.pull(n as usize).map(|()| frame.data_mut().as_mut_ptr());
    // SAFETY: the promise of C, and the caller's.
    let start = unsafe { change(frame, "netmem_raw_pull", pull) };
    start.map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Truncates the data of a raw frame to its first `len` bytes. This changes the word of the frame.
/// Returns 0, or -ENOBUFS if there are fewer than `len` bytes of data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_trim(frame: *mut netmem_raw, len: u32) -> c_int {
    // SAFETY: the promise of C, and the caller's.
    let done = unsafe { change(frame, "netmem_raw_trim", |frame| frame.trim(len as usize)) };
    done.map_or_else(|errno| errno, |()| 0)
}
