//! The places of the ledger: frames move into them from the program, and back.
//!
//! Such a move is counted twice, by different code, so that an error in one of the two shows:
//!
//! ```text
//!   by device or queue   FrameState::enter_batch, FrameState::leave_last   the code of the ring or stack: frames that entered and left
//!   by batch             Batch::hand_over, Batch::taken_back     the batch: claims that left it, and new claims in it
//! ```
//! The first count is the ledger's `posted` and `queued`. The second is a part of its `owned`. A run of frames of one
//! pool is one addition in each. [`FrameState::leave`] and [`FrameState::take_back`] count frames that leave a state without a
//! batch, for example when a queue is dropped. [`FrameState::enter_apart`] and [`FrameState::leave_apart`] count frames that come
//! and go inside of packets.

use super::batch::Batch;
use super::frame::Frame;
use super::frame_table::{each_pool, each_pool_apart};
use super::shared::{PoolLane, Shared};
#[cfg(all(test, not(loom)))]
use super::tests::planted;
use crate::stats::Count;
use crate::sync::Worker;
use std::ptr;

/// The state of a frame that the program neither owns nor has freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameState {
    /// In a ready pool, attached to a head.
    Ready,
    /// With a device.
    Posted,
    /// In a hand-off queue to another worker.
    Queued,
}

impl FrameState {
    pub(super) const ALL: [FrameState; 3] = [FrameState::Ready, FrameState::Posted, FrameState::Queued];

    /// The name of the state in a report.
    pub(super) fn name(self) -> &'static str {
        match self {
            FrameState::Ready => "in a ready pool",
            FrameState::Posted => "with a device",
            FrameState::Queued => "in a queue",
        }
    }

    /// Counts the first `n` frames of a batch as coming here, for the device or queue. Called just before they come.
    /// No look-up if the batch knows its pool.
    #[inline]
    pub(crate) fn enter_batch(self, w: &Worker, batch: &Batch, n: usize) {
        batch.each_pool(n, |pool, run| self.say(pool, Some(w), run, true));
    }

    /// Counts the last `n` frames of a batch as leaving, for the device or queue. Called just after they came from
    /// here. No look-up if the batch knows its pool.
    #[inline]
    pub(crate) fn leave_last(self, w: &Worker, batch: &Batch, n: usize) {
        let first = batch.len().saturating_sub(n);
        batch.each_pool_from(first, |pool, run| self.say(pool, Some(w), run, false));
    }

    /// Counts `frames` as leaving, for the device or queue. Without a worker it costs a locked instruction for each
    /// run of one pool.
    #[inline]
    pub(crate) fn leave(self, w: Option<&Worker>, frames: &[Frame]) {
        each_pool(frames, ptr::null(), |pool, run| self.say(pool, w, run, false));
    }

    /// Counts the claims of `frames` as the program's again, for frames that are in no batch.
    #[inline]
    pub(crate) fn take_back(self, w: Option<&Worker>, frames: &[Frame]) {
        each_pool(frames, ptr::null(), |pool, run| self.hand(pool, w, run.len(), false));
    }

    /// Counts `frames` as coming here, in both counts.
    #[cfg(test)]
    pub(crate) fn enter(self, w: Option<&Worker>, frames: &[Frame]) {
        each_pool(frames, ptr::null(), |pool, run| {
            self.say(pool, w, run, true);
            self.hand(pool, w, run.len(), true);
        });
    }

    /// Counts `frames` as the program's again, in both counts, for frames that are in no batch. Without a worker each
    /// count costs a locked instruction for each run of one pool.
    #[inline]
    pub(crate) fn fetch(self, w: Option<&Worker>, frames: &[Frame]) {
        self.leave(w, frames);
        self.take_back(w, frames);
    }

    /// Counts frames that lie apart as coming here, in both counts.
    #[inline(always)]
    pub(crate) fn enter_apart<'a>(self, w: &Worker, frames: impl Iterator<Item = &'a Frame> + Clone) {
        self.pass_apart(w, frames, true);
    }

    /// Counts frames that lie apart as the program's again, in both counts.
    #[inline(always)]
    pub(crate) fn leave_apart<'a>(self, w: &Worker, frames: impl Iterator<Item = &'a Frame> + Clone) {
        self.pass_apart(w, frames, false);
    }

    #[inline(always)]
    fn pass_apart<'a>(self, w: &Worker, frames: impl Iterator<Item = &'a Frame> + Clone, comes: bool) {
        each_pool_apart(frames, |pool, n, run| {
            self.add(pool, Some(w), n, comes, |lane| &lane.said);
            self.hand(pool, Some(w), n, comes);
            if pool.is_traced() {
                pool.note_state(run.map(Frame::id), comes.then_some(self));
            }
        });
    }

    /// Counts, for the device or queue, that a run of frames of `pool` comes or leaves (the counters wrap).
    #[inline(always)]
    pub(super) fn say(self, pool: &Shared, w: Option<&Worker>, run: &[Frame], comes: bool) {
        self.add(pool, w, run.len(), comes, |lane| &lane.said);
        if pool.is_traced() {
            pool.note_state(run.iter().map(Frame::id), comes.then_some(self));
        }
    }

    /// Counts, for the holder of the claims, that the claims of `n` frames of `pool` are given up or made again (the
    /// counters wrap).
    #[inline(always)]
    pub(super) fn hand(self, pool: &Shared, w: Option<&Worker>, n: usize, over: bool) {
        self.add(pool, w, n, over, |lane| &lane.handed);
    }

    #[inline(always)]
    fn add(
        self,
        pool: &Shared,
        w: Option<&Worker>,
        n: usize,
        more: bool,
        of: impl Fn(&PoolLane) -> &[Count; FrameState::ALL.len()],
    ) {
        let n = n as u64;
        let n = if more { n } else { n.wrapping_neg() };
        #[cfg(all(test, not(loom)))]
        if planted::strikes(self, pool, w, n, &of) {
            return;
        }
        match w {
            Some(w) => pool.lanes.add(w, n, |lane| &of(lane)[self as usize]),
            None => of(pool.lanes.shared_lane())[self as usize].add_shared(n),
        }
    }
}
