//! The times when frames were put into queues between threads, and later events. The holder of the frame writes them,
//! and any thread reads them.
//!
//! ```text
//!   a worker ─► lane, local queue: put ─► another thread takes it: taken ─► … ─► a worker drops it: lost
//! ```
//! An entry is found by its frame's id and belongs to one use of the frame, which the time of its `put` identifies.
//! Frames share entries: the frame that is put last has the entry, and nothing more is known of the other. Each word
//! that is written after `put` contains the frame's id. So values that two threads write for two frames are never
//! confused.

use crate::forward::verdict::Reason;
use crate::sync::shim::{AtomicU64, fence};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// This many ticks (as a power of two) are counted as one, so that half a minute fits into half a word.
const SHIFT: u32 = 4;

/// One frame.
#[derive(Debug)]
struct Entry {
    /// The frame's id, and the lower half of the time when it was put; 0 while that is written.
    tag: AtomicU64,
    put: AtomicU64,
    /// The id, and the time from `put` until it was taken out, plus 1; or 0.
    taken: AtomicU64,
    /// The id, and the index of the drop reason, plus 1; or 0.
    lost: AtomicU64,
}

/// The times of frames in queues between threads, for all workers of a run; clones share them.
#[derive(Debug, Clone)]
pub struct QueueTimes(Arc<[Entry]>);

/// The events of a frame after its `put`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Behind {
    /// Ticks until it was taken out.
    pub(super) taken: Option<u64>,
    pub(super) lost: Option<Reason>,
}

fn word(id: NonZeroU32, low: u32) -> u64 {
    u64::from(id.get()) << 32 | u64::from(low)
}

/// The lower half of a word, if it belongs to this frame.
fn of(id: NonZeroU32, word: u64) -> Option<u32> {
    (word >> 32 == u64::from(id.get())).then_some(word as u32)
}

impl QueueTimes {
    /// Makes entries for as many packets as are recorded, of all ports of all workers.
    #[cold]
    pub fn new(packets: usize) -> QueueTimes {
        let zero = || AtomicU64::new(0);
        let entry = |_| Entry { tag: zero(), put: zero(), taken: zero(), lost: zero() };
        QueueTimes((0..2 * packets.next_power_of_two()).map(entry).collect())
    }

    fn entry(&self, id: NonZeroU32) -> &Entry {
        &self.0[super::spread(id, self.0.len())]
    }

    /// Records that the frame is put into a queue now. Its owner calls this.
    pub(super) fn put(&self, id: NonZeroU32, ticks: u64) {
        let entry = self.entry(id);
        entry.tag.store(0, Relaxed);
        // Pairs with the Acquire fence of `behind`: a reader that has read any of the values that follow finds the old
        // tag gone.
        fence(Release);
        entry.put.store(ticks, Relaxed);
        entry.taken.store(0, Relaxed);
        entry.lost.store(0, Relaxed);
        // Pairs with the Acquire of `behind`.
        entry.tag.store(word(id, ticks as u32), Release);
    }

    /// Returns when the frame was put into a queue from which its owner, the caller, has taken it: the queue orders the
    /// two.
    pub(super) fn put_at(&self, id: NonZeroU32) -> Option<u64> {
        let entry = self.entry(id);
        let (tag, put) = (entry.tag.load(Relaxed), entry.put.load(Relaxed));
        (tag == word(id, put as u32)).then_some(put)
    }

    /// Records that the frame has been taken out of the queue. Its new owner calls this.
    pub(in crate::forward) fn taken(&self, id: NonZeroU32, now: u64) {
        if let Some(put) = self.put_at(id) {
            let passed = now.saturating_sub(put) >> SHIFT;
            self.entry(id).taken.store(word(id, passed.min(u64::from(u32::MAX - 1)) as u32 + 1), Relaxed);
        }
    }

    /// Records that the frame is dropped by a holder that did not decide about it.
    pub(super) fn lost(&self, id: NonZeroU32, reason: Reason) {
        if self.put_at(id).is_some() {
            self.entry(id).lost.store(word(id, reason.index() as u32 + 1), Relaxed);
        }
    }

    /// Forgets the frame: its next packet was in no queue. Its owner calls this.
    pub(super) fn forget(&self, id: NonZeroU32) {
        if self.put_at(id).is_some() {
            self.entry(id).tag.store(0, Relaxed);
        }
    }

    /// Returns the events of the frame that was put at that time, as far as they are known.
    pub(super) fn behind(&self, id: NonZeroU32, put: u64) -> Behind {
        let (entry, tag) = (self.entry(id), word(id, put as u32));
        // Pairs with the Release of `put`.
        if entry.tag.load(Acquire) != tag {
            return Behind::default();
        }
        let half = |word: &AtomicU64| of(id, word.load(Relaxed))?.checked_sub(1);
        let (taken, lost) = (half(&entry.taken), half(&entry.lost));
        // Pairs with the Release fence of `put`.
        fence(Acquire);
        if entry.tag.load(Relaxed) != tag {
            return Behind::default();
        }
        Behind {
            taken: taken.map(|taken| u64::from(taken) << SHIFT),
            lost: lost.map(|index| Reason::at(index as usize)),
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const ONE: NonZeroU32 = NonZeroU32::MIN;

    /// Returns another frame with the same entry.
    fn rival(times: &QueueTimes) -> NonZeroU32 {
        let at = |id| super::super::spread(id, times.0.len());
        (2..).filter_map(NonZeroU32::new).find(|&id| at(id) == at(ONE)).expect("ids enough")
    }

    #[test]
    fn what_comes_behind_a_put_is_told_of_that_use_of_the_frame_alone() {
        let times = QueueTimes::new(64);
        times.taken(ONE, 7);
        assert_eq!((times.put_at(ONE), times.behind(ONE, 0)), (None, Behind::default()));
        times.put(ONE, 1 << 40 | 1000);
        assert_eq!(times.put_at(ONE), Some(1 << 40 | 1000));
        assert_eq!(times.behind(ONE, 1 << 40 | 1000), Behind::default(), "it is there still");
        times.taken(ONE, (1 << 40) + 1000 + 160);
        times.lost(ONE, Reason::TxFull);
        let wanted = Behind { taken: Some(160), lost: Some(Reason::TxFull) };
        assert_eq!((times.behind(ONE, 1 << 40 | 1000), times.behind(ONE, 999)), (wanted, Behind::default()));
        times.put(ONE, 5000);
        assert_eq!(
            (times.behind(ONE, 1000), times.behind(ONE, 5000)),
            (Behind::default(), Behind::default())
        );
        times.taken(ONE, u64::MAX);
        assert_eq!(times.behind(ONE, 5000).taken, Some(u64::from(u32::MAX - 1) << SHIFT), "as long as fits");
        times.forget(ONE);
        assert_eq!((times.put_at(ONE), times.behind(ONE, 5000)), (None, Behind::default()));
    }

    #[test]
    fn two_frames_of_one_entry_are_never_taken_for_one_another() {
        let times = QueueTimes::new(64);
        let other = rival(&times);
        times.put(ONE, 100);
        times.put(other, 100);
        times.taken(ONE, 500);
        times.lost(ONE, Reason::TxFull);
        times.forget(ONE);
        assert_eq!((times.put_at(ONE), times.put_at(other)), (None, Some(100)));
        assert_eq!(
            (times.behind(ONE, 100), times.behind(other, 100)),
            (Behind::default(), Behind::default())
        );
        // As if the second was put between the first one's look at the tag and its write after it.
        times.entry(other).taken.store(word(ONE, 9), Relaxed);
        assert_eq!(times.behind(other, 100).taken, None);
    }
}
