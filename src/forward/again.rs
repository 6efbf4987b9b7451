//! Frames that the decision gets a second time: frames that waited, frames to be cut, and replies made of dropped
//! frames. COLD.

use super::decide::{Pieces, Replies, Verdicts};
use super::poll::Forwarder;
use super::verdict::Reason;
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Drain};
use crate::steer::Source;
use crate::sync::Worker;

impl Forwarder {
    /// Lets the next `n` frames of a burst wait.
    #[cold]
    #[inline(never)]
    pub(super) fn wait(&mut self, from: Source, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        let mut frames = Batch::new();
        burst.move_to(&mut frames, n);
        self.wait_all(from, &mut frames, w);
    }

    /// Lets frames wait. Frames that the decision does not take are dropped.
    pub(super) fn wait_all(&mut self, from: Source, frames: &mut Batch, w: &mut Worker) {
        self.decision.wait(from, frames);
        self.waiting = self.decision.waiting();
        self.lose(None, Reason::NeighQueueFull, frames, w);
    }

    /// Decides about frames that need not wait any more, because something has changed.
    ///
    /// Frames that go back to the worker that transmits them take along all frames that wait for that port here. So
    /// with steering this happens only while nothing waits for a port, as with all other intake (ADR 0018).
    ///
    /// Frames that wait again could be resumed without end. So a call ends after as many as waited when it began, and the
    /// next call goes on.
    #[cold]
    #[inline(never)]
    pub(super) fn resume(&mut self, w: &mut Worker) {
        self.has_changed = true;
        let (most, mut resumed) = (self.decision.waiting(), 0);
        while self.steering.is_none() || self.is_settled() {
            let Some((from, mut frames)) = self.decision.resume() else {
                self.has_changed = false;
                break;
            };
            let n = frames.len();
            resumed += n.max(1);
            // As frames, also if they came as packets: the rules were applied then.
            let mut verdicts = Verdicts::new();
            self.decision.decide_again(from, &mut frames, &mut verdicts);
            self.count_changed(n, frames.len());
            self.come_from(from);
            self.carry_out(&verdicts, from, &mut frames, w);
            self.leave(w);
            if resumed >= most {
                break;
            }
        }
        self.waiting = self.decision.waiting();
    }

    /// Counts the frames that a decision took out of a burst of `before` frames, or added to it.
    #[cold]
    #[inline(never)]
    pub(super) fn count_changed(&mut self, before: usize, after: usize) {
        self.meters.passed.add(before.saturating_sub(after) as u64);
        self.meters.originated.add(after.saturating_sub(before) as u64);
    }

    /// Has the next `n` frames of a burst cut, each into several.
    #[cold]
    #[inline(never)]
    pub(super) fn fragment(&mut self, from: Source, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        let mut frames = Batch::new();
        burst.move_to(&mut frames, n);
        self.fragment_all(from, &mut frames, w);
    }

    /// Has frames cut, and sends the pieces. A frame that is not cut is dropped as a whole. A frame that stands for
    /// several segments is cut into its segments first.
    pub(super) fn fragment_all(&mut self, from: Source, frames: &mut Batch, w: &mut Worker) {
        if !frames.may_have_offloads() {
            return self.fragment_complete(from, frames, w);
        }
        for frame in frames.drain() {
            self.complete_each(frame, w, |forwarder, done, w| {
                forwarder.fragment_complete(from, done, w);
                BATCH_MAX
            });
        }
    }

    fn fragment_complete(&mut self, from: Source, frames: &mut Batch, w: &mut Worker) {
        let mut whole = Batch::new();
        for frame in frames.drain() {
            let mut pieces = Pieces::new(&frame, &self.pool, w);
            match self.decision.fragment(from, frame, &mut pieces) {
                Ok(()) => {
                    let Replies { mut frames, verdicts } = pieces.into_replies();
                    self.meters.fragmented.add(1);
                    self.meters.fragments.add(frames.len() as u64);
                    self.decision.made(&frames);
                    self.carry_out(&verdicts, from, &mut frames, w);
                }
                // There is room: no more come back than there were.
                Err(frame) => drop(whole.push(frame)),
            }
        }
        self.lose(None, Reason::FragFailed, &mut whole, w);
    }

    /// Has replies made of frames from `from` that were dropped for `reason`, and sends them. The others stay in
    /// `dropped`. A reply that is dropped itself is not answered: replies to replies would have no end.
    #[cold]
    #[inline(never)]
    pub(super) fn answer(&mut self, from: Source, reason: Reason, dropped: &mut Batch, w: &mut Worker) {
        if self.is_answering {
            return;
        }
        let mut replies = Replies::new();
        self.decision.answer(from, reason, dropped, &mut replies);
        let Replies { mut frames, verdicts } = replies;
        self.meters.originated.add(frames.len() as u64);
        self.decision.made(&frames);
        self.is_answering = true;
        self.carry_out(&verdicts, from, &mut frames, w);
        self.is_answering = false;
    }
}

#[cfg(test)]
mod tests;
