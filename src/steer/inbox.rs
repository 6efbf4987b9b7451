//! HOT: a worker takes the frames that others sent it.

use super::config::RecordedQueue;
use super::label::{Barrier, Source};
use super::mesh::{Incoming, Mesh};
use crate::limits::BATCH_MAX;
use crate::pool::{Batch, FrameState, Line};
use crate::sync::{Doorbell, Worker};
use std::fmt;
use std::sync::Arc;

/// The receiving side of a worker: a lane from every worker, and the inboxes that other workers handed over to it.
///
/// A worker that stops hands it on ([`Inbox::hand_over`]). If it is dropped, its senders have no reader: nothing fits
/// into it then, listed frames are dropped and counted, and waiting frames are freed by the slow path.
pub struct Inbox {
    own: usize,
    lanes: Vec<Incoming>,
    /// The lane to look into first, so that each gets its turn.
    next: usize,
    /// The lane whose frames are being processed.
    in_work: Option<usize>,
    record: RecordedQueue,
    mesh: Arc<Mesh>,
}

/// Prints its worker only.
impl fmt::Debug for Inbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inbox").field("worker", &self.own).finish_non_exhaustive()
    }
}

impl Inbox {
    #[cold]
    pub(super) fn new(mesh: &Arc<Mesh>, own: usize, lanes: Vec<Incoming>, record: RecordedQueue) -> Inbox {
        Inbox { own, lanes, next: 0, in_work: None, record, mesh: Arc::clone(mesh) }
    }

    /// This worker's number.
    pub fn worker(&self) -> usize {
        self.own
    }

    /// Appends waiting frames to `frames`, all from one sender and one source, and returns that source. They come in
    /// groups of up to seven, as many groups as there is room for. Returns None if nothing waits, or if there is no room
    /// for the next group: `frames` should have at least seven free slots. Frames that were taken before count as
    /// finished then.
    ///
    /// Order within a flow depends on this rule: the caller forwards taken frames (gives them to a port to transmit, or
    /// drops them) before the next call of any method.
    ///
    /// # Cost
    /// A line of seven frames is one cache line of the sender's. Each sender that sent nothing costs one load.
    #[inline]
    pub fn take(&mut self, w: &mut Worker, frames: &mut Batch) -> Option<Source> {
        self.finish();
        if self.mesh.has_handed_over(self.own) {
            self.inherit();
        }
        for _ in 0..self.lanes.len() {
            let lane = self.next;
            self.next = if lane + 1 == self.lanes.len() { 0 } else { lane + 1 };
            if let Some(mut source) = self.lanes[lane].take(w, &self.mesh, frames) {
                self.in_work = Some(lane);
                if self.record == RecordedQueue::Worker {
                    source.queue = self.own as u16;
                }
                return Some(source);
            }
        }
        None
    }

    /// Marks all taken frames as finished.
    #[inline]
    pub fn finish(&mut self) {
        if let Some(lane) = self.in_work.take() {
            self.lanes[lane].lane.finish();
        }
    }

    /// Returns whether anything waits: the last check before this worker sleeps, after its bell was armed.
    ///
    /// It counts all taken frames as finished. Frames behind a barrier count as waiting too.
    pub fn waiting(&mut self) -> bool {
        self.finish();
        self.mesh.has_handed_over(self.own) || self.lanes.iter_mut().any(|incoming| incoming.lane.has_items())
    }

    /// The bell on which this worker sleeps. Each sender rings it.
    pub fn bell(&self) -> &Doorbell {
        self.mesh.bell(self.own)
    }

    /// Hands this whole inbox over to the worker `successor`: all waiting frames, in order, and all frames that its senders
    /// will send. The senders need not know. Taken frames count as finished.
    ///
    /// # Errors
    /// Returns the inbox if `successor` is not a worker, has dropped its own inbox, or is this worker.
    #[cold]
    pub fn hand_over(mut self, successor: usize) -> Result<(), Inbox> {
        self.finish();
        let lanes = std::mem::take(&mut self.lanes);
        match self.mesh.hand_over(lanes, self.own, successor) {
            Ok(()) => Ok(()),
            Err(lanes) => {
                self.lanes = lanes;
                Err(self)
            }
        }
    }

    /// Takes over the lanes that were handed to this worker.
    #[cold]
    #[inline(never)]
    fn inherit(&mut self) {
        self.lanes.extend(self.mesh.take_handed_over(self.own));
    }
}

impl Incoming {
    /// Takes frames of one source, as many as exist and fit. Returns None if there are none, or a barrier blocks them.
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
                frames.taken_back(FrameState::Queued, w, before);
                FrameState::Queued.leave_last(w, frames, units as usize);
                self.received.add(u64::from(units));
                return word.map(Source::of);
            }
            if !self.pass_barrier(mesh) {
                return None;
            }
        }
    }

    /// Takes the oldest item if it is a barrier and its condition is met.
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
            // A barrier alone brings no work, so the lane may be finished with it.
            self.lane.finish();
        }
        passed > 0
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.finish();
        self.mesh.close_reader(self.own);
    }
}
