//! HOT: a worker takes what others sent it.

use super::config::Record;
use super::label::{Barrier, Source};
use super::mesh::{Incoming, Mesh};
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, Line, Place};
use crate::sync::{Doorbell, Worker};
use std::sync::Arc;

/// The receiving side of a worker: a lane from every worker, and the inboxes that other workers handed over to it.
///
/// A worker that stops hands it on ([`Inbox::hand_over`]). Dropped, it leaves its senders without a reader: nothing fits into it
/// then, what they listed is dropped and counted, and what waits goes home by the slow way.
#[derive(Debug)]
pub struct Inbox {
    own: usize,
    lanes: Vec<Incoming>,
    /// The lane to look into first: each gets its turn.
    next: usize,
    /// The lane whose frames are in work.
    in_work: Option<usize>,
    record: Record,
    mesh: Arc<Mesh>,
}

impl Inbox {
    #[cold]
    pub(super) fn new(mesh: &Arc<Mesh>, own: usize, lanes: Vec<Incoming>, record: Record) -> Inbox {
        Inbox { own, lanes, next: 0, in_work: None, record, mesh: Arc::clone(mesh) }
    }

    /// This worker's number.
    pub fn worker(&self) -> usize {
        self.own
    }

    /// Appends to `frames` as many as wait and have room, all from one sender and one source, and says which; None where
    /// nothing waits. Frames that were taken before count as finished then.
    ///
    /// Order within a flow rests on this: what was taken is forwarded (given to a port to transmit, or dropped) before the
    /// next call of any method.
    ///
    /// # Cost
    /// A line of seven frames is one cache line of the sender's; senders that sent nothing cost a load each.
    #[inline]
    pub fn take(&mut self, w: &mut Worker, frames: &mut Batch) -> Option<Source> {
        self.finish();
        if self.mesh.has_legacy(self.own) {
            self.inherit();
        }
        for _ in 0..self.lanes.len() {
            let lane = self.next;
            self.next = if lane + 1 == self.lanes.len() { 0 } else { lane + 1 };
            if let Some(mut source) = self.lanes[lane].take(w, &self.mesh, frames) {
                self.in_work = Some(lane);
                if self.record == Record::Second {
                    source.queue = self.own as u16;
                }
                return Some(source);
            }
        }
        None
    }

    /// Says that this worker is done with all that it took.
    #[inline]
    pub fn finish(&mut self) {
        if let Some(lane) = self.in_work.take() {
            self.lanes[lane].lane.finish();
        }
    }

    /// Whether something waits: the last look before this worker sleeps, after its bell was armed.
    ///
    /// It counts all that was taken as finished, and takes what stands before a barrier as something too.
    pub fn waiting(&mut self) -> bool {
        self.finish();
        self.mesh.has_legacy(self.own) || self.lanes.iter_mut().any(|incoming| incoming.lane.has_items())
    }

    /// What this worker sleeps on; whoever sends to it rings.
    pub fn bell(&self) -> &Doorbell {
        self.mesh.bell(self.own)
    }

    /// Hands this inbox over to the worker `heir`, whole: with all that waits in it, in order, and all that its senders, who
    /// need not know, will send. What was taken counts as finished.
    ///
    /// # Errors
    /// The inbox, if `heir` is no worker, has dropped its own or is this one.
    #[cold]
    pub fn hand_over(mut self, heir: usize) -> Result<(), Inbox> {
        self.finish();
        self.inherit();
        if heir == self.own {
            return Err(self);
        }
        let lanes = std::mem::take(&mut self.lanes);
        match self.mesh.bequeath(lanes, heir) {
            Ok(()) => Ok(()),
            Err(lanes) => {
                self.lanes = lanes;
                Err(self)
            }
        }
    }

    /// Takes lanes over that were handed over to this worker.
    #[cold]
    #[inline(never)]
    fn inherit(&mut self) {
        self.lanes.extend(self.mesh.fetch_legacy(self.own));
    }
}

impl Incoming {
    /// Takes frames of one source, as many as there are and have room; None if there are none, or a barrier bars them.
    #[inline]
    fn take(&mut self, w: &Worker, mesh: &Mesh, frames: &mut Batch) -> Option<Source> {
        let before = frames.len();
        loop {
            let mut word = None;
            let units = self.lane.take(BATCH_MAX, |line| {
                let (said, len) = (line.word, line.len());
                let fits = line.mark().is_none() && *word.get_or_insert(said) == said;
                if fits && Line::unload(line, frames) { len as u32 } else { 0 }
            });
            if units > 0 {
                frames.taken_back(Place::Queued, w, before);
                Place::Queued.leave_last(w, frames, units as usize);
                self.received.add(u64::from(units));
                return word.map(Source::of);
            }
            if !self.pass_barrier(mesh) {
                return None;
            }
        }
    }

    /// Takes a barrier that is the oldest, if what it waits for is done.
    #[inline]
    fn pass_barrier(&mut self, mesh: &Mesh) -> bool {
        let sender = self.sender;
        let is_done = |line: &Line| {
            let barrier = Barrier::of(line);
            barrier.is_some_and(|barrier| {
                let lane = mesh.progress(sender, usize::from(barrier.worker));
                lane.is_none_or(|lane| lane.has_finished(barrier.position))
            })
        };
        let passed = self.lane.take(1, |line| {
            if !is_done(&line) {
                return 0;
            }
            line.forget();
            Barrier::UNITS
        });
        if passed > 0 {
            // A barrier alone is nothing to work on: the lane may be finished with it.
            self.lane.finish();
        }
        passed > 0
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.finish();
        self.mesh.close_seat(self.own);
    }
}
