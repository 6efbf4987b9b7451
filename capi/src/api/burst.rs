//! HOT: frames in bursts.

use super::pool::find;
use super::types::{netmem_frame, netmem_pool, netmem_span, netmem_worker};
use super::worker::out;
use crate::errno::EFAULT;
use crate::failure::{Failure, first_of};
use crate::misuse::{FRAME, Kind, refused};
use crate::registry;
use crate::sites::{self, Site};
use crate::table::{End, Tag};
use crate::workers::{Inside, State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Frame, Pool, Worker};
use std::ffi::{c_char, c_int};
use std::iter;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::slice;

/// The `n` words at `words`.
///
/// # Errors
/// -EFAULT for NULL, unless there are none.
///
/// # Safety
/// Null, or `n` words that are the call's meanwhile.
#[inline(always)]
pub unsafe fn words<'a, T>(words: *mut T, n: u32) -> Result<&'a mut [T], c_int> {
    if words.is_null() {
        return if n == 0 { Ok(&mut []) } else { Err(Failure::new(EFAULT, "the array is NULL").keep()) };
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts_mut(words, n as usize) })
}

const ALLOC: &str = "netmem_alloc";
const FREE: &str = "netmem_free";
const POOL_FREE: &str = "netmem_pool_free";

/// Allocates up to `n` empty frames of a pool; returns how many, which are fewer only when the pool has no more.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_alloc_at(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *mut netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    if n != 1 {
        return give_many(worker, pool, frames, n, site);
    }
    match alloc_at_once(worker, pool, frames) {
        Some(()) => 1,
        None => give_with_care(worker, pool, frames, n, site),
    }
}

/// One frame, where that costs least; None, and nothing has happened, where something is unusual. There is no call within, and what is called then
/// is `extern "C"`, out of which nothing unwinds: so that is a jump, and nothing has to be saved for it on the way in.
#[inline(always)]
fn alloc_at_once(worker: netmem_worker, pool: netmem_pool, to: *mut netmem_frame) -> Option<()> {
    let to = NonNull::new(to).filter(|_| !sites::is_on())?;
    let mut inside = go_in(worker.word)?;
    let State { pools, worker, tag, held, .. } = &mut *inside;
    let found = pools.look_up(pool.word)?;
    let word = tag.give_own(|| found.alloc_cached(worker))?;
    *held += 1;
    // SAFETY: the promise of C.
    unsafe { to.write(netmem_frame { word }) };
    Some(())
}

#[inline(never)]
extern "C" fn give_many(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *mut netmem_frame,
    n: u32,
    site: Site,
) -> c_int {
    match alloc_all_at_once(worker, pool, frames, n) {
        Some(()) => n as c_int,
        None => give_with_care(worker, pool, frames, n, site),
    }
}

/// As [`alloc_at_once`] of `n` frames.
#[inline(always)]
fn alloc_all_at_once(worker: netmem_worker, pool: netmem_pool, to: *mut netmem_frame, n: u32) -> Option<()> {
    let to = NonNull::new(to).filter(|_| !sites::is_on())?;
    let mut inside = go_in(worker.word)?;
    let State { pools, worker, tag, held, .. } = &mut *inside;
    let found = pools.look_up(pool.word)?;
    // SAFETY: the promise of C; a frame of C's is its word, and nothing else, as a Frame is. The pool is of the worker's memory, and writes all or none.
    let is_given = unsafe {
        let places = slice::from_raw_parts_mut(to.as_ptr().cast(), n as usize);
        tag.give_all_own(places, |places| found.alloc_cached_into(worker, places))
    };
    *held += u64::from(if is_given { n } else { 0 });
    is_given.then_some(())
}

#[inline(never)]
extern "C" fn give_with_care(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *mut netmem_frame,
    n: u32,
    site: Site,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, ALLOC, site) };
    let State { pools, worker, tag, held, memory_word, .. } = &mut *inside;
    // SAFETY: the promise of C.
    let frames = match unsafe { words(frames, n) } {
        Ok(frames) => frames,
        Err(errno) => return errno,
    };
    match find(pools, *memory_word, pool.word, ALLOC, site) {
        Ok(found) => {
            let got = alloc(found, worker, tag, frames);
            *held += got as u64;
            if sites::is_on() {
                sites::note_given(frames[..got].iter().map(|frame| frame.word), pool.word, site);
            }
            got as c_int
        }
        Err(errno) => errno,
    }
}

fn alloc(pool: &Pool, worker: &mut Worker, tag: &mut Tag, frames: &mut [netmem_frame]) -> usize {
    let words: *mut u64 = frames.as_mut_ptr().cast();
    // SAFETY: a frame of C's is its word, and nothing else, as a Frame is; what is written there are claims until they are given out.
    let got = pool.alloc_into(worker, unsafe { slice::from_raw_parts_mut(words.cast(), frames.len()) });
    // SAFETY: the words lie where the frames do, and `alloc_into` wrote the first `got` of them. The pool is of the worker's memory.
    unsafe { tag.give_all(slice::from_raw_parts_mut(words, got)) };
    got
}

