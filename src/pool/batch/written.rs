//! Frames that are being written into an array of the caller's own.

use crate::limits::BATCH_MAX;
use crate::pool::frame::Frame;
use crate::pool::shared::Shared;
use crate::sync::Worker;
use std::mem::{self, MaybeUninit};

/// The beginning of an array, which holds frames; dropped before all are there, they go home.
pub(in crate::pool) struct Written<'a> {
    places: &'a mut [MaybeUninit<Frame>],
    /// Invariant: so many places from the front on hold frames, of whose claims nobody else knows.
    n: usize,
}

impl<'a> Written<'a> {
    /// None yet.
    pub(in crate::pool) fn none(places: &'a mut [MaybeUninit<Frame>]) -> Written<'a> {
        Written { places, n: 0 }
    }

    /// How many are missing.
    pub(in crate::pool) fn missing(&self) -> usize {
        self.places.len() - self.n
    }

    /// Takes as many as are missing, or a batch, out of the owner's cache; false, and none was taken, where that cannot be.
    pub(in crate::pool) fn take_hot(&mut self, pool: &Shared, w: &mut Worker) -> bool {
        let n = self.missing().min(BATCH_MAX);
        let taken = pool.take_hot_into(w, &mut self.places[self.n..self.n + n]);
        self.n += if taken { n } else { 0 };
        taken
    }

    /// Makes frames of these numbers, which are no more than are missing.
    pub(in crate::pool) fn give(&mut self, pool: &Shared, ids: &[u32]) {
        pool.give_into(ids, &mut self.places[self.n..self.n + ids.len()]);
        self.n += ids.len();
    }

    /// The caller has them now: how many.
    pub(in crate::pool) fn keep(self) -> usize {
        let n = self.n;
        mem::forget(self);
        n
    }
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        for place in &mut self.places[..self.n] {
            // SAFETY: by the invariant it holds a frame that nobody else claims; it is not looked at again.
            unsafe { place.assume_init_drop() };
        }
    }
}
