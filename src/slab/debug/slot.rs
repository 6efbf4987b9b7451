//! Raw memory: one object of a cache with debug, and the bytes around it that reveal a misuse.

use super::layout::Plan;
use super::track::{Stamp, Track};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Maximum number of bytes of a damaged range that a report shows.
const SHOWN: usize = 32;

/// Bytes that changed: the position of the first one, counted from the object's begin, and all bytes up to the last one
/// (32 at most).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) offset: isize,
    pub(super) bytes: Vec<u8>,
}

/// One object and the data around it, according to the plan.
///
/// Everything is read and written by atomics, because a `validate` may read an object that another worker is about to
/// allocate or free. What it reads then is thrown away (see [`Mark`](super::mark::Mark)).
pub(super) struct Slot<'a> {
    /// Invariant: an object of a slab, not yet given back, of a cache laid out by `plan`.
    object: NonNull<u8>,
    pub(super) plan: &'a Plan,
}

impl<'a> Slot<'a> {
    /// # Safety
    /// `object` belongs to a slab of a cache laid out by `plan`, and the slab is not given back before this goes.
    pub(super) unsafe fn at(object: NonNull<u8>, plan: &'a Plan) -> Slot<'a> {
        Slot { object, plan }
    }

    pub(super) fn object(&self) -> NonNull<u8> {
        self.object
    }

    /// The word that says whether the object is out.
    pub(super) fn mark(&self) -> &AtomicU64 {
        self.word(self.plan.mark())
    }

    /// Records the allocation of the object.
    pub(super) fn note_alloc(&self, track: Track) {
        self.note(0, Some(track));
    }

    /// Records the free of the object.
    pub(super) fn note_free(&self, track: Track) {
        self.note(1, Some(track));
    }

    /// Erases both records.
    pub(super) fn forget(&self) {
        self.note(0, None);
        self.note(1, None);
    }

    /// The last allocation of the object. None if there was none, if it is not kept, or if it was overwritten.
    pub(super) fn allocated(&self) -> Option<Track> {
        self.stamp(0)?.read(self.object)
    }

    /// The last free of the object.
    pub(super) fn freed(&self) -> Option<Track> {
        self.stamp(1)?.read(self.object)
    }

    fn note(&self, which: usize, track: Option<Track>) {
        if let Some(stamp) = self.stamp(which) {
            stamp.write(self.object, track);
        }
    }

    fn stamp(&self, which: usize) -> Option<&Stamp> {
        let at = self.plan.tracks()? + which * size_of::<Stamp>();
        // SAFETY: the plan has room for two stamps there, 8-aligned like the object. They are atomics, for which any
        // bytes are a value.
        Some(unsafe { self.object.byte_add(at).cast::<Stamp>().as_ref() })
    }

    /// The word at an offset that is a multiple of 8 and inside the slot.
    fn word(&self, at: isize) -> &AtomicU64 {
        // SAFETY: the callers stay inside the slot; objects are 8-aligned, and so is every word then.
        unsafe { self.object.byte_offset(at).cast::<AtomicU64>().as_ref() }
    }

    /// The byte at an offset inside the slot.
    fn byte(&self, at: isize) -> &AtomicU8 {
        // SAFETY: the callers stay inside the slot.
        unsafe { self.object.byte_offset(at).cast::<AtomicU8>().as_ref() }
    }

    /// Fills a range of the slot with one byte.
    pub(super) fn fill(&self, range: Range<isize>, byte: u8) {
        let mut at = range.start;
        while at < range.end {
            if at % 8 == 0 && at + 8 <= range.end {
                self.word(at).store(u64::from_ne_bytes([byte; 8]), Relaxed);
                at += 8;
            } else {
                self.byte(at).store(byte, Relaxed);
                at += 1;
            }
        }
    }

    /// Finds the bytes of a range of the slot that are not `byte`.
    pub(super) fn difference(&self, range: Range<isize>, byte: u8) -> Option<Difference> {
        let same = u64::from_ne_bytes([byte; 8]);
        let mut at = range.start;
        while at < range.end {
            if at % 8 == 0 && at + 8 <= range.end && self.word(at).load(Relaxed) == same {
                at += 8;
            } else if self.byte(at).load(Relaxed) == byte {
                at += 1;
            } else {
                let mut bytes: Vec<u8> =
                    (at..range.end).take(SHOWN).map(|at| self.byte(at).load(Relaxed)).collect();
                let last = bytes.iter().rposition(|&found| found != byte);
                bytes.truncate(last.map_or(1, |last| last + 1));
                return Some(Difference { offset: at, bytes });
            }
        }
        None
    }
}
