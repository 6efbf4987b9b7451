//! Frames that are being written into an array of the caller.

use crate::limits::BATCH_MAX;
use crate::pool::frame::Frame;
use crate::pool::shared::Shared;
use crate::sync::Worker;
use std::mem::{self, MaybeUninit};

/// The beginning of an array, which holds frames. If it is dropped before all slots are filled, the frames are freed.
pub(in crate::pool) struct Written<'a> {
    places: &'a mut [MaybeUninit<Frame>],
    /// Invariant: this many slots from the front hold frames, and no other code knows of their claims.
    n: usize,
}

impl<'a> Written<'a> {
    /// Starts without frames.
    pub(in crate::pool) fn none(places: &'a mut [MaybeUninit<Frame>]) -> Written<'a> {
        Written { places, n: 0 }
    }

    /// The number of missing frames.
    pub(in crate::pool) fn missing(&self) -> usize {
        self.places.len() - self.n
    }

    /// Takes the missing frames, at most a batch, out of the owner's cache. Returns false, and takes none, if that is
    /// not possible.
    pub(in crate::pool) fn take_hot(&mut self, pool: &Shared, w: &mut Worker) -> bool {
        let n = self.missing().min(BATCH_MAX);
        let taken = pool.take_hot_into(w, &mut self.places[self.n..self.n + n]);
        self.n += if taken { n } else { 0 };
        taken
    }

    /// Makes frames of these numbers. There are no more of them than missing frames.
    pub(in crate::pool) fn give(&mut self, pool: &Shared, ids: &[u32]) {
        pool.give_into(ids, &mut self.places[self.n..self.n + ids.len()]);
        self.n += ids.len();
    }

    /// Leaves the frames to the caller. Returns how many.
    pub(in crate::pool) fn keep(self) -> usize {
        let n = self.n;
        mem::forget(self);
        n
    }
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        for place in &mut self.places[..self.n] {
            // SAFETY: by the invariant the slot holds a frame that no other code claims; it is not read again.
            unsafe { place.assume_init_drop() };
        }
    }
}
