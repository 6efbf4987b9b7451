//! HOT: finds the slot of a chunk.
//!
//! Slots lie in segments. A segment covers as many numbers as the unit in which memories are numbered. A caller that
//! remembers the segment it used last ([`Near`]) finds a slot with one comparison, and waits for no load of the
//! directory.
//!
//! Unsafe code: segments are leaked, and borrowed for the lifetime of the process.

use netmem::page::Region;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

/// log2 of the number of chunks in a segment of slots: 2 GiB of frames. A memory begins at a segment boundary
/// of the chunk numbers.
const SEGMENT_SHIFT: u32 = 20;
const SEGMENT: usize = 1 << SEGMENT_SHIFT;
/// Number of chunks that handles can name: 2 TiB of frames. The two bits above mark handles of other things
/// than frames.
pub const NUMBERS: usize = 1 << 30;

type Segment = [AtomicU64; SEGMENT];

static DIRECTORY: [AtomicPtr<Segment>; NUMBERS / SEGMENT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS / SEGMENT];
/// For each segment, the number of slots that may have been used: the slots of the largest memory that lay
/// there.
static OPENED: [AtomicUsize; NUMBERS / SEGMENT] = [const { AtomicUsize::new(0) }; NUMBERS / SEGMENT];

/// The chunks of a region.
pub fn chunks_of(region: &Region) -> Range<u32> {
    region.first_chunk()..region.first_chunk() + region.chunks()
}

/// Makes slots for these chunks, if there are none yet. Slots are never freed. Only the used part of a
/// segment takes memory. Returns false if there is no room for them.
#[cold]
pub fn open(chunks: Range<u32>) -> bool {
    let (first, end) = (chunks.start as usize, chunks.end as usize);
    for at in (first / SEGMENT..end.div_ceil(SEGMENT)).take_while(|at| *at < DIRECTORY.len()) {
        OPENED[at].fetch_max((end - at * SEGMENT).min(SEGMENT), Relaxed);
        if !DIRECTORY[at].load(Relaxed).is_null() {
            continue;
        }
        let layout = Layout::new::<Segment>();
        // SAFETY: a segment has a size.
        let new: *mut Segment = unsafe { alloc_zeroed(layout) }.cast();
        if new.is_null() {
            return false;
        }
        // Release: pairs with the Acquire in `segment`, which then sees the zeros.
        if DIRECTORY[at].compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_err() {
            // SAFETY: it was allocated above with this layout, and no other thread has seen it.
            unsafe { dealloc(new.cast(), layout) };
        }
    }
    true
}

/// Returns a segment of slots, or None if no memory ever lay there.
fn segment(at: usize) -> Option<&'static Segment> {
    // Acquire: pairs with the Release in `open`.
    let segment = DIRECTORY.get(at)?.load(Acquire);
    // SAFETY: null, or a segment that is never freed. Zeros are numbers.
    unsafe { segment.as_ref() }
}

/// The segment that was used last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// Its index in the directory.
    at: u32,
    /// The address that slot 0 would have if the segment began at slot 0.
    origin: *const AtomicU64,
}

impl Near {
    /// No segment. No chunk number has this index.
    pub const NONE: Near = Near { at: u32::MAX, origin: ptr::null() };

    /// The bits of a chunk number that are equal in the whole segment.
    pub const IN_ALL: u32 = !0 << SEGMENT_SHIFT;

    /// Returns the segment of a chunk, or [`Near::NONE`] if no memory ever lay there.
    #[cold]
    #[inline(never)]
    pub fn of(number: u32) -> Near {
        let at = number >> SEGMENT_SHIFT;
        segment(at as usize).map_or(Near::NONE, |segment| {
            let origin = segment.as_ptr().wrapping_sub((at as usize) << SEGMENT_SHIFT);
            Near { at, origin }
        })
    }

    /// Returns the slot of a chunk, if it lies in this segment.
    #[inline(always)]
    pub fn slot(self, number: u32) -> Option<&'static AtomicU64> {
        // SAFETY: the upper bits of the number are those of the segment's first slot, so the slot lies in the
        // segment, which is leaked.
        self.has(number).then(|| unsafe { &*self.origin.wrapping_add(number as usize) })
    }

    /// Returns the segment of all these chunks, or [`Near::NONE`] if they lie in several segments.
    #[cold]
    pub fn of_all(chunks: Range<u32>) -> Near {
        let near = Near::of(chunks.start);
        if chunks.is_empty() || !near.has(chunks.end - 1) { Near::NONE } else { near }
    }

    /// Returns the number of the segment's first slot, or None for [`Near::NONE`].
    #[inline(always)]
    pub fn first(self) -> Option<u32> {
        (!self.origin.is_null()).then_some(self.at << SEGMENT_SHIFT)
    }

    /// Returns the slot of a chunk in this segment.
    ///
    /// # Safety
    /// `self` is a segment, and the number has the bits of [`Near::IN_ALL`] in common with its first slot.
    #[inline(always)]
    pub unsafe fn slot_within(self, number: u32) -> &'static AtomicU64 {
        // SAFETY: so the slot lies in the segment, which is leaked.
        unsafe { &*self.origin.wrapping_add(number as usize) }
    }

    /// Whether the slot of a chunk lies in this segment.
    #[inline(always)]
    pub fn has(self, number: u32) -> bool {
        number >> SEGMENT_SHIFT == self.at
    }

    /// Returns the slot of a chunk, and remembers its segment. Returns None if no memory ever lay there.
    #[inline(always)]
    pub fn find(&mut self, number: u32) -> Option<&'static AtomicU64> {
        if !self.has(number) {
            *self = Near::of(number);
        }
        self.slot(number)
    }
}

/// Returns the slot of a chunk, or None if no memory ever lay there.
#[inline]
pub fn slot(number: u32) -> Option<&'static AtomicU64> {
    Near::of(number).slot(number)
}

/// Calls `call` with each slot that may have been used, and its chunk number.
#[cold]
pub fn each(mut call: impl FnMut(u32, &AtomicU64)) {
    for (at, opened) in OPENED.iter().enumerate() {
        let Some(segment) = segment(at) else { continue };
        for (n, slot) in segment.iter().take(opened.load(Relaxed)).enumerate() {
            call((at * SEGMENT + n) as u32, slot);
        }
    }
}
