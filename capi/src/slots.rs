//! HOT: where the slot of a chunk lies.
//!
//! Slots lie in segments as large as those that memories are numbered by. Who keeps where the one lies that it looked into last ([`Near`]) finds a slot by a
//! comparison, and no load of a directory that would have to be waited for.
//!
//! Unsafe code: segments are leaked, and borrowed for good.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize};

/// log2 of the chunks of a segment of slots: 2 GiB of frames. A memory begins at such a boundary of the numbers.
const SEGMENT_SHIFT: u32 = 20;
const SEGMENT: usize = 1 << SEGMENT_SHIFT;
/// Numbers that words have for chunks: 2 TiB of frames. The two bits above are kept for what is no frame.
pub const NUMBERS: usize = 1 << 30;

type Segment = [AtomicU64; SEGMENT];

static DIRECTORY: [AtomicPtr<Segment>; NUMBERS / SEGMENT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS / SEGMENT];
/// Of each segment how many slots may have been used: those of the largest memory that lay there.
static OPENED: [AtomicUsize; NUMBERS / SEGMENT] = [const { AtomicUsize::new(0) }; NUMBERS / SEGMENT];

/// Makes slots for these chunks, if there are none yet; they stay for good. Only what is used of a segment takes memory.
#[cold]
pub fn open(chunks: std::ops::Range<u32>) {
    let (first, end) = (chunks.start as usize, chunks.end as usize);
    for at in (first / SEGMENT..end.div_ceil(SEGMENT)).take_while(|at| *at < DIRECTORY.len()) {
        OPENED[at].fetch_max((end - at * SEGMENT).min(SEGMENT), Relaxed);
        if !DIRECTORY[at].load(Relaxed).is_null() {
            continue;
        }
        // By numbers: of those the standard library asks the system for zeros, instead of writing them.
        let zeros: *mut [u64] = Box::into_raw(vec![0; SEGMENT].into_boxed_slice());
        let new: *mut Segment = zeros.cast();
        // Release: pairs with the Acquire in `segment`, so that its zeros are seen.
        if DIRECTORY[at].compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_err() {
            // SAFETY: it came out of a box above, whose length and layout it has, and nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// A segment of slots; None where no memory ever was.
fn segment(at: usize) -> Option<&'static Segment> {
    // Acquire: pairs with the Release in `open`.
    let segment = DIRECTORY.get(at)?.load(Acquire);
    // SAFETY: null, or a box that was leaked.
    unsafe { segment.as_ref() }
}

/// The segment that was looked into last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Near {
    /// Its place in the directory.
    at: u32,
    /// Where slot 0 would lie if the segment reached down to it.
    origin: *const AtomicU64,
}

impl Near {
    /// None yet: no number has this place.
    pub const NONE: Near = Near { at: u32::MAX, origin: ptr::null() };

    /// The bits of a number that all of a segment have in common.
    pub const IN_ALL: u32 = !0 << SEGMENT_SHIFT;

    /// The segment of a chunk; none where no memory ever was.
    #[cold]
    #[inline(never)]
    pub fn of(number: u32) -> Near {
        let at = number >> SEGMENT_SHIFT;
        segment(at as usize).map_or(Near::NONE, |segment| {
            let origin = segment.as_ptr().wrapping_sub((at as usize) << SEGMENT_SHIFT);
            Near { at, origin }
        })
    }

    /// The slot of a chunk, if it lies in this segment.
    #[inline(always)]
    pub fn slot(self, number: u32) -> Option<&'static AtomicU64> {
        // SAFETY: the number's upper bits are those of the segment's first slot, so it is one of the segment, which was leaked.
        self.has(number).then(|| unsafe { &*self.origin.wrapping_add(number as usize) })
    }

    /// The segment of all these chunks; none where they lie in several.
    #[cold]
    pub fn of_all(chunks: std::ops::Range<u32>) -> Near {
        let near = Near::of(chunks.start);
        if chunks.is_empty() || !near.has(chunks.end - 1) { Near::NONE } else { near }
    }

    /// The number of the segment's first slot; None where it is none.
    #[inline(always)]
    pub fn first(self) -> Option<u32> {
        (!self.origin.is_null()).then_some(self.at << SEGMENT_SHIFT)
    }

    /// The slot of a chunk in this segment.
    ///
    /// # Safety
    /// It is a segment, and the number has the bits of [`Near::IN_ALL`] in common with its first slot.
    #[inline(always)]
    pub unsafe fn slot_within(self, number: u32) -> &'static AtomicU64 {
        // SAFETY: so it is one of the segment's slots, which was leaked.
        unsafe { &*self.origin.wrapping_add(number as usize) }
    }

    /// Whether the slot of a chunk lies in this segment.
    #[inline(always)]
    pub fn has(self, number: u32) -> bool {
        number >> SEGMENT_SHIFT == self.at
    }

    /// The slot of a chunk, whose segment is this one from then on; None where no memory ever was.
    #[inline(always)]
    pub fn find(&mut self, number: u32) -> Option<&'static AtomicU64> {
        if !self.has(number) {
            *self = Near::of(number);
        }
        self.slot(number)
    }
}

/// The slot of a chunk; None where no memory ever was.
#[inline]
pub fn slot(number: u32) -> Option<&'static AtomicU64> {
    Near::of(number).slot(number)
}

/// Calls `call` with each slot that may have been used, and its chunk.
#[cold]
pub fn each(mut call: impl FnMut(u32, &AtomicU64)) {
    for (at, opened) in OPENED.iter().enumerate() {
        let Some(segment) = segment(at) else { continue };
        for (n, slot) in segment.iter().take(opened.load(Relaxed)).enumerate() {
            call((at * SEGMENT + n) as u32, slot);
        }
    }
}
