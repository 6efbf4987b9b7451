//! HOT: allocates and frees frames without a generation, for programs that want no checks.
//!
//! # Unsafe code
//! Here a word is a claim without further checks. The caller promises what the type [`Frame`] would
//! guarantee: each word came from one of these calls, and is freed once.

use super::burst::words;
use super::pool::{find, short_of};
use super::types::{netmem_pool, netmem_raw, netmem_worker};
use super::worker::out;
use crate::failure::first_of;
use crate::misuse::{Kind, RAW, refused};
use crate::sites::{self, Site};
use crate::workers::{State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Frame, Pool};
use std::ffi::c_int;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::num::NonZeroU64;
use std::ptr::NonNull;
use std::slice;

/// Allocates up to `n` raw frames from a pool. Works as netmem_alloc, but no call checks these frames. Raw
/// calls have no call site: a report of a refused raw call shows the name of the call and the word.
///
/// # Safety
/// See the module.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_alloc(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    if n != 1 {
        return give_many(worker, pool, frames, n);
    }
    match alloc_at_once(worker, pool, frames) {
        Some(()) => 1,
        None => give_with_care(worker, pool, frames, n),
    }
}

/// Fast path: allocates one frame. Returns None, with nothing changed, if anything is unusual. It makes no
/// call of its own. What its caller calls next is `extern "C"`, which never unwinds: the compiler makes that
/// a jump and saves no registers on entry.
#[inline(always)]
fn alloc_at_once(worker: netmem_worker, pool: netmem_pool, to: *mut netmem_raw) -> Option<()> {
    let to = NonNull::new(to)?;
    let mut inside = go_in(worker.word)?;
    let State { pools, worker, .. } = &mut *inside;
    let frame = pools.look_up(pool.word)?.alloc_cached(worker)?;
    // SAFETY: the promise of C.
    unsafe { to.write(netmem_raw { word: frame.into_raw().get() }) };
    Some(())
}

#[inline(never)]
extern "C" fn give_many(worker: netmem_worker, pool: netmem_pool, frames: *mut netmem_raw, n: u32) -> c_int {
    match alloc_all_at_once(worker, pool, frames, n) {
        Some(()) => n as c_int,
        None => give_with_care(worker, pool, frames, n),
    }
}

/// [`alloc_at_once`] for `n` frames.
#[inline(always)]
fn alloc_all_at_once(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *mut netmem_raw,
    n: u32,
) -> Option<()> {
    let places = NonNull::new(frames)?;
    let mut inside = go_in(worker.word)?;
    let State { pools, worker, .. } = &mut *inside;
    // SAFETY: the promise of C. A netmem_raw is one word, as a Frame is. What is written there belongs to the
    // caller.
    let places = unsafe { slice::from_raw_parts_mut(places.as_ptr().cast(), n as usize) };
    pools.look_up(pool.word)?.alloc_cached_into(worker, places).then_some(())
}

