//! A lane: an ordered queue from one worker to another.
//!
//! ```text
//!   finished              taken                  sent          (units; free-running, wrap at 2^32)
//!   ───┼════════════════════┼══════════════════════┼────
//!      └ in the reader's    └─ waiting             └─ room, up to finished + limit
//!        hands
//! ```
//! Below it is a ring between two threads, whose indices count items. The lane counts *units* (frames) in addition, for
//! two reasons. The limit is a number of frames. And the sender learns from `finished` which frames the reader is done
//! with; this keeps order when a flow goes to another reader.
//!
//! | edge | written by | read by |
//! |---|---|---|
//! | `F` Release of `finished` | [`LaneReceiver::finish`] | Acquire in [`Progress::has_finished`] and [`LaneSender::backlog`]: all the reader did with the units |
//! | `G` Release of `reader` = [`GONE`] | [`LaneReceiver`]'s Drop | Acquire in [`Progress::reader`] |

use crate::ring::{Receiver, Sender, Vacant, Waiting, ring, try_ring};
use crate::sync::Steps;
use crate::sync::shim::AtomicU32;
use crossbeam_utils::CachePadded;
use std::collections::TryReserveError;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release};

/// No worker reads the lane, and none ever will.
pub(super) const GONE: u32 = u32::MAX;

/// Number of items that are prefetched before it is known whether they are there: half a batch in lines.
const AHEAD: u32 = 5;

/// The progress and identity of a lane's reader, readable from any thread.
#[derive(Debug)]
pub(super) struct Progress {
    /// Number of units that the reader is done with.
    finished: CachePadded<AtomicU32>,
    /// The worker that reads, or [`GONE`]. It is on a line of its own, since it hardly ever changes.
    reader: CachePadded<AtomicU32>,
}

impl Progress {
    /// Makes a lane that `reader` reads, with its count at `start`.
    pub(super) fn new(reader: u32, start: u32) -> Arc<Progress> {
        let at = |value| CachePadded::new(AtomicU32::new(value));
        Arc::new(Progress { finished: at(start), reader: at(reader) })
    }

    /// Number of units finished so far.
    #[inline]
    pub(super) fn finished(&self) -> u32 {
        // Acquire: edge F.
        self.finished.load(Acquire)
    }

    /// Returns whether all units before `position` are finished, or never will be because no worker reads the lane.
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

    /// Sets the worker that reads from now on.
    pub(super) fn set_reader(&self, reader: u32) {
        // Release: edge G.
        self.reader.store(reader, Release);
    }
}

/// Largest distance of a position that was not reached yet: twice the largest limit of a lane.
const AHEAD_MAX: u32 = 1 << 21;

/// Returns whether a free-running count has reached `position`. A position was taken at most a lane's limit ahead of the
/// count. Any other distance means that the count has passed it, however long ago.
#[inline(always)]
pub(super) fn reached(count: u32, position: u32) -> bool {
    position.wrapping_sub(count).wrapping_sub(1) >= AHEAD_MAX
}

/// The two ends of a lane.
type Both<T> = (LaneSender<T>, LaneReceiver<T>);

/// Makes a lane for at most `limit` units (at most 2^20) and as many items, over `progress`.
///
/// # Errors
/// There is no memory for its slots.
#[cold]
pub(super) fn lane<T: Send>(limit: u32, progress: Arc<Progress>) -> Result<Both<T>, TryReserveError> {
    let (sender, receiver) = try_ring(limit)?;
    let start = progress.finished();
    let receiver = LaneReceiver { ring: receiver, taken: start, progress: Arc::clone(&progress) };
    let sender = LaneSender { ring: sender, limit, sent: start, finished: start, abandoned: false, progress };
    Ok((sender, receiver))
}

/// The sending end.
#[derive(Debug)]
pub(super) struct LaneSender<T> {
    ring: Sender<T>,
    limit: u32,
    /// Number of units sent so far.
    sent: u32,
    /// Number of units finished at the last look-up: `sent − finished <= limit`.
    finished: u32,
    /// The ring was given up, since no worker reads it: `ring` is an empty one.
    abandoned: bool,
    progress: Arc<Progress>,
}

impl<T> LaneSender<T> {
    /// Number of units sent so far: the position behind the last of them.
    #[inline]
    pub(super) fn sent(&self) -> u32 {
        self.sent
    }

