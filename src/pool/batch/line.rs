//! A line: up to six frames in one cache line, the unit in which frames travel between workers.
//!
//! It carries what its frames have in common, their pool among it: so neither side looks a frame's pool up.

use super::{Batch, Drain, each_pool, initialised};
use crate::limits::CACHE_LINE;
use crate::pool::Place;
use crate::pool::frame::Frame;
use crate::pool::shared::Shared;
use crate::sync::Worker;
use std::mem::MaybeUninit;
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

    /// Counts the frames at `place` from now on. Nothing may be added to the line then.
    #[inline]
    pub(crate) fn enter(&mut self, place: Place, w: Option<&Worker>) {
        each_pool(self.frames(), self.pool, |pool, run| place.count(pool, w, run, true));
        self.place = Some(place);
    }

    /// Counts the frames as the program's again, if they were not.
    #[inline]
    fn leave(&mut self, w: Option<&Worker>) {
        if let Some(place) = self.place.take() {
            each_pool(self.frames(), self.pool, |pool, run| place.count(pool, w, run, false));
        }
    }

    /// Appends the frames to `batch`, counted as the program's, as many as it has room for; the others are dropped.
    #[inline]
    pub(crate) fn unload(mut self, w: &Worker, batch: &mut Batch) {
        self.leave(Some(w));
        let len = self.len();
        let n = len.min(batch.room());
        let kept = self.frames[n..len].as_ptr();
        // SAFETY: the first `len` places are initialised; the batch, which has room behind its own, takes the first `n`
        // by copy, and what is left moves to the front.
        unsafe {
            ptr::copy_nonoverlapping(self.frames.as_ptr(), batch.frames[batch.len..].as_mut_ptr(), n);
            batch.grown(n, self.pool);
            ptr::copy(kept, self.frames.as_mut_ptr(), len - n);
        }
        self.len = (len - n) as u8;
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
    line.leave(None);
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
        let (from, len) = (self.batch.frames[self.next..self.next + n].as_ptr(), line.len());
        // SAFETY: the places from `next` on are initialised, and given up by moving `next`; `line` has room for them
        // behind its own.
        unsafe { ptr::copy_nonoverlapping(from, line.frames[len..].as_mut_ptr(), n) };
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
