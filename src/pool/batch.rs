//! The batch: up to 64 frames in order, the unit in which everything moves.

use super::frame::Frame;
use super::shared::Shared;
use super::yard;
use crate::limits::BATCH_MAX;
use crate::sync::Worker;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};

/// Up to [`BATCH_MAX`] frames, oldest first; derefs to a slice of them.
///
/// Dropped with frames inside, it sends them home by the slow way; [`Batch::free`] is the fast one.
pub struct Batch {
    /// Invariant: the first `len` places are initialised, the others hold no claim.
    frames: [MaybeUninit<Frame>; BATCH_MAX],
    len: usize,
}

impl Batch {
    /// An empty batch.
    #[inline]
    pub fn new() -> Batch {
        Batch { frames: [const { MaybeUninit::uninit() }; BATCH_MAX], len: 0 }
    }

    /// Frames there is room for.
    #[inline(always)]
    pub fn room(&self) -> usize {
        BATCH_MAX - self.len
    }

    /// Appends a frame.
    ///
    /// # Errors
    /// The frame, when the batch is full.
    #[inline(always)]
    pub fn push(&mut self, frame: Frame) -> Result<(), Frame> {
        let Some(place) = self.frames.get_mut(self.len) else { return Err(frame) };
        place.write(frame);
        self.len += 1;
        Ok(())
    }

    /// Takes the newest frame.
    #[inline]
    pub fn pop(&mut self) -> Option<Frame> {
        self.len = self.len.checked_sub(1)?;
        // SAFETY: the place was inside `len`, so it is initialised; it is outside now, so it is read once.
        Some(unsafe { self.frames[self.len].assume_init_read() })
    }

    /// Takes frames from the front, oldest first; what the iterator does not take stays in the batch.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let end = std::mem::take(&mut self.len);
        Drain { batch: self, next: 0, end }
    }

    /// Moves frames from the front of `other` until this batch is full or `other` empty; returns how many.
    #[inline]
    pub fn append(&mut self, other: &mut Batch) -> usize {
        let n = other.len.min(self.room());
        let mut drain = other.drain();
        for place in &mut self.frames[self.len..self.len + n] {
            if let Some(frame) = drain.next() {
                place.write(frame);
            }
        }
        self.len += n;
        n
    }

    /// Sends all frames home through the worker, in bulk, grouped by the pool they are of.
    ///
    /// # Cost
    /// Frames of a pool that the worker owns: a byte of the yard and a place in the cache each, no locked
    /// instruction. Others: one CAS for each run of one pool.
    #[inline]
    pub fn free(&mut self, w: &mut Worker) {
        let end = std::mem::take(&mut self.len);
        let mut at = 0;
        while at < end {
            // SAFETY: the places up to `end` are initialised and no longer counted by `len`: their claims are
            // this function's, and each is ended once, by `free_run` for its run.
            let run = unsafe { run_at(&self.frames[at..end]) };
            let ids = run.iter().map(|frame| frame.id().get());
            // SAFETY: as above; the frames are out until `free_run` puts them down, and keep yard and pool.
            unsafe { Shared::free_run(yard::of(run[0].id()).pool(run[0].id()), Some(&mut *w), ids) };
            at += run.len();
        }
    }
}

/// The longest run of frames of one pool at the beginning of `places`, which are not empty.
///
/// # Safety
/// All of `places` are initialised.
#[inline(always)]
unsafe fn run_at(places: &[MaybeUninit<Frame>]) -> &[Frame] {
    // SAFETY: MaybeUninit<Frame> has Frame's layout and all places are initialised.
    let frames = unsafe { std::slice::from_raw_parts(places.as_ptr().cast::<Frame>(), places.len()) };
    // SAFETY: the frames are out, so their yard lives.
    let yard = unsafe { yard::of(frames[0].id()) };
    let home = yard.home(frames[0].id());
    let n = frames.iter().take_while(|frame| yard.home(frame.id()) == home).count();
    &frames[..n.max(1)]
}

impl Default for Batch {
    fn default() -> Self {
        Batch::new()
    }
}

impl Deref for Batch {
    type Target = [Frame];
    #[inline(always)]
    fn deref(&self) -> &[Frame] {
        // SAFETY: the first `len` places are initialised and MaybeUninit<Frame> has Frame's layout.
        unsafe { std::slice::from_raw_parts(self.frames.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Batch {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [Frame] {
        // SAFETY: as in `deref`, and `&mut self` is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.frames.as_mut_ptr().cast(), self.len) }
    }
}

impl Drop for Batch {
    #[inline]
    fn drop(&mut self) {
        if self.len > 0 {
            drop_rest(self);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_rest(batch: &mut Batch) {
    while batch.pop().is_some() {}
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Takes frames from the front of a [`Batch`]; when it is dropped the rest moves up.
#[derive(Debug)]
pub struct Drain<'a> {
    /// Its `len` is 0 meanwhile: a leaked Drain leaks frames and breaks nothing else.
    batch: &'a mut Batch,
    next: usize,
    end: usize,
}

impl Iterator for Drain<'_> {
    type Item = Frame;

    #[inline(always)]
    fn next(&mut self) -> Option<Frame> {
        if self.next == self.end {
            return None;
        }
        // SAFETY: places from `next` to `end` are initialised; `next` moves on, so each is read once.
        let frame = unsafe { self.batch.frames[self.next].assume_init_read() };
        self.next += 1;
        Some(frame)
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.end - self.next, Some(self.end - self.next))
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline]
    fn drop(&mut self) {
        let left = self.end - self.next;
        if left > 0 && self.next > 0 {
            let frames = self.batch.frames.as_mut_ptr();
            // SAFETY: both ranges lie within the array; the moved places are initialised, and those left behind
            // are outside the new length.
            unsafe { std::ptr::copy(frames.add(self.next), frames, left) };
        }
        self.batch.len = left;
    }
}
