//! HOT: allocates, frees and describes frames in bursts.

use super::pool::{find, short_of};
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

/// The `n` handles at `words`.
///
/// # Errors
/// -EFAULT if `words` is NULL and `n` is not 0.
///
/// # Safety
/// Null, or `n` handles that nothing else accesses during the call.
#[inline(always)]
pub unsafe fn words<'a, T>(words: *mut T, n: u32) -> Result<&'a mut [T], c_int> {
    if words.is_null() {
        return if n == 0 { Ok(&mut []) } else { Err(Failure::new(EFAULT, "the array is NULL").record()) };
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { slice::from_raw_parts_mut(words, n as usize) })
}

const ALLOC: &str = "netmem_alloc";
const FREE: &str = "netmem_free";
const POOL_FREE: &str = "netmem_pool_free";

/// Allocates up to `n` empty frames from a pool and writes their handles to `frames`.
/// Returns the number allocated. It is less than `n` only if the pool has no more frames: netmem_last_errno is
/// ENOBUFS if the pool has its maximum number of frames and none is free, or ENOMEM if it could have more and the
/// memory has no more pages.
/// An empty frame of a pool has room for netmem_pool_room bytes at least.
///
/// # Safety
/// See the module.
#[must_use]
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

/// Fast path: allocates one frame. Returns None, with nothing changed, if anything is unusual. It makes no
/// call of its own. What its caller calls next is `extern "C"`, which never unwinds: the compiler makes that
/// a jump and saves no registers on entry.
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

/// [`alloc_at_once`] for `n` frames.
#[inline(always)]
fn alloc_all_at_once(worker: netmem_worker, pool: netmem_pool, to: *mut netmem_frame, n: u32) -> Option<()> {
    let to = NonNull::new(to).filter(|_| !sites::is_on())?;
    let mut inside = go_in(worker.word)?;
    let State { pools, worker, tag, held, .. } = &mut *inside;
    let found = pools.look_up(pool.word)?;
    // SAFETY: the promise of C. A netmem_frame is one word, as a Frame is. The pool belongs to the worker's
    // memory, and writes all frames or none.
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
            if got < frames.len() {
                short_of(found, ALLOC);
            }
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
    // SAFETY: a netmem_frame is one word, as a Frame is. The words written there are claims until `give_all`
    // makes them handles.
    let got = pool.alloc_into(worker, unsafe { slice::from_raw_parts_mut(words.cast(), frames.len()) });
    // SAFETY: `words` points to `frames`, and `alloc_into` wrote the first `got` of them. The pool belongs to
    // the worker's memory.
    unsafe { tag.give_all(slice::from_raw_parts_mut(words, got)) };
    got
}

/// Frees `n` frames, of any pools. Frees each frame whose handle is valid, even if other handles in the array
/// are not.
/// Returns 0, or the negative errno of the first invalid handle.
///
/// # Safety
/// See the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn netmem_free_at(
    worker: netmem_worker,
    frames: *const netmem_frame,
    n: u32,
    site: *const c_char,
) -> c_int {
    // SAFETY: the promise of C; they are only read.
    let site = unsafe { Site::new(site) };
    match n {
        1 if free_at_once(worker, frames) => 0,
        1 => free_one(worker, frames, site),
        _ => free_many(worker, frames, n, site),
    }
}

/// Fast path: frees one frame. Returns false, with nothing changed, if anything is unusual.
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

/// Frees one frame that the fast path did not free, such as one of a pool of another worker.
#[inline(never)]
extern "C" fn free_one(worker: netmem_worker, frame: *const netmem_frame, site: Site) -> c_int {
    if sites::is_on() || frame.is_null() {
        return free_unusual(worker, frame, 1, site);
    }
    // SAFETY: the promise of C; it is only read.
    let word = unsafe { frame.read() }.word;
    let Some(mut inside) = go_in(worker.word) else { return out(worker, FREE, site) };
    let State { worker, tag, held, .. } = &mut *inside;
    match tag.ending(End::Freed).take_bare(word) {
        Some(frame) => {
            *held -= 1;
            frame.free(worker);
            0
        }
        None => refused(Kind::of(tag.why(word), true), FREE, FRAME, word, site),
    }
}

/// Frees frames of any pools.
#[inline(never)]
extern "C" fn free_many(worker: netmem_worker, frames: *const netmem_frame, n: u32, site: Site) -> c_int {
    if sites::is_on() || frames.is_null() || n as usize > BATCH_MAX {
        return free_unusual(worker, frames, n, site);
    }
    let Some(mut inside) = go_in(worker.word) else { return out(worker, FREE, site) };
    let State { worker, tag, held, .. } = &mut *inside;
    // SAFETY: the promise of C; the handles are only read. A netmem_frame is one word.
    let words = unsafe { slice::from_raw_parts(frames.cast(), n as usize) };
    let mut places = [const { MaybeUninit::uninit() }; BATCH_MAX];
    let taken = tag.ending(End::Freed).take_near(words, &mut places);
    *held -= taken.len() as u64;
    // SAFETY: `take_near` wrote the frames. If the call frees them, they are not used again.
    if taken.len() == words.len() && unsafe { Frame::free_all_cached(taken, worker) } {
        return 0;
    }
    // SAFETY: the frames are there; as above.
    unsafe { free_rest(inside, taken, slice::from_raw_parts(frames, n as usize), None, (FREE, site)) }
}

