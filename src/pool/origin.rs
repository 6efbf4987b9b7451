//! Which pool the frames inside a queue are of.
//!
//! Whoever keeps frames counts what goes in and what comes back by pool. While all that is inside a queue is of one pool
//! (the usual case by far), neither direction looks a frame's pool up.

use super::batch::Batch;
use super::frame::Frame;
use super::frame_table::each_pool;
use super::place::Place;
use super::shared::Shared;
use crate::sync::Worker;
use std::mem::MaybeUninit;
use std::ptr;

/// The frames inside one queue: how many, of which pool, and which place of the ledger the queue is.
#[derive(Debug)]
pub(crate) struct Origin {
    place: Place,
    inside: usize,
    /// Null, or the pool that all the frames inside are of, if there are any: they keep it.
    pool: *const Shared,
}

// SAFETY: the pointer is followed only while frames of that pool are inside or just claimed, which keep it; the pool
// itself is Sync.
unsafe impl Send for Origin {}

impl Origin {
    /// An empty queue at `place`.
    pub(crate) fn new(place: Place) -> Origin {
        Origin { place, inside: 0, pool: ptr::null() }
    }

    /// Frames inside.
    pub(crate) fn inside(&self) -> usize {
        self.inside
    }

    /// Says that the first `n` frames of `batch` go in, just before they are handed over.
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

    /// Says that the last `n` frames of `batch` came back, just after they were claimed.
    #[inline]
    pub(crate) fn leave(&mut self, w: &Worker, batch: &Batch, n: usize) {
        let frames = &batch[batch.len() - n..];
        each_pool(frames, self.pool, |pool, run| self.place.say(pool, Some(w), run, false));
        self.inside -= n;
    }

    /// Takes note that `n` of the frames inside went home by themselves, and were counted back there.
    #[cold]
    pub(crate) fn lose(&mut self, n: usize) {
        self.inside -= n;
    }
}

impl Batch {
    /// Appends what `take` writes into the free places; it returns how many, from the first on, and of which pool if
    /// that is known. Returns how many.
    ///
    /// # Safety
    /// `take` initialises that many places, with frames whose claims are the batch's from then on.
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
