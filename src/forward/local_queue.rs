//! The local queue: passed frames go to it, as packets go to the queue of a socket.
//!
//! ```text
//!   forwarder ── LocalQueue::put ──► bounded queue ──► Reader::read   on any worker: read, and free there
//!                                              └─► Retention::turn   keeps the newest, frees older ones
//! ```
//! Frames in the queue or with a retention are `queued` in the ledger of their pool, except short packets that the
//! retention [copies](Retention::with_copy_break) out of their frames. A reader that is slow or does not move fills the
//! queue, and costs no more than that many frames. A reader that is gone holds none.

mod kept;
mod queued;
mod retention;
#[cfg(all(test, not(loom)))]
mod tests;

pub use retention::{Retention, RetentionLimit};

use self::queued::Queued;
use super::recorder::QueueTimes;
use crate::pool::{Batch, Frame, FrameState};
use crate::ring::{Receiver, Sender, ring};
use crate::stats::Count;
use crate::sync::Worker;
use crate::sys::clock;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The counters of the frames that a local queue took, readable from any thread.
///
/// Conservation, once nothing moves: `taken == given + waiting + kept`. Frames left by a reader or retention that is
/// gone were freed with it.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct LocalQueueCounters {
    /// Frames that the queue took from the forwarder.
    pub taken: Count,
    /// Frames that a reader read, or a retention freed.
    pub given: Count,
    /// Frames that a retention keeps.
    pub kept: Count,
    /// The kept packets that are copies and whose frames are free again.
    pub copies: Count,
    /// Bytes of memory that the kept packets occupy.
    pub kept_bytes: Count,
    /// The reader is gone: nothing more is taken.
    gone: AtomicBool,
}

impl LocalQueueCounters {
    /// Number of held packets: in the queue, or with the retention, there also as copies.
    pub fn held(&self) -> u64 {
        if self.gone.load(Relaxed) {
            return 0;
        }
        // `given` is read first, so that frames which pass through the queue in between do not make the result too
        // small. It may be ahead of `taken` all the same: the forwarder counts frames after it sent them, when they
        // may be read already, and Relaxed reads have no order.
        let given = self.given.get();
        self.taken.get().saturating_sub(given)
    }
}

/// The forwarder's end of the queue.
#[derive(Debug)]
pub struct LocalQueue {
    queue: Sender<Queued>,
    counters: Arc<LocalQueueCounters>,
}

/// The other end of the queue, for the worker that reads.
///
/// If it is dropped, it frees waiting frames, and the forwarder drops from then on the frames that it would pass.
#[derive(Debug)]
pub struct Reader {
    queue: Receiver<Queued>,
    /// Set if it records when frames were taken out.
    times: Option<QueueTimes>,
    counters: Arc<LocalQueueCounters>,
}

/// Makes a queue of at least `frames` slots (rounded up to a power of two, at most 2^20).
#[cold]
pub fn local_queue(frames: u32) -> (LocalQueue, Reader) {
    let (sender, receiver) = ring(frames.min(1 << 20));
    let counters = Arc::new(LocalQueueCounters::default());
    let reader = Reader { queue: receiver, times: None, counters: Arc::clone(&counters) };
    (LocalQueue { queue: sender, counters }, reader)
}

impl LocalQueue {
    /// Returns whether there is a reader.
    #[inline]
    pub fn is_read(&self) -> bool {
        !self.counters.gone.load(Relaxed)
    }

    /// Takes frames from the front of `frames`, as many as there is room for. Returns their number.
    ///
    /// # Cost
    /// Eight bytes copied for each frame, the queue's index once, and one count in the pool.
    #[inline]
    pub fn put(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let n = self.queue.room(frames.len());
        FrameState::Queued.enter_batch(w, frames, n);
        let sent = self.queue.send_burst(n, &mut frames.hand_over(FrameState::Queued, w, n).map(Queued::new));
        self.counters.taken.add(sent as u64);
        sent
    }

    /// The queue's counters.
    pub fn counters(&self) -> Arc<LocalQueueCounters> {
        Arc::clone(&self.counters)
    }
}

impl Reader {
    /// Appends frames to `frames`, oldest first, as many as wait and fit. Returns their number.
    #[inline]
    pub fn read(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let before = frames.len();
        let read = self.queue.recv_burst(frames.room(), |queued| {
            if let Some(frame) = queued.into_frame() {
                // There is room: no more frames were requested.
                drop(frames.push(frame));
            }
        });
        frames.taken_back(FrameState::Queued, w, before);
        FrameState::Queued.leave_last(w, frames, read);
        self.took(frames[before..].iter().map(Frame::id));
        self.counters.given.add(read as u64);
        read
    }

    /// Records from now on when frames were taken out of the queue, for the
    /// [recorders](super::recorder::Recorder::follow) that use these times.
    pub fn record(&mut self, times: &QueueTimes) {
        self.times = Some(times.clone());
    }

    /// Records that frames were taken out.
    fn took(&self, ids: impl Iterator<Item = NonZeroU32>) {
        if let Some(times) = &self.times {
            let now = clock::ticks();
            ids.for_each(|id| times.taken(id, now));
        }
    }

    /// Takes waiting frames, at most `want`.
    #[inline]
    pub fn waiting(&mut self, want: usize) -> usize {
        self.queue.ready(want)
    }

    /// The queue's counters.
    pub fn counters(&self) -> Arc<LocalQueueCounters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.counters.gone.store(true, Relaxed);
        // Frames that the forwarder adds during this call are freed with the ring, at the latest when the forwarder's
        // end is dropped.
        self.queue.recv_burst(usize::MAX, drop);
    }
}