    /// The progress of the reader.
    #[inline]
    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }

    /// Number of unfinished units at the last look-up: at least the current number.
    #[inline]
    pub(super) fn backlog_seen(&self) -> u32 {
        self.sent.wrapping_sub(self.finished)
    }

    /// Returns whether all units before `position` were finished at the last look-up.
    #[inline]
    pub(super) fn has_finished_seen(&self, position: u32) -> bool {
        reached(self.finished, position)
    }

    /// Number of unfinished units.
    ///
    /// # Cost
    /// One line of the reader's.
    #[inline]
    pub(super) fn backlog(&mut self) -> u32 {
        self.finished = self.progress.finished();
        self.backlog_seen()
    }

    /// Returns whether all sent units are finished, or no worker reads them. Looks at the reader's line only if needed.
    #[inline]
    pub(super) fn is_drained(&mut self) -> bool {
        self.backlog_seen() == 0 || self.backlog() == 0 || self.progress.reader() == GONE
    }

    /// Number of units for which there is room, at most `want`. Looks at the reader's line only if needed.
    ///
    /// An item counts for at least one unit, so there is room for as many items.
    #[inline]
    pub(super) fn room(&mut self, want: u32) -> u32 {
        let room = |lane: &Self| lane.limit - lane.backlog_seen();
        if want > room(self) {
            self.backlog();
        }
        want.min(room(self))
    }

    /// Sends items of `units` together, for which there is room. `fill` writes them until it leaves a slot free, at
    /// most as many items as units.
    #[inline]
    pub(super) fn send(&mut self, units: u32, fill: impl FnMut(Vacant<'_, T>)) {
        let sent = self.ring.send_each(units as usize, fill);
        debug_assert!(sent > 0 && sent <= units as usize);
        self.sent = self.sent.wrapping_add(units);
    }
}

impl<T: Send> LaneSender<T> {
    /// Gives up the ring of a lane that no worker reads, and so frees the items that were sent while its reader left.
    /// Nothing may be sent afterwards.
    ///
    /// The reader frees what it sees when it leaves. An item that was sent after that look is still in the ring, which
    /// drops it when both ends are gone: now, or when the reader's end is.
    #[cold]
    pub(super) fn abandon(&mut self) {
        debug_assert_eq!(self.progress.reader(), GONE);
        if !self.abandoned {
            self.abandoned = true;
            drop(std::mem::replace(&mut self.ring, ring(1).0));
        }
    }
}

/// The receiving end. It may be passed on to another worker.
///
/// If it is dropped, the lane has no reader, and the items in it are freed. Items that are sent at that moment may stay
/// in it until the sender abandons the lane or is dropped.
#[derive(Debug)]
pub(super) struct LaneReceiver<T> {
    ring: Receiver<T>,
    /// Number of units taken so far.
    taken: u32,
    progress: Arc<Progress>,
}

impl<T> LaneReceiver<T> {
    /// Calls `take` on items, oldest first and at most `want`, until it does not take one. `take` returns the units of
    /// an item. Returns their sum.
    #[inline]
    pub(super) fn take(&mut self, want: usize, mut take: impl FnMut(Waiting<'_, T>) -> u32) -> u32 {
        let mut units = 0;
        self.ring.prefetch(AHEAD);
        self.ring.recv_each(want, |item| units += take(item));
        self.taken = self.taken.wrapping_add(units);
        units
    }

    /// Returns whether there is an item to take.
    #[inline]
    pub(super) fn has_items(&mut self) -> bool {
        self.ring.ready(1) > 0
    }

    /// Marks all taken units as finished.
    #[inline]
    pub(super) fn finish(&self) {
        self.progress.finish(self.taken);
    }

    /// The progress of the reader.
    pub(super) fn progress(&self) -> &Arc<Progress> {
        &self.progress
    }
}

impl Progress {
    /// Marks all units before `position` as finished; for the reader only.
    #[inline]
    fn finish(&self, position: u32) {
        // Release: edge F.
        self.finished.store(position, Release);
    }
}

impl<T> Drop for LaneReceiver<T> {
    fn drop(&mut self) {
        self.progress.set_reader(GONE);
        // Freeing an item may run code of the caller, which may panic. The others are freed all the same. Items that
        // the sender adds after this look are freed with the ring, when both ends are gone.
        let mut steps = Steps::new();
        self.ring.recv_burst(usize::MAX, |item| steps.run(|| drop(item)));
        steps.end();
    }
}

#[cfg(test)]
mod tests;
