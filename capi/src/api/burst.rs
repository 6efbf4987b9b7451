//! HOT: frames in bursts.

use super::pool::find;
use super::types::{netmem_frame, netmem_pool, netmem_span, netmem_worker};
use super::worker::out;
use crate::errno::EFAULT;
use crate::failure::Failure;
use crate::misuse::{FRAME, Kind, refused};
use crate::sites::{self, Site};
use crate::table::{End, Ending, Tag};
use crate::workers::{State, go_in};
use netmem::limits::BATCH_MAX;
use netmem::{Batch, Frame, Pool, Worker};
use std::ffi::{c_char, c_int};
use std::iter;
use std::mem::ManuallyDrop;
use std::ptr;
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
    let (site, frames) = unsafe { (Site::new(site), words(frames, n)) };
    // Each apart: one frame wants no room on the stack.
    if n == 1 { give_out::<true>(worker, pool, frames, site) } else { give_many(worker, pool, frames, site) }
}

#[inline(never)]
fn give_many(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: Result<&mut [netmem_frame], c_int>,
    site: Site,
) -> c_int {
    give_out::<false>(worker, pool, frames, site)
}

#[inline(always)]
fn give_out<const ONE: bool>(
    worker: netmem_worker,
    pool: netmem_pool,
    frames: Result<&mut [netmem_frame], c_int>,
    site: Site,
) -> c_int {
    const CALL: &str = "netmem_alloc";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { pools, worker, tag, held, memory_word, .. } = &mut *inside;
    let frames = match frames {
        Ok(frames) => frames,
        Err(errno) => return errno,
    };
    match find(pools, *memory_word, pool.word, CALL, site) {
        Ok(found) => {
            let got =
                if ONE { alloc_one(found, worker, tag, frames) } else { alloc(found, worker, tag, frames) };
            *held += got as u64;
            if sites::is_on() {
                sites::note_given(frames[..got].iter().map(|frame| frame.word), pool.word, site);
            }
            got as c_int
        }
        Err(errno) => errno,
    }
}

#[inline(always)]
fn alloc_one(pool: &Pool, worker: &mut Worker, tag: &mut Tag, frames: &mut [netmem_frame]) -> usize {
    let ([one], Some(frame)) = (frames, pool.alloc(worker)) else { return 0 };
    one.word = tag.give(frame);
    1
}

#[inline(always)]
fn alloc(pool: &Pool, worker: &mut Worker, tag: &mut Tag, frames: &mut [netmem_frame]) -> usize {
    let mut got = 0;
    for places in frames.chunks_mut(BATCH_MAX) {
        let mut batch = ManuallyDrop::new(Batch::new());
        let came = pool.alloc_burst(worker, &mut batch, places.len());
        // SAFETY: the batch is not dropped. A frame of C's is its word, and nothing else.
        unsafe { tag.give_all(&batch, slice::from_raw_parts_mut(places.as_mut_ptr().cast(), places.len())) };
        got += came;
        if came < places.len() {
            break;
        }
    }
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
    let (site, frames) = unsafe { (Site::new(site), words(frames.cast_mut(), n)) };
    match frames {
        Ok([one]) if !sites::is_on() => free_one(worker, one.word, site),
        frames => free((worker, "netmem_free", site), frames, None),
    }
}

/// As [`free`], which one frame wants no room on the stack for.
#[inline(always)]
fn free_one(worker: netmem_worker, word: u64, site: Site) -> c_int {
    const CALL: &str = "netmem_free";
    let Some(mut inside) = go_in(worker.word) else { return out(worker, CALL, site) };
    let State { worker, tag, held, .. } = &mut *inside;
    match tag.ending(End::Freed).take_bare(word) {
        Some(frame) => {
            *held -= 1;
            frame.free(worker);
            0
        }
        None => refused(Kind::of(tag.why(word), true), CALL, FRAME, word, site),
    }
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
    // SAFETY: the promise of C; they are only read.
    let (site, frames) = unsafe { (Site::new(site), words(frames.cast_mut(), n)) };
    free((worker, "netmem_pool_free", site), frames, Some(pool))
}

/// Frees frames, all of one pool if one is named.
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
    let is_traced = sites::is_on();
    let mut first = 0;
    let mut refuse = |kind, word| {
        let errno = refused(kind, call, FRAME, word, site);
        first = if first == 0 { errno } else { first };
    };
    for burst in frames.chunks(BATCH_MAX) {
        let mut batch = Batch::new();
        if pool.is_none() && !is_traced {
            take_all(tag.ending(End::Freed), burst, &mut batch, &mut refuse);
        } else {
            let with_care = burst.iter().filter_map(|frame| take(tag, frame.word, pool, &mut refuse));
            batch.extend(with_care.inspect(|frame| {
                if is_traced {
                    sites::note_ended(iter::once(frame.id().get().into()), site);
                }
            }));
        }
        *held -= batch.len() as u64;
        batch.free(worker);
    }
    first
}

/// The frames of words whose use ends.
#[inline(always)]
fn take_all(
    mut ending: Ending<'_>,
    burst: &[netmem_frame],
    batch: &mut Batch,
    mut refuse: impl FnMut(Kind, u64),
) {
    let mut rest = burst;
    loop {
        let near = ending.take_near(rest.iter().map(|frame| frame.word), batch);
        let Some((&netmem_frame { word }, later)) = rest[near..].split_first() else { return };
        rest = later;
        match ending.take_bare(word) {
            Some(frame) => drop(batch.push(frame)),
            None => refuse(Kind::of(ending.why(word), true), word),
        }
    }
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
    let mut worst = 0;
    for (&mut netmem_frame { word }, to) in frames.iter_mut().zip(spans) {
        *to = inside.tag.look(word, span).unwrap_or_else(|| {
            let kind = Kind::of(inside.tag.why(word), false);
            let errno = refused(kind, CALL, FRAME, word, site);
            worst = if worst == 0 { errno } else { worst };
            netmem_span { data: ptr::null_mut(), len: 0, headroom: 0, tailroom: 0 }
        });
    }
    worst
}

fn span(frame: &Frame) -> netmem_span {
    netmem_span {
        data: frame.data().as_ptr().cast_mut().cast(),
        len: frame.len() as u32,
        headroom: frame.headroom() as u16,
        tailroom: frame.tailroom() as u16,
    }
}
