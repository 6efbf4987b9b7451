//! A lane: what one worker hands to another, in order.
//!
//! ```text
//!   finished              taken                  sent          (units; free-running, wrap at 2^32)
//!   ───┼════════════════════┼══════════════════════┼────
//!      └ in the reader's    └─ waiting             └─ room, up to finished + limit
//!        hands
//! ```
//! Under it lies a ring between two threads, whose indices count items; a lane counts *units* (frames) on top of it, for two
//! reasons: the bound is one of frames, and the sender learns from `finished` which of them the reader is done with, which
//! is what keeps order when a flow goes to another reader.
//!
//! | edge | written by | read by |
//! |---|---|---|
//! | `F` Release of `finished` | [`LaneReceiver::finish`] | Acquire in [`Progress::has_finished`] and [`LaneSender::backlog`]: all the reader did with the units |
//! | `G` Release of `reader` = [`GONE`] | [`LaneReceiver`]'s Drop | Acquire in [`Progress::reader`] |

use crate::ring::{Receiver, Sender, Vacant, Waiting, ring};
use crate::sync::shim::AtomicU32;
use crossbeam_utils::CachePadded;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Nobody reads the lane any more, nor ever will.
pub(super) const GONE: u32 = u32::MAX;

/// Items that are asked for before it is known whether they are there: half a batch in lines.
const AHEAD: u32 = 5;

/// How far a lane's reader is, and who that is: readable from any thread.
#[derive(Debug)]
pub(super) struct Progress {
    /// Units that the reader is done with.
    finished: CachePadded<AtomicU32>,
    /// The worker that reads, or [`GONE`]; on a line of its own, for it hardly ever changes.
    reader: CachePadded<AtomicU32>,
}

impl Progress {
    /// A lane that `reader` reads, its count standing at `start`.
    pub(super) fn new(reader: u32, start: u32) -> Arc<Progress> {
        let at = |value| CachePadded::new(AtomicU32::new(value));
        Arc::new(Progress { finished: at(start), reader: at(reader) })
    }

    /// Units finished so far.
    #[inline]
    pub(super) fn finished(&self) -> u32 {
        // Acquire: edge F.
        self.finished.load(Acquire)
    }

    /// Whether all units before `position` are finished, or never will be because nobody reads the lane.
    #[inline]
    pub(super) fn has_finished(&self, position: u32) -> bool {
        reached(self.finished(), position) || self.reader() == GONE
    }

    /// The worker that reads.
    #[inline]
    pub(super) fn reader(&self) -> u32 {
        // Acquire: edge G.
        self.reader.load(Acquire)
    }

    /// Says who reads from now on.
    pub(super) fn set_reader(&self, reader: u32) {
        // Release: edge G.
        self.reader.store(reader, Release);
    }
}

/// Whether a free-running count has come to `position`, which is at most 2^31 away.
#[inline(always)]
pub(super) fn reached(count: u32, position: u32) -> bool {
    count.wrapping_sub(position) < 1 << 31
}

/// Makes a lane for at most `limit` units (2^20 at most) and as many items, over `progress`.
#[cold]
pub(super) fn lane<T: Send>(limit: u32, progress: Arc<Progress>) -> (LaneSender<T>, LaneReceiver<T>) {
    let (sender, receiver) = ring(limit);
    let start = progress.finished();
    let receiver = LaneReceiver { ring: receiver, taken: start, progress: Arc::clone(&progress) };
    (LaneSender { ring: sender, limit, sent: start, finished: start, progress }, receiver)
}

/// The sending end.
#[derive(Debug)]
pub(super) struct LaneSender<T> {
    ring: Sender<T>,
    limit: u32,
    /// Units sent so far.
    sent: u32,
    /// Units finished when this was last looked up: `sent − finished <= limit`.
    finished: u32,
    progress: Arc<Progress>,
}

impl<T> LaneSender<T> {
    /// Units sent so far: the position behind the last of them.
    #[inline]
    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    /// Units the lane holds at most.
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// How far the reader is.
    #[inline]
    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Units that are not finished, as last looked up: at least as many as there are.
    #[inline]
    pub(super) fn backlog_seen(&self) -> u32 {
        self.sent.wrapping_sub(self.finished)
    }

    /// Whether all units before `position` were finished when that was last looked up.
    #[inline]
    pub(super) fn has_finished_seen(&self, position: u32) -> bool {
        reached(self.finished, position)
    }

    /// Units that are not finished.
    ///
    /// # Cost
    /// A line of the reader's.
    #[inline]
    pub(super) fn backlog(&mut self) -> u32 {
        self.finished = self.progress.finished();
        self.backlog_seen()
    }

    /// Whether all that was sent is finished, or nobody reads it; looks at the reader's line only where it must.
    #[inline]
    pub(super) fn is_drained(&mut self) -> bool {
        self.backlog_seen() == 0 || self.backlog() == 0 || self.progress.reader() == GONE
    }

    /// Units there is room for, at most `want`; looks at the reader's line only where it must.
    ///
    /// An item counts for one unit at least, so there is room for as many items.
    #[inline]
    pub(super) fn room(&mut self, want: u32) -> u32 {
        let room = |lane: &Self| lane.limit - lane.backlog_seen();
        if want > room(self) {
            self.backlog();
        }
        want.min(room(self))
    }

    /// Sends items of `units` together, for which there is room, as `fill` writes them: until it leaves a slot free, and as
    /// many items as units at most.
    #[inline]
    pub(super) fn send(&mut self, units: u32, fill: impl FnMut(Vacant<'_, T>)) {
        let sent = self.ring.send_each(units as usize, fill);
        debug_assert!(sent > 0 && sent <= units as usize);
        self.sent = self.sent.wrapping_add(units);
    }
}

/// The receiving end. It may be passed on to another worker.
///
/// Dropped, it leaves the lane without a reader; what is in it is freed with the lane.
#[derive(Debug)]
pub(super) struct LaneReceiver<T> {
    ring: Receiver<T>,
    /// Units taken so far.
    taken: u32,
    progress: Arc<Progress>,
}

impl<T> LaneReceiver<T> {
    /// Lets `take` look at items, oldest first and at most `want`, until it does not take one; it says how many units that
    /// were. Returns them all.
    #[inline]
    pub(super) fn take(&mut self, want: usize, mut take: impl FnMut(Waiting<'_, T>) -> u32) -> u32 {
        let mut units = 0;
        self.ring.prefetch(AHEAD);
        self.ring.recv_each(want, |item| units += take(item));
        self.taken = self.taken.wrapping_add(units);
        units
    }

    /// Whether there is something to take.
    #[inline]
    pub(super) fn has_items(&mut self) -> bool {
        self.ring.ready(1) > 0
    }

    /// Says that the reader is done with all that it took.
    #[inline]
    pub(super) fn finish(&self) {
        self.progress.finish(self.taken);
    }

    /// How far the reader is.
    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

impl Progress {
    /// Says that all units before `position` are finished; for the reader only.
    #[inline]
    fn finish(&self, position: u32) {
        // Release: edge F.
        self.finished.store(position, Release);
    }
}

impl<T> Drop for LaneReceiver<T> {
    fn drop(&mut self) {
        self.progress.set_reader(GONE);
        // What the sender puts there meanwhile goes with the ring, when the sender sees that nobody reads.
        self.ring.recv_burst(usize::MAX, drop);
    }
}

#[cfg(test)]
mod tests;