/// Frees frames of whatever pool. Those whose word is good are freed, also when another's is not: then the result is the negative errno
/// of the first that is not, and 0 else.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_free_at(
    worker: netmem_worker,
    frames: *const netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; they are only read.
    let site = unsafe { Site::new(site) };
    if n == 1 && free_at_once(worker, frames) { 0 } else { free_many(worker, frames, n, site) }
}

/// Frees one frame, where that costs least; false, and nothing has happened, where something is unusual.
#[inline(always)]
fn free_at_once(worker: netmem_worker, frame: *const netmem_frame) -> bool {
    if sites::is_on() || frame.is_null() {
        return false;
    }
    // SAFETY: the promise of C; it is only read.
    let word = unsafe { frame.read() }.word;
    let Some(mut inside) = go_in(worker.word) else { return false };
    let State { worker, tag, held, .. } = &mut *inside;
    let is_done = tag.end_own(word, End::Freed, |frame| frame.free_cached(worker));
    *held -= u64::from(is_done);
    is_done
}

/// Frees frames of whatever pool.
#[inline(never)]
extern "C" fn free_many(worker: netmem_worker, frames: *const netmem_frame, n: u32, site: Site) -> c_int {
    if sites::is_on() || frames.is_null() || n as usize > BATCH_MAX {
        return free_unusual(worker, frames, n, site);
    }
    let Some(mut inside) = go_in(worker.word) else { return out(worker, FREE, site) };
    let State { worker, tag, held, .. } = &mut *inside;
    // SAFETY: the promise of C; they are only read. A frame of C's is its word, and nothing else.
    let words = unsafe { slice::from_raw_parts(frames.cast(), n as usize) };
    let mut places = [const { MaybeUninit::uninit() }; BATCH_MAX];
    let taken = tag.ending(End::Freed).take_near(words, &mut places);
    *held -= taken.len() as u64;
    // SAFETY: the frames were written there, and nobody takes them from there if they are gone.
    if taken.len() == words.len() && unsafe { Frame::free_all_cached(taken, worker) } {
        return 0;
    }
    // SAFETY: the frames are there; as above.
    unsafe { free_rest(inside, taken, slice::from_raw_parts(frames, n as usize), None, (FREE, site)) }
}

/// Frees those of a burst whose uses have ended, and then the others.
///
/// # Safety
/// The claims of those that were taken end with this call.
#[inline(never)]
unsafe fn free_rest(
    mut inside: Inside,
    taken: &[Option<Frame>],
    burst: &[netmem_frame],
    pool: Option<netmem_pool>,
    (call, site): (&str, Site),
) -> c_int {
    let State { pools, worker, tag, held, .. } = &mut *inside;
    // SAFETY: the caller's promise.
    unsafe { Frame::free_all(taken, worker) };
    match &burst[taken.len()..] {
        [] => 0,
        rest => {
            let pool = pool.and_then(|pool| pools.look_up(pool.word));
            free_with_care((worker, tag, held), rest, pool, (call, site))
        }
    }
}

/// Frees frames while tracing is on, or more than a batch, or none.
#[cold]
extern "C" fn free_unusual(worker: netmem_worker, frames: *const netmem_frame, n: u32, site: Site) -> c_int {
    // SAFETY: the promise of C; they are only read.
    match unsafe { words(frames.cast_mut(), n) } {
        Ok(frames) if frames.len() > BATCH_MAX && !sites::is_on() => free_long(worker, frames, site),
        frames => free((worker, FREE, site), frames, None),
    }
}

/// Frees more frames than a batch, by bursts.
fn free_long(worker: netmem_worker, frames: &[netmem_frame], site: Site) -> c_int {
    // Once for all: a worker that it is not to be is one misuse.
    if go_in(worker.word).is_none() {
        return out(worker, FREE, site);
    }
    let free = |burst: &[netmem_frame]| free_many(worker, burst.as_ptr(), burst.len() as u32, site);
    frames.chunks(BATCH_MAX).fold(0, |first, burst| first_of(first, || free(burst)))
}

/// As netmem_free, of frames that must be this pool's: others are refused (-EXDEV), and stay with the caller.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_pool_free_at(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *const netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C.
    let site = unsafe { Site::new(site) };
    if let Some(said) = pool_free_at_once(worker, pool, frames, n, site) {
        return said;
    }
    // SAFETY: the promise of C; they are only read.
    free((worker, POOL_FREE, site), unsafe { words(frames.cast_mut(), n) }, Some(pool))
}

