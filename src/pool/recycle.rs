//! What becomes of a page whose frames have all come home.

use std::collections::VecDeque;

/// What becomes of a page whose frames have all come home.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Recycle {
    /// It stays in the pool, mapped for the device, and its frames are given out again.
    #[default]
    Pool,
    #[cfg(feature = "comparisons")]
    /// The drivers' older trick, for frames of whole pages: pages stand in a queue (as long as the cache would be) in the
    /// order in which they were given out. An allocation looks at the head: if it is home it is used again, else the pool
    /// gives it up and takes a new page; it is unmapped when it comes home, and until then counts among
    /// the pool's frames: give the pool as many more than the queue is long as may be held. A few pages that are held long cost nothing
    /// but themselves; when all are held for longer than a turn of the queue, nothing is recycled.
    Head,
    #[cfg(feature = "comparisons")]
    /// It is unmapped and goes back to the page stage, and each allocation that needs one takes and maps a new one: what
    /// there is without a page pool.
    Never,
}

impl Recycle {
    /// Whether the head of a queue of pages is used again.
    pub(super) fn reuses_head(self) -> bool {
        #[cfg(feature = "comparisons")]
        return self == Recycle::Head;
        #[cfg(not(feature = "comparisons"))]
        false
    }

    /// Whether no page is kept.
    pub(super) fn keeps_none(self) -> bool {
        #[cfg(feature = "comparisons")]
        return self == Recycle::Never;
        #[cfg(not(feature = "comparisons"))]
        false
    }
}

/// The pages of a pool with `Recycle::Head`, by their frames' numbers, the one given out longest ago first.
///
/// `resting` of them are home; those are free frames that are not in the depot's list.
#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) frames: VecDeque<u32>,
    pub(super) resting: usize,
}

impl Queue {
    /// Forgets a page that rested here and leaves the pool.
    pub(super) fn forget(&mut self, frame: u32) {
        let before = self.frames.len();
        self.frames.retain(|&other| other != frame);
        self.resting -= before - self.frames.len();
    }
}
