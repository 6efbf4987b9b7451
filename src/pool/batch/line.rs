//! A line: up to six frames in one cache line, the unit in which frames travel between workers.
//!
//! It carries what its frames have in common, their pool among it: so neither side looks a frame's pool up.

use super::{Batch, Drain, each_pool, initialised};
use crate::limits::CACHE_LINE;
use crate::pool::Place;
use crate::pool::frame::Frame;
use crate::pool::shared::Shared;
use crate::sync::Worker;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

/// Frames that a line holds at most.
pub(crate) const LINE_MAX: usize = 6;

/// Up to [`LINE_MAX`] frames, oldest first, and what whoever sends them says of them all.
///
/// Dropped with frames inside, it counts them back from where they were counted and sends them home by the slow way.
#[repr(C, align(64))]
pub(crate) struct Line<T> {
    /// Null, or the pool that all the frames are of, if there are any: they keep it.
    pool: *const Shared,
    /// What the sender says of the frames.
    pub(crate) label: T,
    len: u8,
    /// Where the frames are counted, if not as the program's.
    place: Option<Place>,
    /// Invariant: the first `len` places are initialised, the others hold no claim.
    frames: [MaybeUninit<Frame>; LINE_MAX],
}

const _: () = assert!(size_of::<Line<[u16; 3]>>() == CACHE_LINE);

// SAFETY: the pool's pointer is followed only while frames of that pool are inside, which keep it; the pool itself
// is Sync.
unsafe impl<T: Send> Send for Line<T> {}

impl<T> Line<T> {
    /// An empty line.
    #[inline]
    pub(crate) fn new(label: T) -> Line<T> {
        let frames = [const { MaybeUninit::uninit() }; LINE_MAX];
        Line { pool: ptr::null(), label, len: 0, place: None, frames }
    }

    /// Frames inside.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        usize::from(self.len)
    }

    /// Frames there is room for.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        LINE_MAX - self.len()
    }

    /// The frames.
    #[inline]
    pub(crate) fn frames(&self) -> &[Frame] {
        // SAFETY: the first `len` places are initialised.
        unsafe { initialised(&self.frames[..self.len()]) }
    }

    /// Counts the frames of `lines` at `place` from now on. Nothing may be added to the lines then.
    ///
    /// # Cost
    /// One addition for lines behind each other whose frames are all of one pool.
    #[inline]
    pub(crate) fn enter(lines: &mut [Line<T>], place: Place, w: &Worker) {
        let (mut pool, mut n) = (ptr::null(), 0);
        for line in lines {
            line.place = Some(place);
            if line.pool != pool {
                // SAFETY: the `n` frames are those of the lines just gone by.
                unsafe { enter_run(pool, place, w, n) };
                (pool, n) = (line.pool, 0);
            }
            n += line.len();
            // SAFETY: a line with frames knows a pool only if it is theirs, and they keep it.
            if line.len > 0 && unsafe { pool.as_ref() }.is_none_or(Shared::is_traced) {
                each_pool(line.frames(), pool, |pool, run| place.count(pool, Some(w), run, true));
                n -= line.len();
            }
        }
        // SAFETY: as above.
        unsafe { enter_run(pool, place, w, n) };
    }

    /// Appends the frames to `batch`, which has room for [`LINE_MAX`] or for all of them; they stay counted where they are:
    /// that is the caller's to change ([`Place::leave_from`]).
    #[inline(always)]
    pub(crate) fn unload(self, batch: &mut Batch) {
        let (line, len) = (ManuallyDrop::new(self), batch.len);
        debug_assert!(batch.room() >= line.len());
        if let Some((places, _)) = batch.frames[len..].split_first_chunk_mut::<LINE_MAX>() {
            // SAFETY: the places hold no claim; all of the line is copied, of which the first `len` are initialised and
            // become the batch's: the line is not dropped.
            *places = unsafe { ptr::read(&line.frames) };
        } else {
            let places = &mut batch.frames[len..][..line.len()];
            // SAFETY: as above, for the initialised ones alone.
            unsafe { ptr::copy_nonoverlapping(line.frames.as_ptr(), places.as_mut_ptr(), places.len()) };
        }
        // SAFETY: that many were just copied to the first free places, of that pool if it is known.
        unsafe { batch.grown(line.len(), line.pool) };
    }
}

/// Counts `n` frames of `pool` at `place`.
///
/// # Safety
/// There are that many frames of that pool, which keep it.
#[inline(always)]
unsafe fn enter_run(pool: *const Shared, place: Place, w: &Worker, n: usize) {
    if n > 0 {
        // SAFETY: the caller's promise.
        unsafe { &*pool }.enter(place, w, n);
    }
}

impl<T> Drop for Line<T> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.len > 0 {
            drop_frames(self);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_frames<T>(line: &mut Line<T>) {
    if let Some(place) = line.place.take() {
        each_pool(line.frames(), line.pool, |pool, run| place.count(pool, None, run, false));
    }
    while let Some(last) = line.len.checked_sub(1) {
        line.len = last;
        // SAFETY: the place was inside `len`, so it is initialised; it is outside now, so it is read once.
        drop(unsafe { line.frames[usize::from(last)].assume_init_read() });
    }
}

impl Drain<'_> {
    /// Moves the next `n` frames (as many as there are and `line` has room for) behind those of `line`; returns how many.
    #[inline]
    pub(crate) fn move_to_line<T>(&mut self, line: &mut Line<T>, n: usize) -> usize {
        let n = n.min(self.end - self.next).min(line.room());
        let (from, len) = (&self.batch.frames[self.next..self.next + n], line.len());
        if let Ok(from) = <&[_; LINE_MAX]>::try_from(from) {
            // SAFETY: as below; an empty line is filled.
            line.frames = unsafe { ptr::read(from) };
        } else {
            // SAFETY: the places from `next` on are initialised, and given up by moving `next`; `line` has room for
            // them behind its own.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), line.frames[len..].as_mut_ptr(), n) };
        }
        self.next += n;
        if len == 0 {
            line.pool = self.batch.pool;
        } else if line.pool != self.batch.pool {
            line.pool = ptr::null();
        }
        line.len = (len + n) as u8;
        n
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Line<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("label", &self.label).field("frames", &self.frames()).finish()
    }
}