#[inline(never)]
extern "C" fn give_with_care(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *mut netmem_raw,
    n: u32,
) -> c_int {
    const CALL: &str = "netmem_raw_alloc";
    // SAFETY: the promise of C.
    let frames = unsafe { words(frames, n) };
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { pools, worker, memory_word, .. } = &mut *inside;
    let (pool, frames) = match (find(pools, *memory_word, pool.word, CALL, Site::UNKNOWN), frames) {
        (Ok(pool), Ok(frames)) => (pool, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let places: *mut MaybeUninit<Frame> = frames.as_mut_ptr().cast();
    // SAFETY: a netmem_raw is one word, as a Frame is. What is written there belongs to the caller.
    let got = pool.alloc_into(worker, unsafe { slice::from_raw_parts_mut(places, frames.len()) });
    if got < frames.len() {
        short_of(pool, CALL);
    }
    got as c_int
}

/// Frees `n` raw frames. The caller must free each raw frame exactly once. Skips a word of 0.
/// Returns 0.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_free(worker: netmem_worker, frames: *const netmem_raw, n: u32) -> c_int {
    if n == 1 && free_at_once(worker, frames) { 0 } else { free_many(worker, frames, n) }
}

/// Fast path: frees one frame. Returns false, with nothing changed, if anything is unusual.
#[inline(always)]
fn free_at_once(worker: netmem_worker, frame: *const netmem_raw) -> bool {
    if frame.is_null() {
        return false;
    }
    let Some(mut inside) = go_in(worker.word) else { return false };
    // SAFETY: the promise of C; it is only read.
    let Some(word) = NonZeroU64::new(unsafe { frame.read() }.word) else { return false };
    // SAFETY: the caller's promise.
    let gone = unsafe { Frame::from_raw(word) }.free_cached(&mut inside.worker);
    // The word belongs to the caller again.
    gone.map_err(mem::forget).is_ok()
}

#[inline(never)]
extern "C" fn free_many(worker: netmem_worker, frames: *const netmem_raw, n: u32) -> c_int {
    if free_all_at_once(worker, frames, n) { 0 } else { free_with_care(worker, frames, n) }
}

/// [`free_at_once`] for `n` frames.
#[inline(always)]
fn free_all_at_once(worker: netmem_worker, frames: *const netmem_raw, n: u32) -> bool {
    if frames.is_null() {
        return false;
    }
    let Some(mut inside) = go_in(worker.word) else { return false };
    // SAFETY: the promise of C. A netmem_raw is the word of a Frame, or 0 like None. The caller promises that
    // the words are claims, which end here.
    unsafe { Frame::free_all_cached(slice::from_raw_parts(frames.cast(), n as usize), &mut inside.worker) }
}

#[inline(never)]
extern "C" fn free_with_care(worker: netmem_worker, frames: *const netmem_raw, n: u32) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, "netmem_raw_free", Site::UNKNOWN) };
    // SAFETY: the promise of C; they are only read.
    let frames = match unsafe { words(frames.cast_mut(), n) } {
        Ok(frames) => frames,
        Err(errno) => return errno,
    };
    // SAFETY: a netmem_raw is the word of a Frame, or 0 like None. The caller promises that the words are
    // claims, which end here.
    unsafe {
        let frames = slice::from_raw_parts(frames.as_ptr().cast(), frames.len());
        Frame::free_all(frames, &mut inside.worker);
    }
    0
}

/// Frees `n` raw frames, all of which must belong to `pool`. Costs less than netmem_raw_free, because it
/// normally checks only the first frame. The caller vouches that each word is a frame of this pool and that
/// none is 0.
/// The call checks all frames if netmem_trace(1) is on, if the first frame belongs to another pool, or if the
/// cache of the pool has no room for all of them. It then refuses frames of other pools (-EXDEV) and words of
/// 0 (-EBADF), which stay with the caller, and frees the others.
/// If a frame of another pool is not checked, this pool allocates it again as its own frame, with the
/// headroom of this pool, even if the frame is too small for that. The ledgers of both pools are wrong from
/// then on, and this pool may give pages back while a frame in them is in use. Memory of others may be
/// overwritten.
/// Returns 0, or the negative errno of the first refused word.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_raw_pool_free(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *const netmem_raw,
    n: u32,
) -> c_int {
    if n != 1 {
        return keep_many(worker, pool, frames, n);
    }
    match keep_at_once(worker, pool, frames) {
        Some(()) => 0,
        None => keep_with_care(worker, pool, frames, n),
    }
}

/// Fast path: frees one frame to its pool. Returns None, with nothing changed, if anything is unusual.
#[inline(always)]
fn keep_at_once(worker: netmem_worker, pool: netmem_pool, frame: *const netmem_raw) -> Option<()> {
    if sites::is_on() || frame.is_null() {
        return None;
    }
    let mut inside = go_in(worker.word)?;
    let State { pools, worker, .. } = &mut *inside;
    let pool = pools.look_up(pool.word)?;
    // SAFETY: the promise of C; it is only read.
    let word = NonZeroU64::new(unsafe { frame.read() }.word)?;
    // SAFETY: the caller's promise. If the frame is not freed, the word belongs to the caller again.
    let frame = ManuallyDrop::new(unsafe { Frame::from_raw(word) });
    if !pool.owns(&frame) {
        return None;
    }
    // SAFETY: `owns` has just checked that the frame belongs to this pool.
    unsafe { pool.free_cached(worker, ManuallyDrop::into_inner(frame)) }.map_err(mem::forget).ok()
}