/// Frees the frames of a burst whose uses have ended, then handles the rest of the burst one by one.
///
/// # Safety
/// The claims of the taken frames end with this call.
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

/// Frees frames when tracing is on, the burst is longer than a batch, or the array is NULL.
#[cold]
extern "C" fn free_unusual(worker: netmem_worker, frames: *const netmem_frame, n: u32, site: Site) -> c_int {
    // SAFETY: the promise of C; they are only read.
    match unsafe { words(frames.cast_mut(), n) } {
        Ok(frames) if frames.len() > BATCH_MAX && !sites::is_on() => free_long(worker, frames, site),
        frames => free((worker, FREE, site), frames, None),
    }
}

/// Frees more frames than fit a batch, in bursts.
fn free_long(worker: netmem_worker, frames: &[netmem_frame], site: Site) -> c_int {
    // Checked once for all bursts: a worker that cannot be entered counts as one misuse.
    if go_in(worker.word).is_none() {
        return out(worker, FREE, site);
    }
    let free = |burst: &[netmem_frame]| free_many(worker, burst.as_ptr(), burst.len() as u32, site);
    frames.chunks(BATCH_MAX).fold(0, |first, burst| first_of(first, || free(burst)))
}

/// Frees `n` frames, all of which must belong to `pool`. Works as netmem_free, but refuses a frame of another
/// pool with -EXDEV; that frame stays with the caller.
///
/// # Safety
/// See the module.
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

/// Fast path: frees a burst to its pool. Returns None, with nothing changed, if anything is unusual or a
/// handle does not name a frame of the pool.
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
    // The slow path refuses a closed pool.
    let found = pools.look_up(pool.word).filter(|_| registry::is_pool(pool.word))?;
    // SAFETY: the promise of C; the handles are only read. A netmem_frame is one word.
    let words = unsafe { slice::from_raw_parts(frames.cast(), n as usize) };
    if !found.owns_words(words) {
        return None;
    }
    let mut places = [const { MaybeUninit::uninit() }; BATCH_MAX];
    let taken = tag.ending(End::Freed).take_near(words, &mut places);
    *held -= taken.len() as u64;
    // SAFETY: `taken` holds frames of this pool only (`owns_words`). If the call returns true, they are not
    // used again.
    if taken.len() == words.len() && unsafe { found.free_all_cached(worker, taken) } {
        return Some(0);
    }
    // SAFETY: the frames are there; as above.
    let burst = unsafe { slice::from_raw_parts(frames, n as usize) };
    // SAFETY: as above.
    Some(unsafe { free_rest(inside, taken, burst, Some(pool), (POOL_FREE, site)) })
}

/// Frees frames one by one. If a pool is given, refuses frames of other pools.
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

/// Frees at most [`BATCH_MAX`] frames one by one. Returns the negative errno of the first refused handle, or
/// 0.
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

/// Ends the use that a handle names and returns its frame. Refuses an invalid handle, and a frame of a pool
/// other than `pool`.
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

/// Describes the data of `n` frames: writes one span for each frame to `spans`. If a handle is invalid, the
/// `data` of its span is NULL. If the worker or `frames` is refused, the `data` of all spans is NULL.
/// Returns 0, or the negative errno of the first invalid handle.
///
/// # Safety
/// See the module.
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
    let Some(inside) = go_in(worker.word) else {
        fill(spans, NO_SPAN);
        return out(worker, CALL, site);
    };
    let (frames, spans) = match (frames, spans) {
        (Ok(frames), Ok(spans)) => (frames, spans),
        (Err(errno), spans) => {
            fill(spans, NO_SPAN);
            return errno;
        }
        (_, Err(errno)) => return errno,
    };
    let mut first = 0;
    for (&mut netmem_frame { word }, to) in frames.iter_mut().zip(spans) {
        *to = inside.tag.look(word, span).unwrap_or_else(|| {
            let kind = Kind::of(inside.tag.why(word), false);
            first = first_of(first, || refused(kind, CALL, FRAME, word, site));
            NO_SPAN
        });
    }
    first
}

/// The span of a frame whose handle was refused.
const NO_SPAN: netmem_span = netmem_span { data: ptr::null_mut(), len: 0, headroom: 0, tailroom: 0 };

/// Fills the array for the results of a call that is refused as a whole, so that it holds nothing that was there before.
#[cold]
pub fn fill<T: Copy>(to: Result<&mut [T], c_int>, none: T) {
    if let Ok(to) = to {
        to.fill(none);
    }
}

fn span(frame: &Frame) -> netmem_span {
    netmem_span {
        data: frame.data().as_ptr().cast_mut().cast(),
        len: frame.len() as u32,
        headroom: frame.headroom() as u16,
        tailroom: frame.tailroom() as u16,
    }
}
