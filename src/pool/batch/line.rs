//! A line: up to seven frames in one cache line, the unit in which frames travel between workers.
//!
//! It carries what its frames have in common, their pool among it: so neither side looks a frame's pool up.

use super::{Batch, Drain, each_pool, initialised};
use crate::limits::CACHE_LINE;
use crate::pool::Place;
use crate::pool::frame::Frame;
use crate::pool::shared::Shared;
use crate::pool::yard;
use crate::sync::Worker;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ptr;

/// Frames that a line holds at most.
pub(crate) const LINE_MAX: usize = 7;

/// A count that says: no frames, and a mark in the lower bits.
const MARK: u8 = 0x80;

/// Up to [`LINE_MAX`] frames, oldest first, and a word that whoever sends them says of them all; or no frames, and a mark.
///
/// Dropped with frames inside, it counts them back from where they were counted and sends them home by the slow way.
#[repr(C, align(64))]
pub(crate) struct Line {
    /// 0, or the number of the pool that all the frames are of, if there are any: they keep it.
    pool: u16,
    /// Where the frames are counted, if not as the program's.
    place: Option<Place>,
    /// How many, or [`MARK`] and the mark.
    count: u8,
    /// What the sender says of the frames, or of the mark.
    pub(crate) word: u32,
    /// Invariant: the first `len` places are initialised, the others hold no claim.
    frames: [MaybeUninit<Frame>; LINE_MAX],
}

const _: () = assert!(size_of::<Line>() == CACHE_LINE);

impl Line {
    /// An empty line.
    #[inline]
    pub(crate) fn new(word: u32) -> Line {
        let frames = [const { MaybeUninit::uninit() }; LINE_MAX];
        Line { pool: 0, place: None, count: 0, word, frames }
    }

    /// A line with a mark (below 128) in the place of frames.
    pub(crate) fn marked(mark: u8, word: u32) -> Line {
        let mut line = Line::new(word);
        line.count = MARK | mark;
        line
    }

    /// The mark, if it has one.
    #[inline(always)]
    pub(crate) fn mark(&self) -> Option<u8> {
        (self.count >= MARK).then_some(self.count & !MARK)
    }

    /// Frames inside.
    #[inline(always)]
    pub(crate) fn len(&self) -> usize {
        if self.count < MARK { usize::from(self.count) } else { 0 }
    }

    /// Frames there is room for.
    #[inline(always)]
    pub(crate) fn room(&self) -> usize {
        if self.count < MARK { LINE_MAX - self.len() } else { 0 }
    }

    /// The frames.
    #[inline]
    pub(crate) fn frames(&self) -> &[Frame] {
        // SAFETY: the first `len` places are initialised.
        unsafe { initialised(&self.frames[..self.len()]) }
    }

    /// Null, or the pool that all the frames are of.
    #[inline(always)]
    fn pool(&self) -> *const Shared {
        yard::by_number(self.pool)
    }

    /// Counts the frames of `lines` at `place` from now on. Nothing may be added to the lines then.
    ///
    /// # Cost
    /// One addition for lines behind each other whose frames are all of one pool.
    #[inline]
    pub(crate) fn enter(lines: &mut [Line], place: Place, w: &Worker) {
        let mut rest = lines;
        while let Some(first) = rest.first() {
            let number = first.pool;
            let run = rest.iter().take_while(|line| line.pool == number).count();
            let (same, others) = rest.split_at_mut(run);
            same.iter_mut().for_each(|line| line.place = Some(place));
            let n = same.iter().map(Line::len).sum();
            let first = same.iter().find(|line| line.len() > 0);
            // SAFETY: a line with frames knows a pool only if it is theirs, and they keep it; of others nothing is asked.
            match first.and_then(|line| unsafe { line.pool().as_ref() }) {
                Some(pool) if !pool.is_traced() => place.count_untraced(pool, w, n),
                _ => same.iter().for_each(|line| line.count_at(place, Some(w), true)),
            }
            rest = others;
        }
    }

    /// Counts the frames as coming to `place`, or as leaving it.
    fn count_at(&self, place: Place, w: Option<&Worker>, enter: bool) {
        let pool = if self.len() > 0 { self.pool() } else { ptr::null() };
        each_pool(self.frames(), pool, |pool, run| place.count(pool, w, run, enter));
    }

    /// Appends the frames to `batch`, which has room for them; they stay counted where they are: that is the caller's to
    /// change ([`Place::leave_from`]).
    ///
    /// # Panics
    /// If there is no room.
    #[inline(always)]
    pub(crate) fn unload(self, batch: &mut Batch) {
        let room = batch.room();
        assert!(self.len() <= room, "{} frames for {room} places", self.len());
        let line = ManuallyDrop::new(self);
        let places = batch.places();
        if let Some((places, _)) = places.split_first_chunk_mut::<LINE_MAX>() {
            // SAFETY: the line is not dropped, so its claims are given up with this copy; the places hold none.
            *places = unsafe { ptr::read(&line.frames) };
        } else {
            // SAFETY: as above, for the initialised ones alone; there are as many places.
            unsafe { ptr::copy_nonoverlapping(line.frames.as_ptr(), places.as_mut_ptr(), line.len()) };
        }
        // SAFETY: that many were just copied to the first free places, of that pool if it is known.
        unsafe { batch.grown(line.len(), line.pool()) };
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
    if let Some(place) = line.place.take() {
        line.count_at(place, None, false);
    }
    while let Some(last) = line.count.checked_sub(1) {
        line.count = last;
        // SAFETY: the place was inside the count, so it is initialised; it is outside now, so it is read once.
        drop(unsafe { line.frames[usize::from(last)].assume_init_read() });
    }
}

impl Drain<'_> {
    /// Moves the next `n` frames (as many as there are and `line` has room for) behind those of `line`; returns how many.
    #[inline]
    pub(crate) fn move_to_line(&mut self, line: &mut Line, n: usize) -> usize {
        let n = n.min(self.end - self.next).min(line.room());
        let (from, len) = (&self.batch.frames[self.next..self.next + n], line.len());
        if let Ok(from) = <&[_; LINE_MAX]>::try_from(from) {
            // SAFETY: as below; it is an empty line that is filled.
            line.frames = unsafe { ptr::read(from) };
        } else {
            // SAFETY: the places from `next` on are initialised, and given up by moving `next`; `line` has room for
            // them behind its own.
            unsafe { ptr::copy_nonoverlapping(from.as_ptr(), line.frames[len..].as_mut_ptr(), n) };
        }
        let known = if n > 0 { self.batch.pool } else { ptr::null() };
        // SAFETY: a batch with frames knows a pool only if it is theirs, and they keep it.
        let pool = unsafe { known.as_ref() }.map_or(0, |pool| pool.number);
        if len == 0 {
            line.pool = pool;
        } else if line.pool != pool {
            line.pool = 0;
        }
        self.next += n;
        line.count += n as u8;
        n
    }
}

impl std::fmt::Debug for Line {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Line").field("word", &self.word).field("frames", &self.frames()).finish()
    }
}
