//! HOT: the calls by which a worker gives frames to others: by the policy or to a named worker, with frames that do not
//! fit staying or dropped.

use super::{Choice, Outbox};
use crate::limits::BATCH_MAX;
use crate::pool::Batch;
use crate::steer::label::Source;
use crate::steer::lane::GONE;
use crate::steer::outgoing::By;
use crate::sync::Worker;

impl Outbox {
    /// Steers frames that were received from one place. Frames for this worker itself go to `own`. The others are
    /// listed for their workers, and sent at the end of the round by [`Outbox::flush`]. Returns how many frames left
    /// `frames`.
    ///
    /// Frames that do not fit stay in `frames`, in order: frames for a worker whose inbox has no room (or no reader,
    /// see [`Outbox::has_reader`]), and this worker's own if `own` has no room. Nothing is dropped, except by a [flow
    /// limit](crate::steer::MeshConfig::flow_limit), if one is set. [`Outbox::steer_or_drop`] drops instead.
    ///
    /// Order within a flow depends on two rules. The frames in `own` are forwarded before the next call of any method.
    /// Frames that stayed are steered before frames that were received later; they come first in the same batch:
    /// ```
    /// # use netmem::{pool::Batch, port::Port, steer::{Outbox, Source}, sync::Worker};
    /// # fn forward(_: &mut Batch) {}
    /// # fn round(w: &mut Worker, port: &mut impl Port, outbox: &mut Outbox, received: &mut Batch) {
    /// let mut own = Batch::new();
    /// port.rx(w, received); // behind what stayed in the round before
    /// let _taken = outbox.steer(w, Source { port: 0, queue: 0 }, received, &mut own);
    /// forward(&mut own);
    /// outbox.flush(w);
    /// # }
    /// ```
    /// While a worker waits for room in this way, it must go on taking from its own inbox. Otherwise two workers could
    /// wait for each other.
    ///
    /// # Cost
    /// 8 bytes copied for each frame. By flow (several workers for the queue), also each frame's first line and its
    /// hash.
    #[inline]
    #[must_use = "frames that did not fit are still in the batch"]
    pub fn steer(&mut self, w: &mut Worker, from: Source, frames: &mut Batch, own: &mut Batch) -> usize {
        let (mut targets, before, kept) = ([self.own; BATCH_MAX], frames.len(), own.len());
        match self.choice(from, frames, &mut targets) {
            Choice::One(worker) if worker == self.own && self.is_direct() => drop(own.append(frames)),
            Choice::One(worker) => self.list_all(w, usize::from(worker), frames, (from, By::Policy)),
            Choice::Each => self.scatter(w, from, (frames, own), &mut targets),
        }
        self.counts.kept.add((own.len() - kept) as u64);
        before - frames.len()
    }

    /// Steers frames as [`Outbox::steer`] does, and drops those that do not fit. Nothing waits. Frames for this worker
    /// itself stay in `frames`, in order. Dropped frames are freed in bulk and counted
    /// ([`HandOffDrops`](crate::steer::HandOffDrops)).
    ///
    /// # Cost
    /// The cost of [`Outbox::steer`]; nothing is copied if all frames belong to this worker.
    #[inline]
    pub fn steer_or_drop(&mut self, w: &mut Worker, from: Source, frames: &mut Batch) {
        let mut targets = [self.own; BATCH_MAX];
        match self.choice(from, frames, &mut targets) {
            Choice::One(worker) if worker == self.own && self.is_direct() => {}
            Choice::One(worker) => {
                let worker = usize::from(worker);
                self.list_all(w, worker, frames, (from, By::Policy));
                self.drop_rest(w, worker, frames);
            }
            Choice::Each => {
                let mut own = Batch::new();
                self.scatter(w, from, (frames, &mut own), &mut targets);
                if !frames.is_empty() {
                    self.drop_each(w, frames, &targets);
                }
                *frames = own;
            }
        }
        self.counts.kept.add(frames.len() as u64);
    }

    /// Lists frames from the front of `frames` for `worker`, which may be this one, whatever the policy is, as many as
    /// its inbox has room for. [`Outbox::flush`] sends them. Returns the number listed. The others stay in `frames`, in
    /// order. No flow limit applies.
    ///
    /// # Panics
    /// Panics if there is no such worker.
    #[inline]
    #[must_use = "frames that did not fit are still in the batch"]
    pub fn hand_off(&mut self, w: &mut Worker, worker: usize, from: Source, frames: &mut Batch) -> usize {
        let before = frames.len();
        self.list_all(w, worker, frames, (from, By::Caller));
        before - frames.len()
    }

    /// As [`Outbox::hand_off`], but nothing waits: frames that do not fit are dropped, freed in bulk and counted
    /// ([`HandOffDrops`](crate::steer::HandOffDrops)). `frames` is empty afterwards.
    ///
    /// # Panics
    /// Panics if there is no such worker.
    #[inline]
    pub fn hand_off_or_drop(&mut self, w: &mut Worker, worker: usize, from: Source, frames: &mut Batch) {
        self.list_all(w, worker, frames, (from, By::Caller));
        self.drop_rest(w, worker, frames);
    }

    /// Number of frames that can be listed for `worker` now: the room of its inbox less the frames already listed. It
    /// grows when `worker` comes back for more, and shrinks only by frames that this outbox lists. 0 if no worker reads
    /// the inbox.
    ///
    /// # Panics
    /// Panics if there is no such worker.
    ///
    /// # Cost
    /// One line of the reader's.
    pub fn room(&mut self, worker: usize) -> usize {
        self.out[worker].look();
        self.out[worker].room(u32::MAX) as usize
    }

    /// Returns whether the inbox of `worker` is read, by the worker or by its heir. If it is not, nothing fits into it
    /// any more. Frames that were listed and not sent are dropped at the next [`Outbox::flush`] and counted as `gone`.
    /// Frames that waited are counted as `lost`.
    ///
    /// # Panics
    /// Panics if there is no such worker.
    pub fn has_reader(&self, worker: usize) -> bool {
        self.out[worker].lane.progress().reader() != GONE
    }

    /// Counts a batch, and chooses the worker of each of its frames.
    #[inline]
    fn choice(&mut self, from: Source, frames: &Batch, targets: &mut [u8; BATCH_MAX]) -> Choice {
        self.batches = self.batches.wrapping_add(1);
        self.choose(from.queue, frames, targets)
    }

    /// Lists frames from the front, as many as there is room for.
    #[inline]
    fn list_all(&mut self, w: &mut Worker, worker: usize, frames: &mut Batch, listing: (Source, By)) {
        let n = frames.len();
        self.list(w, worker, &mut frames.drain(), n, listing);
    }

    #[inline]
    fn drop_rest(&mut self, w: &mut Worker, worker: usize, frames: &mut Batch) {
        if !frames.is_empty() {
            self.out[worker].refuse(w, frames);
        }
    }

    /// Drops frames that did not fit, each counted for its worker.
    #[cold]
    #[inline(never)]
    fn drop_each(&mut self, w: &mut Worker, frames: &mut Batch, targets: &[u8; BATCH_MAX]) {
        let n = frames.len();
        let mut left = frames.drain();
        for run in targets[..n].chunk_by(PartialEq::eq) {
            let mut refused = Batch::new();
            left.move_to(&mut refused, run.len());
            self.out[usize::from(run[0])].refuse(w, &mut refused);
        }
    }
}