#[inline(never)]
extern "C" fn keep_many(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *const netmem_raw,
    n: u32,
) -> c_int {
    match keep_all_at_once(worker, pool, frames, n) {
        Some(()) => 0,
        None => keep_with_care(worker, pool, frames, n),
    }
}

/// [`keep_at_once`] for `n` frames.
#[inline(always)]
fn keep_all_at_once(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *const netmem_raw,
    n: u32,
) -> Option<()> {
    if sites::is_on() || frames.is_null() {
        return None;
    }
    let mut inside = go_in(worker.word)?;
    let State { pools, worker, .. } = &mut *inside;
    let pool = pools.look_up(pool.word)?;
    // SAFETY: the promise of C. A netmem_raw is the word of a Frame, or 0 like None. The caller promises that
    // the words are claims, which end here.
    let frames: &[Option<Frame>] = unsafe { slice::from_raw_parts(frames.cast(), n as usize) };
    let first = frames.first()?;
    if !first.as_ref().is_some_and(|first| pool.owns(first)) {
        return None;
    }
    // SAFETY: the caller promises that all are frames of the pool of the first one.
    unsafe { pool.free_all_cached(worker, frames) }.then_some(())
}

/// Frees the frames that belong to the pool. Checks each frame.
#[inline(never)]
extern "C" fn keep_with_care(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *const netmem_raw,
    n: u32,
) -> c_int {
    const CALL: &str = "netmem_raw_pool_free";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, Site::UNKNOWN) };
    let State { pools, worker, memory_word, .. } = &mut *inside;
    // SAFETY: the promise of C; they are only read.
    let frames = unsafe { words(frames.cast_mut(), n) };
    let (pool, frames) = match (find(pools, *memory_word, pool.word, CALL, Site::UNKNOWN), frames) {
        (Ok(pool), Ok(frames)) => (pool, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let mut first = 0;
    let mut refuse = |word: u64| {
        let kind = if word == 0 { Kind::MadeUp } else { Kind::WrongPool };
        first = first_of(first, || refused(kind, CALL, RAW, word, Site::UNKNOWN));
    };
    for burst in frames.chunks(BATCH_MAX) {
        let mut batch = Batch::new();
        batch.extend(burst.iter().filter_map(|&netmem_raw { word }| own(pool, word, &mut refuse)));
        batch.free(worker);
    }
    first
}

/// The frames of the words in front of the first word of 0, at most [`BATCH_MAX`].
///
/// # Safety
/// The words are claims. Those of the returned frames end with this call.
#[inline(always)]
pub unsafe fn claims(burst: &[netmem_raw]) -> Batch {
    let mut batch = Batch::new();
    let words = burst.iter().map_while(|frame| NonZeroU64::new(frame.word));
    // SAFETY: the caller's promise.
    batch.extend(words.take(BATCH_MAX).map(|word| unsafe { Frame::from_raw(word) }));
    batch
}

/// Returns the frame of this word if it belongs to the pool.
fn own(pool: &Pool, word: u64, refuse: &mut impl FnMut(u64)) -> Option<Frame> {
    // SAFETY: the caller's promise. If the frame belongs to another pool, the word belongs to the caller
    // again.
    let frame = NonZeroU64::new(word).map(|word| ManuallyDrop::new(unsafe { Frame::from_raw(word) }));
    let own = frame.filter(|frame| pool.owns(frame));
    if own.is_none() {
        refuse(word);
    }
    own.map(ManuallyDrop::into_inner)
}
