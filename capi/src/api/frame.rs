//! HOT: single frames.

use super::types::{netmem_frame, netmem_worker};
use super::worker::out;
use crate::errno::ENOBUFS;
use crate::failure::Failure;
use crate::misuse::{FRAME, Kind, refused};
use crate::sites::Site;
use crate::workers::{Inside, go_in};
use netmem::Frame;
use netmem::pool::NoRoom;
use std::ffi::{c_char, c_int, c_void};
use std::ptr;

/// Says what is wrong with a frame's word, and gives the number that the call returns.
#[cold]
#[inline(never)]
fn bad(inside: &Inside, call: &str, frame: netmem_frame, site: Site) -> c_int {
    refused(Kind::of(inside.tag.why(frame.word), false), call, FRAME, frame.word, site)
}

/// Reads one frame.
#[inline(always)]
fn look<R>(
    (worker, frame, call, site): (netmem_worker, netmem_frame, &str, Site),
    look: impl FnOnce(&Frame) -> R,
) -> Result<R, c_int> {
    let Some(inside) = go_in(worker.word) else { return Err(out(worker, call, site)) };
    inside.tag.look(frame.word, look).ok_or_else(|| bad(&inside, call, frame, site))
}

/// Changes one frame.
#[inline(always)]
fn change<R>(
    (worker, frame, call, site): (netmem_worker, netmem_frame, &str, Site),
    change: impl FnOnce(&mut Frame) -> Result<R, NoRoom>,
) -> Result<R, c_int> {
    let Some(mut inside) = go_in(worker.word) else { return Err(out(worker, call, site)) };
    match inside.tag.change(frame.word, change) {
        Some(Ok(done)) => Ok(done),
        Some(Err(error)) => Err(Failure::new(ENOBUFS, format!("{call}: {error}")).keep()),
        None => Err(bad(&inside, call, frame, site)),
    }
}

/// The frame's data; NULL where the word is not good.
///
/// # Safety
/// As of the module.
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

/// Bytes of data.
///
/// # Safety
/// As of the module.
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

/// Ends the data `n` bytes later. Returns where those bytes are, to be written: they hold what an earlier use left there. NULL where the
/// word is not good, or there is no room.
///
/// # Safety
/// As of the module.
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

/// Begins the data `n` bytes earlier, for a header in front. Returns its new start, or NULL where the word is not good, or the headroom is
/// smaller.
///
/// # Safety
/// As of the module.
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

/// Begins the data `n` bytes later. Returns its new start, or NULL where the word is not good, or there is less data.
///
/// # Safety
/// As of the module.
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

/// Cuts the data to its first `len` bytes; -ENOBUFS where there are fewer.
///
/// # Safety
/// As of the module.
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
