//! The places of the ledger that frames move into from the program's hands, and out of again.
//!
//! Whoever keeps frames at such a place says so by what is here: just before it gives the claims up (or puts the frames
//! where they are to lie), and just after it has them again. A run of frames of one pool is one addition.

use super::batch::{Batch, each_pool};
use super::frame::Frame;
use super::shared::Shared;
use crate::sync::Worker;
use std::ptr;

/// Where frames are that the program has neither in its hands nor given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// In a ready pool, attached to a head.
    Ready,
    /// With a device.
    Posted,
    /// In a hand-off queue to another worker.
    Queued,
}

impl Place {
    pub(super) const ALL: [Place; 3] = [Place::Ready, Place::Posted, Place::Queued];

    /// In the words of a report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Place::Ready => "in a ready pool",
            Place::Posted => "with a device",
            Place::Queued => "in a queue",
        }
    }

    /// `frames` come here: owned → here. Without a worker it costs a locked instruction for each run of one pool.
    #[inline]
    #[cfg(test)]
    pub(crate) fn enter(self, w: Option<&Worker>, frames: &[Frame]) {
        each_pool(frames, ptr::null(), |pool, run| self.count(pool, w, run, true));
    }

    /// `frames` leave: here → owned.
    #[inline]
    pub(crate) fn leave(self, w: Option<&Worker>, frames: &[Frame]) {
        each_pool(frames, ptr::null(), |pool, run| self.count(pool, w, run, false));
    }

    /// As [`Place::enter`] for the first `n` frames of a batch; no look-up where the batch knows its pool.
    #[inline]
    pub(crate) fn enter_batch(self, w: Option<&Worker>, batch: &Batch, n: usize) {
        batch.each_pool(n, |pool, run| self.count(pool, w, run, true));
    }

    /// As [`Place::leave`] for the first `n` frames of a batch; no look-up where the batch knows its pool.
    #[inline]
    pub(crate) fn leave_batch(self, w: Option<&Worker>, batch: &Batch, n: usize) {
        batch.each_pool(n, |pool, run| self.count(pool, w, run, false));
    }

    /// As [`Place::leave`] for the frames of a batch from the one at `first` on; no look-up where the batch knows its pool.
    #[inline]
    pub(crate) fn leave_from(self, w: &Worker, batch: &Batch, first: usize) {
        batch.each_pool_from(first, |pool, run| self.count(pool, Some(w), run, false));
    }

    /// A run of frames of `pool` comes here or leaves (the counters wrap).
    #[inline(always)]
    pub(super) fn count(self, pool: &Shared, w: Option<&Worker>, run: &[Frame], enter: bool) {
        let n = run.len() as u64;
        let n = if enter { n } else { n.wrapping_neg() };
        match w {
            Some(w) => pool.lanes.add(w, n, |lane| &lane.places[self as usize]),
            None => pool.lanes.strangers().places[self as usize].add_shared(n),
        }
        if pool.is_traced() {
            pool.note_place(run.iter().map(Frame::id), enter.then_some(self));
        }
    }
}
