//! Frames that move from the program to a place of the ledger, and back.
//!
//! This file counts the frames that leave a batch, and the frames that are new in it. The code of the place counts
//! separately: see [`FrameState`].

use super::{Batch, Drain, each_pool};
use crate::pool::FrameState;
use crate::pool::frame::Frame;
use crate::pool::frame_table::pool_of;
use crate::sync::Worker;
use std::ops::{Deref, DerefMut};
use std::ptr;

/// Takes frames from the front of a [`Batch`] into a place. Frames that it still has when it is dropped belong to the
/// program again, and stay in the batch.
#[derive(Debug)]
pub(crate) struct HandOver<'a> {
    /// Ends at the end of the frames that are handed over.
    drain: Drain<'a>,
    /// The end of the frames of the batch.
    end: usize,
    place: FrameState,
    w: &'a Worker,
}

impl Batch {
    /// Hands the first `n` frames (or all, if there are fewer) over to `place`. The program does not have them any
    /// more.
    ///
    /// # Cost
    /// No look-up if the batch knows its pool.
    #[inline(always)]
    pub(crate) fn hand_over<'a>(&'a mut self, place: FrameState, w: &'a Worker, n: usize) -> HandOver<'a> {
        let n = n.min(self.len);
        self.each_pool(n, |pool, run| place.hand(pool, Some(w), run.len(), true));
        let mut drain = self.drain();
        let end = std::mem::replace(&mut drain.end, n);
        HandOver { drain, end, place, w }
    }

    /// Empties the first `n` frames ([`Frame::empty_all`]). If none has data, they are not borrowed for change, by which the
    /// batch would forget their pool.
    #[inline(always)]
    pub(crate) fn empty_first(&mut self, n: usize) {
        if Frame::any_has_data(&self[..n]) {
            Frame::empty_used(&mut self[..n]);
        }
    }

    /// Records that the frames from index `before` on came from `place`, and belong to the program again.
    ///
    /// # Cost
    /// No look-up if the batch knows its pool. If it does not and all its frames belong to one pool, it knows that pool
    /// then.
    #[inline(always)]
    pub(crate) fn taken_back(&mut self, place: FrameState, w: &Worker, before: usize) {
        if self.pool.is_null() {
            self.taken_back_and_known(place, w, before);
        } else {
            self.each_pool_from(before, |pool, run| place.hand(pool, Some(w), run.len(), false));
        }
    }

    #[inline(never)]
    fn taken_back_and_known(&mut self, place: FrameState, w: &Worker, before: usize) {
        let (mut pool, mut runs) = (ptr::null(), 0);
        self.each_pool_from(before, |of, run| {
            place.hand(of, Some(w), run.len(), false);
            (pool, runs) = (ptr::from_ref(of), runs + 1);
        });
        if before == 0 && runs == 1 {
            self.pool = pool;
        }
    }
}

impl Frame {
    /// Resets those of `frames` that have data to the state of newly allocated frames: without data, offload and
    /// timestamp, and with the headroom of their pools. Frames without data keep their headroom.
    ///
    /// # Cost
    /// A word read for each frame; a look-up of its pool for each frame that has data.
    #[inline(always)]
    pub(crate) fn empty_all(frames: &mut [Frame]) {
        if Frame::any_has_data(frames) {
            Frame::empty_used(frames);
        }
    }

    #[inline(always)]
    fn any_has_data(frames: &[Frame]) -> bool {
        frames.iter().fold(0, |any, frame| any | frame.len()) != 0
    }

    #[cold]
    fn empty_used(frames: &mut [Frame]) {
        for frame in frames.iter_mut().filter(|frame| !frame.is_empty()) {
            // SAFETY: the frame is out for as long as it is borrowed, and keeps its pool.
            let start = unsafe { (*pool_of(frame)).start };
            frame.begin_at(start.of(frame.id().get()));
        }
    }
}

impl HandOver<'_> {
    /// Skips the next `n` frames without giving them out, because they have been taken by copy.
    ///
    /// # Safety
    /// There are that many, and the code that took them holds each of their claims once.
    #[inline(always)]
    pub(crate) unsafe fn forget(&mut self, n: usize) {
        self.drain.next += n;
    }

    #[cold]
    #[inline(never)]
    fn keep_rest(&mut self) {
        let HandOver { drain, place, w, .. } = self;
        each_pool(drain.as_slice(), drain.batch.pool, |pool, run| {
            place.hand(pool, Some(w), run.len(), false)
        });
    }
}

impl<'a> Deref for HandOver<'a> {
    type Target = Drain<'a>;
    #[inline(always)]
    fn deref(&self) -> &Drain<'a> {
        &self.drain
    }
}

impl DerefMut for HandOver<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.drain
    }
}

impl Iterator for HandOver<'_> {
    type Item = Frame;

    #[inline(always)]
    fn next(&mut self) -> Option<Frame> {
        self.drain.next()
    }

    #[inline(always)]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.drain.size_hint()
    }
}

impl Drop for HandOver<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if self.drain.next != self.drain.end {
            self.keep_rest();
        }
        self.drain.end = self.end;
    }
}
