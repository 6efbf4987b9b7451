//! COLD: the side array of a memory in which pools that trace record the holder of each frame.

use std::panic::Location;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// Says that a frame was freed after its pool was closed.
pub(super) const HOME: u8 = u8::MAX;

/// A frame table's side array: one entry for each chunk, used for frames of the pools that trace.
#[derive(Debug)]
pub(super) struct Traces {
    begun: Instant,
    entries: Box<[Entry]>,
}

/// The record of one frame. Written by its holder, or by the thread that starts tracing.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Null, or a `&'static Location`: the call site of the allocation.
    pub(super) site: AtomicPtr<Location<'static>>,
    /// The time of the allocation, in milliseconds after `begun`.
    pub(super) at: AtomicU32,
    /// 0, a [`FrameState`](super::FrameState) and 1, or [`HOME`].
    pub(super) state: AtomicU8,
}

impl Traces {
    /// Makes empty entries for this many chunks.
    pub(super) fn new(chunks: usize) -> Traces {
        Traces { begun: Instant::now(), entries: (0..chunks).map(|_| Entry::default()).collect() }
    }

    /// Milliseconds since the array was made; wraps.
    pub(super) fn now(&self) -> u32 {
        self.begun.elapsed().as_millis() as u32
    }

    /// The record of the frame at this index of the side arrays.
    pub(super) fn entry(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }
}

impl Entry {
    /// Site, time and state.
    pub(super) fn read(&self) -> (Option<&'static Location<'static>>, u32, u8) {
        let site = self.site.load(Relaxed);
        // SAFETY: null, or made of a reference to a Location, which is static.
        (unsafe { site.as_ref() }, self.at.load(Relaxed), self.state.load(Relaxed))
    }
}