/// Frees a burst to its pool; None, and nothing has happened, where something is unusual, or a word is not of a frame of the pool.
#[inline(always)]
fn pool_free_at_once(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: *const netmem_frame,
    n: u32,
    site: Site,
) -> Option<c_int> {
    if sites::is_on() || frames.is_null() || n as usize > BATCH_MAX {
        return None;
    }
    let mut inside = go_in(worker.word)?;
    let State { pools, worker, tag, held, .. } = &mut *inside;
    // A pool that was closed is refused with care.
    let found = pools.look_up(pool.word).filter(|_| registry::is_pool(pool.word))?;
    // SAFETY: the promise of C; they are only read. A frame of C's is its word, and nothing else.
    let words = unsafe { slice::from_raw_parts(frames.cast(), n as usize) };
    if !found.owns_words(words) {
        return None;
    }
    let mut places = [const { MaybeUninit::uninit() }; BATCH_MAX];
    let taken = tag.ending(End::Freed).take_near(words, &mut places);
    *held -= taken.len() as u64;
    // SAFETY: `taken` holds frames of this pool alone (`owns_words`); if the call says true, they are not used again.
    if taken.len() == words.len() && unsafe { found.free_all_cached(worker, taken) } {
        return Some(0);
    }
    // SAFETY: the frames are there; as above.
    let burst = unsafe { slice::from_raw_parts(frames, n as usize) };
    // SAFETY: as above.
    Some(unsafe { free_rest(inside, taken, burst, Some(pool), (POOL_FREE, site)) })
}

/// Frees frames one after the other, all of one pool if one is named.
#[inline(never)]
fn free(
    (worker, call, site): (netmem_worker, &str, Site),
    frames: Result<&mut [netmem_frame], c_int>,
    pool: Option<netmem_pool>,
) -> c_int {
    let Some(mut inside) = go_in(worker.word) else { return out(worker, call, site) };
    let State { pools, worker, tag, held, memory_word, .. } = &mut *inside;
    let pool = pool.map(|pool| find(pools, *memory_word, pool.word, call, site)).transpose();
    let (pool, frames) = match (pool, frames) {
        (Ok(pool), Ok(frames)) => (pool, frames),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let mut free = |burst| free_with_care((worker, tag, held), burst, pool, (call, site));
    frames.chunks(BATCH_MAX).fold(0, |first, burst| first_of(first, || free(burst)))
}

/// Frees at most [`BATCH_MAX`] frames one after the other; the negative errno of the first that is refused.
#[cold]
#[inline(never)]
fn free_with_care(
    (worker, tag, held): (&mut Worker, &mut Tag, &mut u64),
    burst: &[netmem_frame],
    pool: Option<&Pool>,
    (call, site): (&str, Site),
) -> c_int {
    let (is_traced, mut batch, mut first) = (sites::is_on(), Batch::new(), 0);
    let mut refuse = |kind, word| {
        first = first_of(first, || refused(kind, call, FRAME, word, site));
    };
    let taken = burst.iter().filter_map(|frame| take(tag, frame.word, pool, &mut refuse));
    batch.extend(taken.inspect(|frame| {
        if is_traced {
            sites::note_ended(iter::once(frame.id().get().into()), site);
        }
    }));
    *held -= batch.len() as u64;
    batch.free(worker);
    first
}

/// The frame of a word whose use ends, where it is good, and the frame this pool's.
fn take(tag: &mut Tag, word: u64, pool: Option<&Pool>, refuse: &mut impl FnMut(Kind, u64)) -> Option<Frame> {
    if pool.is_some_and(|pool| tag.look(word, |frame| !pool.owns(frame)).unwrap_or(false)) {
        refuse(Kind::WrongPool, word);
        return None;
    }
    let frame = tag.ending(End::Freed).take_bare(word);
    if frame.is_none() {
        refuse(Kind::of(tag.why(word), true), word);
    }
    frame
}

/// Says of each frame where its data is, how long it is and what room is around it. Where a word is not good its span's `data` is
/// NULL, and the result the negative errno of the first such; 0 else.
///
/// # Safety
/// As of the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_spans_at(
    worker: netmem_worker,
    frames: *const netmem_frame,
    n: u32,
    spans: *mut netmem_span,
    site: *const c_char,
) -> c_int {
    const CALL: &str = "netmem_spans";
    // SAFETY: the promise of C; the frames are only read.
    let (site, frames, spans) = unsafe { (Site::new(site), words(frames.cast_mut(), n), words(spans, n)) };
    let Some(inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let (frames, spans) = match (frames, spans) {
        (Ok(frames), Ok(spans)) => (frames, spans),
        (Err(errno), _) | (_, Err(errno)) => return errno,
    };
    let mut first = 0;
    for (&mut netmem_frame { word }, to) in frames.iter_mut().zip(spans) {
        *to = inside.tag.look(word, span).unwrap_or_else(|| {
            let kind = Kind::of(inside.tag.why(word), false);
            first = first_of(first, || refused(kind, CALL, FRAME, word, site));
            netmem_span { data: ptr::null_mut(), len: 0, headroom: 0, tailroom: 0 }
        });
    }
    first
}

fn span(frame: &Frame) -> netmem_span {
    netmem_span {
        data: frame.data().as_ptr().cast_mut().cast(),
        len: frame.len() as u32,
        headroom: frame.headroom() as u16,
        tailroom: frame.tailroom() as u16,
    }
}
