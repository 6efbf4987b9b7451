//! COLD: the side array of a memory in which pools that trace note who holds which frame.

use std::panic::Location;
use std::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// Says of a frame that it came home after its pool was closed.
pub(super) const HOME: u8 = u8::MAX;

/// A frame table's side array: one entry a chunk, used for frames of the pools that trace.
#[derive(Debug)]
pub(super) struct Traces {
    begun: Instant,
    entries: Box<[Entry]>,
}

/// What is known of one frame. Written by its holder, or by the one who begins to trace.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// Null, or a `&'static Location`: where it was allocated.
    pub(super) site: AtomicPtr<Location<'static>>,
    /// Milliseconds after `begun` when that was.
    pub(super) at: AtomicU32,
    /// 0, a [`Place`](super::Place) and 1, or [`HOME`].
    pub(super) place: AtomicU8,
}

impl Traces {
    /// Entries for as many chunks, nothing known.
    pub(super) fn new(chunks: usize) -> Traces {
        Traces { begun: Instant::now(), entries: (0..chunks).map(|_| Entry::default()).collect() }
    }

    /// Milliseconds since the array was made; wraps.
    pub(super) fn now(&self) -> u32 {
        self.begun.elapsed().as_millis() as u32
    }

    /// What is known of the frame at this place of the side arrays.
    pub(super) fn entry(&self, at: usize) -> Option<&Entry> {
        self.entries.get(at)
    }
}

impl Entry {
    /// Site, time and place.
    pub(super) fn read(&self) -> (Option<&'static Location<'static>>, u32, u8) {
        let site = self.site.load(Relaxed);
        // SAFETY: null, or made of a reference to a Location, which is static.
        (unsafe { site.as_ref() }, self.at.load(Relaxed), self.place.load(Relaxed))
    }
}
