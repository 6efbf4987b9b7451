//! The pool of the frames inside a queue.
//!
//! Code that keeps frames counts by pool what goes in and what comes back. While all frames inside a queue belong to
//! one pool (by far the usual case), neither direction looks up the pool of a frame.

use super::batch::Batch;
use super::frame::Frame;
use super::frame_state::FrameState;
use super::frame_table::each_pool;
use super::shared::Shared;
use crate::sync::Worker;
use std::mem::MaybeUninit;
use std::ptr;

/// The frames inside one queue: their number, their pool, and the place of the ledger that the queue is.
#[derive(Debug)]
pub(crate) struct Origin {
    place: FrameState,
    inside: usize,
    /// Null, or the pool that all the frames inside belong to, if there are any: the frames keep the pool.
    pool: *const Shared,
}

// SAFETY: the pointer is followed only while frames of that pool are inside or just claimed, which keep it; the pool
// itself is Sync.
unsafe impl Send for Origin {}

impl Origin {
    /// Makes an empty queue at `place`.
    pub(crate) fn new(place: FrameState) -> Origin {
        Origin { place, inside: 0, pool: ptr::null() }
    }

    /// The number of frames inside.
    pub(crate) fn inside(&self) -> usize {
        self.inside
    }

    /// Records that the first `n` frames of `batch` go in. Called just before they are handed over.
    #[inline]
    pub(crate) fn enter(&mut self, w: &Worker, batch: &Batch, n: usize) {
        batch.each_pool(n, |pool, run| {
            self.place.say(pool, Some(w), run, true);
            if self.inside == 0 {
                self.pool = pool;
            } else if !ptr::eq(self.pool, pool) {
                self.pool = ptr::null();
            }
            self.inside += run.len();
        });
    }

    /// Records that the last `n` frames of `batch` came back. Called just after they were claimed.
    #[inline]
    pub(crate) fn leave(&mut self, w: &Worker, batch: &Batch, n: usize) {
        let frames = &batch[batch.len() - n..];
        each_pool(frames, self.pool, |pool, run| self.place.say(pool, Some(w), run, false));
        self.inside -= n;
    }

    /// Records that `n` of the frames inside were freed by themselves, and were counted back there.
    #[cfg(feature = "memif")]
    #[cold]
    pub(crate) fn lose(&mut self, n: usize) {
        self.inside -= n;
    }
}

impl Batch {
    /// Appends the frames that `take` writes into the free slots. `take` returns how many it wrote, from the first slot
    /// on, and their pool if it is known. Returns how many.
    ///
    /// # Safety
    /// `take` initialises that many slots with frames whose claims belong to the batch from then on.
    #[inline]
    pub(crate) unsafe fn grow(
        &mut self,
        take: impl FnOnce(&mut [MaybeUninit<Frame>]) -> usize,
        origin: &Origin,
    ) -> usize {
        let n = take(self.places());
        // SAFETY: the caller's promise.
        unsafe { self.grown(n, origin.pool) };
        n
    }
}
