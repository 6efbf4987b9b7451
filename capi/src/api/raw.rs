//! HOT: frames without a generation, for who wants no check.
//!
//! # Unsafe code
//! Here a word is a claim as it is: the caller promises what the type of a [`Frame`] would: that each word came from one of these calls, and
//! is given back once.

use super::burst::words;
use super::pool::find;
use super::types::{netmem_pool, netmem_raw, netmem_worker};
use super::worker::out;
use crate::errno::ENOBUFS;
use crate::failure::Failure;
use crate::sites::Site;
use crate::workers::{State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Frame};
use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::ptr;

/// As netmem_alloc, of frames whose words nothing checks.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_alloc(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    // SAFETY: the promise of C.
    let frames = unsafe { words(frames, n) };
    // Each apart: one frame wants no room on the stack.
    if n == 1 { give_out::<true>(worker, pool, frames) } else { give_many(worker, pool, frames) }
}

#[inline(never)]
fn give_many(worker: netmem_worker, pool: netmem_pool, frames: Result<&mut [netmem_raw], c_int>) -> c_int {
    give_out::<false>(worker, pool, frames)
}

#[inline(always)]
fn give_out<const ONE: bool>(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: Result<&mut [netmem_raw], c_int>,
) -> c_int {
    const CALL: &str = "netmem_raw_alloc";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { pools, worker, memory_word, .. } = &mut *inside;
    let (pool, frames) = match (find(pools, *memory_word, pool.word, CALL, Site::UNKNOWN), frames) {
        (Ok(pool), Ok(frames)) => (pool, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    if let (true, [one]) = (ONE, &mut *frames) {
        one.word = pool.alloc(worker).map_or(0, |frame| frame.into_raw().get());
        return c_int::from(one.word != 0);
    }
    let (mut batch, mut got) = (Batch::new(), 0);
    while got < frames.len() {
        let want = (frames.len() - got).min(BATCH_MAX);
        let came = pool.alloc_burst(worker, &mut batch, want);
        for (place, frame) in frames[got..].iter_mut().zip(batch.drain()) {
            place.word = frame.into_raw().get();
        }
        got += came;
        if came < want {
            break;
        }
    }
    got as c_int
}

/// Frees frames of netmem_raw_alloc, each of which is given back by this once. A word of 0 is passed over.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_free(worker: netmem_worker, frames: *const netmem_raw, n: u32) -> c_int {
    // SAFETY: the promise of C; they are only read.
    let frames = unsafe { words(frames.cast_mut(), n) };
    match frames {
        Ok([one]) => {
            let Some(mut inside) = go_in(worker.word) else {
                return out(worker, "netmem_raw_free", Site::UNKNOWN);
            };
            // SAFETY: the caller's promise.
            let frame = NonZeroU64::new(one.word).map(|word| unsafe { Frame::from_raw(word) });
            frame.into_iter().for_each(|frame| frame.free(&mut inside.worker));
            0
        }
        frames => free_many(worker, frames),
    }
}

#[inline(never)]
fn free_many(worker: netmem_worker, frames: Result<&mut [netmem_raw], c_int>) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, "netmem_raw_free", Site::UNKNOWN) };
    let frames = match frames {
        Ok(frames) => frames,
        Err(errno) => return errno,
    };
    let mut batch = Batch::new();
    for burst in frames.chunks(BATCH_MAX) {
        let words = burst.iter().filter_map(|frame| NonZeroU64::new(frame.word));
        // SAFETY: the caller's promise.
        batch.extend(words.map(|word| unsafe { Frame::from_raw(word) }));
        batch.free(&mut inside.worker);
    }
    0
}

/// The data of a raw frame; NULL for a word of 0.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_data(frame: netmem_raw) -> *mut c_void {
    let Some(word) = NonZeroU64::new(frame.word) else { return ptr::null_mut() };
    // SAFETY: the caller's promise; it is not dropped.
    let frame = ManuallyDrop::new(unsafe { Frame::from_raw(word) });
    frame.data().as_ptr().cast_mut().cast()
}

/// Ends the data of a raw frame `n` bytes later, which changes its word. Returns where those bytes are, or NULL where there is no room.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_put(frame: *mut netmem_raw, n: u32) -> *mut c_void {
    // SAFETY: the promise of C.
    let Some(to) = (unsafe { frame.as_mut() }) else { return ptr::null_mut() };
    let Some(word) = NonZeroU64::new(to.word) else { return ptr::null_mut() };
    // SAFETY: the caller's promise; it is given up again below.
    let mut frame = ManuallyDrop::new(unsafe { Frame::from_raw(word) });
    let tail = match frame.put(n as usize) {
        Ok(tail) => tail.as_mut_ptr().cast(),
        Err(error) => {
            Failure::new(ENOBUFS, format!("netmem_raw_put: {error}")).keep();
            return ptr::null_mut();
        }
    };
    to.word = ManuallyDrop::into_inner(frame).into_raw().get();
    tail
}
