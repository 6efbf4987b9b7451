//! A line: up to seven frames in one cache line. It is the unit in which frames travel between workers.
//!
//! A line carries the common data of its frames, also their pool, so neither side looks up the pool of a frame. It is
//! written and read in place in a ring: eight bytes for each frame and side.

use super::{Batch, Drain, each_pool, initialised};
use crate::limits::CACHE_LINE;
use crate::pool::FrameState;
use crate::pool::frame::Frame;
use crate::pool::frame_table;
use crate::pool::shared::Shared;
use crate::ring::{Vacant, Waiting};
use crate::sync::Steps;
use std::mem::MaybeUninit;
use std::ptr;

/// Maximum number of frames in a line.
pub(crate) const LINE_MAX: usize = 7;

/// A bit of the count: the line has no frames, and a mark in the lower bits.
const MARK: u8 = 0x80;

/// Up to [`LINE_MAX`] frames, oldest first, and a word from the sender about all of them; or no frames, and a mark.
///
/// Its frames count as queued from before the line is made until after they are taken ([`FrameState::Queued`]). A line that
/// is dropped with frames inside counts them back and frees them without a worker.
#[repr(C, align(64))]
pub(crate) struct Line {
    /// 0, or the number of the pool that all the frames belong to, if there are any: the frames keep the pool.
    pool: u16,
    /// The number of frames, or [`MARK`] and the mark.
    count: u8,
    /// The sender's word about the frames, or about the mark.
    pub(crate) word: u32,
    /// Invariant: the first `len` slots are initialised. The others hold no claim.
    frames: [MaybeUninit<Frame>; LINE_MAX],
}

const _: () = assert!(size_of::<Line>() == CACHE_LINE);

impl Line {
    /// Makes a line that has a mark (below 128) instead of frames.
    pub(crate) fn marked(mark: u8, word: u32) -> Line {
        let frames = [const { MaybeUninit::uninit() }; LINE_MAX];
        Line { pool: 0, count: MARK | mark, word, frames }
    }

    /// The mark, if the line has one.
    #[inline(always)]
    pub(crate) fn mark(&self) -> Option<u8> {
        (self.count >= MARK).then_some(self.count & !MARK)
    }

    /// Frames inside.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        if self.count < MARK { usize::from(self.count) } else { 0 }
    }

    /// Null, or the pool that all the frames belong to.
    #[inline(always)]
    fn pool(&self) -> *const Shared {
        frame_table::by_number(self.pool)
    }

    /// Appends the frames of a waiting line to `batch`, and takes the line. If there is no room, returns false, and the
    /// line waits on.
    #[inline(always)]
    pub(crate) fn unload(line: Waiting<'_, Line>, batch: &mut Batch) -> bool {
        let (len, places) = (line.len(), batch.places());
        if len > places.len() {
            return false;
        }
        if let Some((places, _)) = places.split_first_chunk_mut::<LINE_MAX>() {
            // SAFETY: the line's claims are given up with this copy, as it is forgotten; the slots hold none.
            *places = unsafe { ptr::read(&line.frames) };
        } else {
            // SAFETY: as above, for the initialised ones alone; there are as many slots.
            unsafe { ptr::copy_nonoverlapping(line.frames.as_ptr(), places.as_mut_ptr(), len) };
        }
        let pool = line.pool();
        line.forget();
        // SAFETY: that many were just copied to the first free slots, and belong to that pool if it is known.
        unsafe { batch.grown(len, pool) };
        true
    }
}

impl Drop for Line {
    #[inline(always)]
    fn drop(&mut self) {
        if self.len() > 0 {
            drop_frames(self);
        }
    }
}

#[cold]
#[inline(never)]
fn drop_frames(line: &mut Line) {
    let (len, pool) = (line.len(), line.pool());
    line.count = 0;
    let (frames, _) = line.frames.split_at(len);
    // SAFETY: the first `len` slots were initialised.
    each_pool(unsafe { initialised(frames) }, pool, |pool, run| {
        FrameState::Queued.say(pool, None, run, false);
        FrameState::Queued.hand(pool, None, run.len(), false);
    });
    let mut steps = Steps::new();
    for place in frames {
        // SAFETY: as above; the count says none, so each is read once.
        let frame = unsafe { place.assume_init_read() };
        steps.run(|| drop(frame));
    }
    steps.end();
}

impl Drain<'_> {
    /// Makes the next `n` frames (or as many as there are and fit) a line with `word`. If there are none, the slot
    /// stays free. The frames were counted as queued before.
    #[inline(always)]
    pub(crate) fn load(&mut self, mut slot: Vacant<'_, Line>, n: usize, word: u32) {
        let n = n.min(self.end - self.next).min(LINE_MAX);
        if n == 0 {
            return;
        }
        // SAFETY: a batch with frames knows a pool only if they belong to it, and they keep it.
        let pool = unsafe { self.batch.pool.as_ref() }.map_or(0, |pool| pool.number);
        let from = &self.batch.frames[self.next..];
        let line = slot.place().as_mut_ptr();
        // SAFETY: the slot belongs to this function for writing. The `n` slots from `next` on are initialised, and
        // given up by moving `next`. The other copied slots hold no claim.
        unsafe {
            (&raw mut (*line).pool).write(pool);
            (&raw mut (*line).count).write(n as u8);
            (&raw mut (*line).word).write(word);
            let to = &raw mut (*line).frames;
            match from.first_chunk::<LINE_MAX>() {
                Some(whole) => ptr::copy_nonoverlapping(whole, to, 1),
                None => ptr::copy_nonoverlapping(from.as_ptr(), to.cast(), n),
            }
            slot.filled();
        }
        self.next += n;
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("word", &self.word).field("len", &self.len()).finish_non_exhaustive()
    }
}
