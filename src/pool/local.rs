//! HOT: the owner's cache of free frames.
//!
//! An array of frame numbers; where a frame's data begins is computed when it is given out.

use super::colour::Start;
use super::frame::Frame;
use crate::stats::Count;
use crate::sync::Lifo;

/// The owner's cache: within one line, with what its hot path counts.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Local {
    stack: Lifo<u32>,
    /// Frames that the hot path took and gave back since the last cold stay, counted apart from what the stack holds.
    took: u64,
    gave: u64,
}

/// What the owner did by its cache, as of its last cold stay.
#[derive(Debug, Default)]
pub(crate) struct Gauges {
    pub(super) cached: Count,
    pub(super) taken: Count,
    pub(super) given: Count,
    /// Frames that the cache had no room for.
    pub(super) spilled: Count,
}

impl Local {
    /// A cache of `capacity` frames that is refilled to `refill`.
    pub(crate) fn new(capacity: usize, refill: usize) -> Self {
        Local { stack: Lifo::new(capacity, refill), took: 0, gave: 0 }
    }

    /// The frame given back last.
    #[inline(always)]
    pub(crate) fn take(&mut self) -> Option<u32> {
        let id = self.stack.pop()?;
        self.took += 1;
        Some(id)
    }

    /// The `n` frames given back last; None when there are fewer.
    #[inline(always)]
    pub(crate) fn take_exactly(&mut self, n: usize) -> Option<&[u32]> {
        let ids = self.stack.pop_exactly(n)?;
        self.took += n as u64;
        Some(ids)
    }

    /// Keeps a frame; false when there is no room.
    #[inline(always)]
    pub(crate) fn give(&mut self, id: u32) -> bool {
        if !self.stack.push(id) {
            return false;
        }
        self.gave += 1;
        true
    }

    /// Keeps frames of a pool whose frames begin so; false when there is no room for all.
    #[inline(always)]
    pub(crate) fn give_all(&mut self, frames: &[Frame], start: &Start) -> bool {
        let Some(places) = self.stack.places(frames.len()) else { return false };
        Frame::write_ids(places, frames, start);
        self.gave += frames.len() as u64;
        true
    }

    /// Keeps as many frames as there is room for, from the first on; returns how many.
    pub(crate) fn give_some(&mut self, frames: &[Frame]) -> usize {
        let kept = self.stack.extend(frames, |frame| frame.id().get());
        self.gave += kept as u64;
        kept
    }

    /// Frames there is room for when it is empty.
    pub(crate) fn capacity(&self) -> usize {
        self.stack.capacity()
    }

    /// Enters the slow path: publishes what the hot path did, runs `work`, then records what is left.
    pub(crate) fn stay<R>(&mut self, gauges: &Gauges, work: impl FnOnce(&mut Lifo<u32>) -> R) -> R {
        gauges.taken.add(std::mem::take(&mut self.took));
        gauges.given.add(std::mem::take(&mut self.gave));
        let done = work(&mut self.stack);
        gauges.cached.set(self.stack.len() as u64);
        done
    }
}

/// TEST: mistakes of a hot path, which count nothing.
#[cfg(all(test, not(loom)))]
impl Local {
    /// The newest frame is gone.
    pub(crate) fn lose(&mut self) -> Option<u32> {
        self.stack.pop()
    }

    /// The newest frame is there twice; false when there is none, or no room.
    pub(crate) fn double(&mut self) -> bool {
        let newest = self.stack.iter().last().copied();
        newest.is_some_and(|id| self.stack.push(id))
    }
}
