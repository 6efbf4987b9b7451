//! HOT: what a worker calls to give frames to others: by the policy or by its own word, and so that what does not fit stays
//! or is dropped.

use super::{Choice, Outbox};
use crate::limits::BATCH_MAX;
use crate::pool::Batch;
use crate::steer::label::Source;
use crate::steer::lane::GONE;
use crate::steer::outgoing::By;
use crate::sync::Worker;

impl Outbox {
    /// Steers frames that were received from one place: those for this worker itself go to `own`, the others are listed for
    /// theirs, and sent at the end of the round by [`Outbox::flush`]. Returns how many frames left `frames`.
    ///
    /// What does not fit stays in `frames`, in order: frames for a worker whose inbox has no room (or no reader, see
    /// [`Outbox::has_reader`]), and this worker's own if `own` has none. Nothing is dropped, but by a
    /// [flow limit](crate::steer::MeshConfig::flow_limit) where one was asked for. [`Outbox::steer_or_drop`] drops instead.
    ///
    /// Order within a flow rests on two things: what is in `own` is forwarded before the next call of any method, and what stayed
    /// is steered before frames that were received later, for which they stand in front in the same batch:
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
    /// A worker that waits for room in this way goes on taking from its own inbox meanwhile: otherwise two could wait for each
    /// other.
    ///
    /// # Cost
    /// 8 bytes copied a frame. By flow (several workers for the queue) also each frame's first line and its hash.
    #[inline]
    #[must_use = "what did not fit is still in the batch"]
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

    /// As [`Outbox::steer`] where nothing may wait: frames for this worker itself stay in `frames`, in order, and what does not
    /// fit is dropped, freed in bulk and counted ([`HandOffDrops`](crate::steer::HandOffDrops)).
    ///
    /// # Cost
    /// As [`Outbox::steer`]; nothing is copied where all frames are this worker's.
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

    /// Lists frames from the front of `frames` for `worker`, which may be this one, whatever the policy says, as many as its inbox
    /// has room for; [`Outbox::flush`] sends them. Returns how many. The others stay in `frames`, in order; no flow limit is
    /// asked.
    ///
    /// # Panics
    /// If there is no such worker.
    #[inline]
    pub fn hand_off(&mut self, w: &mut Worker, worker: usize, from: Source, frames: &mut Batch) -> usize {
        let before = frames.len();
        self.list_all(w, worker, frames, (from, By::Caller));
        before - frames.len()
    }

    /// As [`Outbox::hand_off`] where nothing may wait: what does not fit is dropped, freed in bulk and counted
    /// ([`HandOffDrops`](crate::steer::HandOffDrops)). `frames` is empty then.
    ///
    /// # Panics
    /// If there is no such worker.
    #[inline]
    pub fn hand_off_or_drop(&mut self, w: &mut Worker, worker: usize, from: Source, frames: &mut Batch) {
        self.list_all(w, worker, frames, (from, By::Caller));
        self.drop_rest(w, worker, frames);
    }

    /// Frames that can be listed for `worker` now: what its inbox has room for beside what is listed already. It becomes more
    /// when `worker` comes back for more, and less only by what this outbox lists. 0 where nobody reads the inbox.
    ///
    /// # Panics
    /// If there is no such worker.
    ///
    /// # Cost
    /// A line of the reader's.
    pub fn room(&mut self, worker: usize) -> usize {
        self.out[worker].look();
        self.out[worker].room(u32::MAX) as usize
    }

    /// Whether the inbox of `worker` is read, by it or by its heir. Where it is not nothing fits into it any more; what was
    /// listed and not sent is dropped at the next [`Outbox::flush`], and counted as `gone`, as what waited is as `lost`.
    ///
    /// # Panics
    /// If there is no such worker.
    pub fn has_reader(&self, worker: usize) -> bool {
        self.out[worker].lane.progress().reader() != GONE
    }

    /// Counts a batch, and chooses which worker gets each of its frames.
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

    /// Drops frames that did not fit, each for the worker it was meant for.
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
