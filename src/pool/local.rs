//! HOT: the owner's cache of free frames.
//!
//! An array of frame numbers. The start of a frame's data is computed when the frame is given out.

use super::colour::Start;
use super::frame::Frame;
use crate::stats::Count;
use crate::sys::lifo::Lifo;

/// The owner's cache. It lies within one line, with the counters of its hot path.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Local {
    stack: Lifo<u32>,
    /// Frames that the hot path took and gave back since the last cold stay, counted separately from the stack.
    took: u64,
    gave: u64,
    /// Frames that an empty cache is refilled to; at most the capacity.
    pub(super) refill: usize,
}

/// The operations of the owner on its cache, up to its last cold stay.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(super) cached: Count,
    pub(super) taken: Count,
    pub(super) given: Count,
    /// Frames that the cache had no room for.
    pub(super) spilled: Count,
}

impl Local {
    /// Makes a cache of `capacity` frames that is refilled to `refill`.
    pub(crate) fn new(capacity: usize, refill: usize) -> Self {
        Local { stack: Lifo::new(capacity), took: 0, gave: 0, refill: refill.min(capacity) }
    }

    /// Takes the next frame.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<u32> {
        let id = self.stack.pop()?;
        self.took += 1;
        Some(id)
    }

    /// Takes the `n` frames that were given back last. Returns None if there are fewer.
    #[inline(always)]
    pub(crate) fn take_exactly(&mut self, n: usize) -> Option<&[u32]> {
        let ids = self.stack.pop_exactly(n)?;
        self.took += n as u64;
        Some(ids)
    }

    /// Keeps a frame. Returns false if there is no room.
    #[inline(always)]
    pub(crate) fn give(&mut self, id: u32) -> bool {
        if self.stack.push(id).is_err() {
            return false;
        }
        self.gave += 1;
        true
    }

    /// Keeps frames of a pool with this `start`. Returns false if there is no room for all.
    #[inline(always)]
    pub(crate) fn give_all(&mut self, frames: &[Frame], start: &Start) -> bool {
        let Some(slots) = self.stack.push_slots(frames.len()) else { return false };
        Frame::write_ids(slots, frames, start);
        self.gave += frames.len() as u64;
        true
    }

    /// Keeps as many frames as there is room for, from the first on. Returns how many.
    pub(crate) fn give_some(&mut self, frames: &[Frame]) -> usize {
        let kept = self.stack.extend(frames, |frame| frame.id().get());
        self.gave += kept as u64;
        kept
    }

    /// The number of frames that an empty cache has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.stack.capacity()
    }

    /// Enters the slow path: publishes the operations of the hot path, runs `work`, then records the remaining frames.
    pub(crate) fn stay<R>(&mut self, gauges: &Gauges, work: impl FnOnce(&mut Lifo<u32>) -> R) -> R {
        gauges.taken.add(std::mem::take(&mut self.took));
        gauges.given.add(std::mem::take(&mut self.gave));
        let done = work(&mut self.stack);
        gauges.cached.set(self.stack.len() as u64);
        done
    }
}

/// TEST: errors of a hot path that counts nothing.
#[cfg(all(test, not(loom)))]
impl Local {
    /// Loses the newest frame.
    pub(crate) fn lose(&mut self) -> Option<u32> {
        self.stack.pop()
    }

    /// Duplicates the newest frame. Returns false if there is none, or no room.
    pub(crate) fn double(&mut self) -> bool {
        let newest = self.stack.items().iter().last().copied();
        newest.is_some_and(|id| self.stack.push(id).is_ok())
    }
}
