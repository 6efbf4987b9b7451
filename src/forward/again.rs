//! Frames that the decision has a second time: those that waited, those that are cut, and replies made of dropped ones. COLD.

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

    /// Lets frames wait; what the decision does not take is dropped.
    pub(super) fn wait_all(&mut self, from: Source, frames: &mut Batch, w: &mut Worker) {
        self.decision.wait(from, frames);
        self.waiting = self.decision.waiting();
        self.lose(None, Reason::NeighQueueFull, frames, w);
    }

    /// Decides about frames that need not wait any more: something has changed.
    ///
    /// What goes back to the worker that transmits it takes with it all that waits for that port here. So where frames travel
    /// this happens while nothing waits for a port, as with all that is taken in (ADR 0018).
    #[cold]
    #[inline(never)]
    pub(super) fn resume(&mut self, w: &mut Worker) {
        self.has_changed = true;
        while self.steering.is_none() || self.is_settled() {
            let Some((from, mut frames)) = self.decision.resume() else {
                self.has_changed = false;
                break;
            };
            // As frames, also where they came as packets: the rules were asked then.
            let mut verdicts = Verdicts::new();
            self.decision.decide_again(from, &mut frames, &mut verdicts);
            self.carry_out(&verdicts, from, &mut frames, w);
            self.leave(from, w);
        }
        self.waiting = self.decision.waiting();
    }

    /// Has the next `n` frames of a burst cut, each into several.
    #[cold]
    #[inline(never)]
    pub(super) fn fragment(&mut self, from: Source, burst: &mut Drain<'_>, n: usize, w: &mut Worker) {
        let mut frames = Batch::new();
        burst.move_to(&mut frames, n);
        self.fragment_all(from, &mut frames, w);
    }

    /// Has frames cut, and sends the pieces; a frame that is not cut is dropped whole. One that stands for several segments is cut into
    /// those before.
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
                    // What of several packets waits for one port may be more than it has room for, and would leave by this worker's
                    // queue also where another is to transmit it.
                    if self.steering.is_some() {
                        self.leave(from, w);
                    }
                    self.carry_out(&verdicts, from, &mut frames, w);
                }
                // There is room: no more come back than there were.
                Err(frame) => drop(whole.push(frame)),
            }
        }
        self.lose(None, Reason::FragNeeded, &mut whole, w);
    }

    /// Has replies made of frames that came from there and were dropped for `reason`, and sends them; the others stay in
    /// `dropped`.
    #[cold]
    #[inline(never)]
    pub(super) fn answer(&mut self, from: Source, reason: Reason, dropped: &mut Batch, w: &mut Worker) {
        let mut replies = Replies::new();
        self.decision.answer(from, reason, dropped, &mut replies);
        let Replies { mut frames, verdicts } = replies;
        self.meters.originated.add(frames.len() as u64);
        self.decision.made(&frames);
        self.carry_out(&verdicts, from, &mut frames, w);
    }
}
