//! HOT: reads and changes single frames.

use super::burst::words;
use super::types::{netmem_frame, netmem_worker};
use super::worker::out;
use crate::failure::no_room;
use crate::misuse::{FRAME, Kind, refused};
use crate::sites::Site;
use crate::workers::{Inside, go_in};
use netmem::Frame;
use netmem::pool::NoRoom;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// Reports an invalid handle of a frame. Returns the errno for the call.
#[cold]
#[inline(never)]
fn bad(inside: &Inside, call: &str, frame: netmem_frame, site: Site) -> c_int {
    refused(Kind::of(inside.tag.why(frame.word), false), call, FRAME, frame.word, site)
}

/// Reads one frame.
#[inline(always)]
pub fn look<R>(
    (worker, frame, call, site): (netmem_worker, netmem_frame, &str, Site),
    look: impl FnOnce(&Frame) -> R,
) -> Result<R, c_int> {
    let Some(inside) = go_in(worker.word) else { return Err(out(worker, call, site)) };
    inside.tag.look(frame.word, look).ok_or_else(|| bad(&inside, call, frame, site))
}

/// Changes one frame.
#[inline(always)]
pub fn change<R>(
    (worker, frame, call, site): (netmem_worker, netmem_frame, &str, Site),
    change: impl FnOnce(&mut Frame) -> Result<R, NoRoom>,
) -> Result<R, c_int> {
    let Some(mut inside) = go_in(worker.word) else { return Err(out(worker, call, site)) };
    match inside.tag.change(frame.word, change) {
        Some(Ok(done)) => Ok(done),
        Some(Err(error)) => Err(no_room(call, error)),
        None => Err(bad(&inside, call, frame, site)),
    }
}

/// Returns the address of the first byte of data of a frame, or NULL if the handle is invalid.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_data_at(
    worker: netmem_worker,
    frame: netmem_frame,
    site: *const c_char,
) -> *mut c_void {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let data = look((worker, frame, "netmem_data", site), |frame| frame.data().as_ptr());
    data.map_or(ptr::null_mut(), |data| data.cast_mut().cast())
}

/// Returns the number of bytes of data of a frame.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_len_at(
    worker: netmem_worker,
    frame: netmem_frame,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    look((worker, frame, "netmem_len", site), |frame| frame.len() as c_int).unwrap_or_else(|errno| errno)
}

/// Appends `n` bytes to the data of a frame.
/// Returns the address of the first appended byte, or NULL if the handle is invalid or the tailroom is less
/// than `n`. An empty frame has a tailroom of netmem_pool_room bytes at least (1518 of a default frame); beyond that, it
/// is different from frame to frame, so check the result. The bytes are not cleared: write all of them.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_put_at(
    worker: netmem_worker,
    frame: netmem_frame,
    n: u32,
    site: *const c_char,
) -> *mut c_void {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let tail = change((worker, frame, "netmem_put", site), |frame| {
        frame.put(n as usize).map(|tail| tail.as_mut_ptr())
    });
    tail.map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Appends a copy of `n` bytes at `bytes` to the data of a frame.
/// Returns 0, or -ENOBUFS if the tailroom is less than `n`; nothing has changed then.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_put_data_at(
    worker: netmem_worker,
    frame: netmem_frame,
    bytes: *const c_void,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; the bytes are only read.
    let (site, bytes) = unsafe { (Site::new(site), words(bytes.cast_mut().cast::<u8>(), n)) };
    let bytes = match bytes {
        Ok(bytes) => &*bytes,
        Err(errno) => return errno,
    };
    let done = change((worker, frame, "netmem_put_data", site), |frame| frame.put_slice(bytes));
    done.map_or_else(|errno| errno, |()| 0)
}

/// Prepends `n` bytes to the data of a frame, for a header.
/// Returns the new address of the data, or NULL if the handle is invalid or the headroom is less than `n`.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_push_at(
    worker: netmem_worker,
    frame: netmem_frame,
    n: u32,
    site: *const c_char,
) -> *mut c_void {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let start = change((worker, frame, "netmem_push", site), |frame| {
        frame.push(n as usize).map(|()| frame.data_mut().as_mut_ptr())
    });
    start.map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Removes `n` bytes from the start of the data of a frame.
/// Returns the new address of the data, or NULL if the handle is invalid or there are fewer than `n` bytes of
/// data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_pull_at(
    worker: netmem_worker,
    frame: netmem_frame,
    n: u32,
    site: *const c_char,
) -> *mut c_void {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let start = change((worker, frame, "netmem_pull", site), |frame| {
        frame.pull(n as usize).map(|()| frame.data_mut().as_mut_ptr())
    });
    start.map_or(ptr::null_mut(), <*mut u8>::cast)
}

/// Truncates the data of a frame to its first `len` bytes.
/// Returns 0, or -ENOBUFS if there are fewer than `len` bytes of data.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_trim_at(
    worker: netmem_worker,
    frame: netmem_frame,
    len: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    let done = change((worker, frame, "netmem_trim", site), |frame| frame.trim(len as usize));
    done.map_or_else(|errno| errno, |()| 0)
}
