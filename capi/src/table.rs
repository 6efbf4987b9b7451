//! HOT: the table of uses of frames. It checks the handle of a frame and finds the frame.
//!
//! The table has one slot of eight bytes for each chunk in which a frame can begin. A slot holds the headroom and the length of the frame, the
//! generation of its current use, and the holder of that use. So one load checks a handle and finds its frame.
//!
//! ```text
//!   slot   63 ───── generation ───── 39 38 ─ holder ─ 32 31 ── length ── 16 15 ── headroom ── 0
//! ```
//! The upper half of a valid handle equals the upper half of its slot. The generation advances when a use ends. Slots are never cleared and
//! never freed, so a handle keeps its meaning as long as the process lives, even if its pool is closed.
//! A tag caches the address of the segment that it used last, which is the segment of its memory.
//!
//! # Soundness
//! A slot whose holder is a worker's [`Tag`] *is* the claim on its frame, as a [`Frame`] is. A claim enters the slot only from a `Frame`
//! ([`Tag::give`], [`Tag::restore`]) and leaves it only as a `Frame` ([`Ending::take`]); then the slot has no holder any more. There is one `Tag`
//! of each number, and all its methods that change a slot take `&mut self`. So a slot with that holder has one writer: a load, a comparison and
//! a store are enough, where several writers would need a locked instruction. A frame that is between two workers has the holder [`LOOSE`].
//! Workers take it by compare-and-exchange, and the first one gets it.

use crate::slots::{self, Near, slot};
use netmem::Frame;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::num::NonZeroU64;
use std::ops::Range;
use std::slice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// Generation and holder: the bits that a valid handle has in common with its slot.
pub const USE: u64 = 0xffff_ffff_0000_0000;
/// The bits of the holder.
pub const HOLDER: u64 = 0x7f << 32;
/// The step by which the generation advances.
pub const NEXT: u64 = 0x80 << 32;
/// The bits of the generation.
pub const GENERATION: u64 = USE & !HOLDER;
/// The holder of a frame that is free, posted to a device, or was never allocated.
pub const NONE: u64 = 0;
/// The holder of a frame that is detached. Any worker may attach it.
pub const LOOSE: u64 = HOLDER;
/// Maximum number of workers.
pub const WORKERS: usize = 120;
const _: () = assert!((WORKERS as u64) << 32 < LOOSE);

/// How a use of a frame ended. The lower half of a slot without a holder records it, above the bits that are equal in all handles of a
/// segment. A slot without a holder does not use those bits, so ending a use need not clear them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum End {
    /// The frame was freed.
    Freed = 1 << END_SHIFT,
    /// The frame was posted for transmission.
    Sent = 2 << END_SHIFT,
    /// The frame was posted for reception.
    Filled = 3 << END_SHIFT,
    /// The frame was reclaimed from a worker that had not freed it.
    Reclaimed = 4 << END_SHIFT,
    /// The frame became something else, such as a packet or a raw frame, or went into a lane.
    Moved = 5 << END_SHIFT,
}

/// Position of the end: the three bits below the kind of a handle (`objects`).
const END_SHIFT: u32 = 24;
const END: u64 = 7 << END_SHIFT;
const _: () = assert!(!Near::IN_ALL < 1 << END_SHIFT);

/// Why a handle is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// No frame was ever given out under this handle.
    MadeUp,
    /// The use is over and the frame has no other use. Holds how the use ended; None if other uses followed it.
    Over(Option<End>),
    /// The use is over and the frame was allocated again.
    Again,
    /// The frame is detached, or the handle belongs to a use that was detached.
    Loose,
    /// The handle is valid but belongs to another worker.
    OtherWorkers,
}

impl Bad {
    /// Why a handle was refused whose slot holds `now`.
    #[cold]
    pub fn of(now: u64, word: u64) -> Bad {
        let holder = word & HOLDER;
        if holder == NONE {
            return Bad::MadeUp;
        }
        // Number of uses since that handle. It is signed, so that a handle from the future is recognised.
        let since = (now & GENERATION).wrapping_sub(word & GENERATION).cast_signed();
        match (since / NEXT.cast_signed(), now & HOLDER) {
            (..0, _) => Bad::MadeUp,
            (0, now_held) if now_held == holder && holder == LOOSE => Bad::Loose,
            (0, now_held) if now_held == holder => Bad::OtherWorkers,
            (0, _) => Bad::MadeUp,
            (_, LOOSE) => Bad::Loose,
            (1, NONE) => Bad::Over(End::of(now)),
            (_, NONE) => Bad::Over(None),
            _ => Bad::Again,
        }
    }
}

/// Whether `now` is the content of the slot of this handle, and both belong to `holder`.
#[inline(always)]
pub fn is_good(now: u64, word: u64, holder: u64) -> bool {
    ((now ^ word) | (word ^ holder) & HOLDER) & USE == 0
}

/// Makes the frame from the content of its slot.
///
/// # Safety
/// The slot holds the claim and loses it with this call, or the caller does not drop the frame.
#[inline(always)]
unsafe fn frame(number: u32, slot: u64) -> Option<Frame> {
    let word = NonZeroU64::new(slot << 32 | u64::from(number))?;
    // SAFETY: the lower half of `slot` came from the word of a frame with this number. The rest is the caller's promise.
    Some(unsafe { Frame::from_raw(word) })
}

/// Starts a use: stores the frame `raw` in its slot for this holder. Returns the handle.
#[inline(always)]
fn given(holder: u64, near: &mut Near, raw: u64) -> u64 {
    // The slots of a memory exist before one of its frames can be allocated or received (`make_slots`).
    near.find(raw as u32).map_or(0, |slot| put(slot, holder, raw))
}

/// Stores the frame `raw` in a slot that has no holder. Returns the handle.
#[inline(always)]
fn put(slot: &AtomicU64, holder: u64, raw: u64) -> u64 {
    let use_ = slot.load(Relaxed) & GENERATION | holder;
    slot.store(use_ | raw >> 32, Relaxed);
    use_ | u64::from(raw as u32)
}

/// The right to hold frames under one number. There is one tag of each number.
#[derive(Debug)]
pub struct Tag {
    holder: u64,
    near: Near,
    /// The segment of all frames of the worker's memory. [`Near::NONE`] if the memory has several segments.
    own: Near,
    /// The bits that all handles of this holder have in common in that segment.
    all_own: u64,
}

/// Ends uses of a tag, all in the same way.
#[derive(Debug)]
pub struct Ending<'a> {
    tag: &'a mut Tag,
    /// A copy of the tag's field, to stay in a register: the loop writes to slots, which might alias the tag for all the compiler knows.
    near: Near,
    holder: u64,
    /// Turns the generation of a valid handle into the content of a slot whose use has ended: next generation, no holder, how the use
    /// ended.
    change: u64,
}

impl Ending<'_> {
    /// Ends a use. Returns the old content of the slot, or None if the handle is invalid.
    #[inline(always)]
    fn slot(&mut self, word: u64) -> Option<u64> {
        if !self.near.has(word as u32) {
            self.near = Near::of(word as u32);
            self.tag.near = self.near;
        }
        let slot = self.near.slot(word as u32)?;
        // Relaxed: if the slot names this worker, this worker wrote it.
        let now = slot.load(Relaxed);
        is_good(now, word, self.holder).then(|| {
            slot.store((word & GENERATION).wrapping_add(self.change), Relaxed);
            now
        })
    }

    /// Ends a use. Returns the frame, or None if the handle is invalid.
    #[inline(always)]
    pub fn take(&mut self, word: u64) -> Option<Frame> {
        let now = self.slot(word)?;
        // SAFETY: the slot had the claim and has lost it.
        unsafe { frame(word as u32, now) }
    }

    /// As [`Ending::take_bare`], for several handles, from the front, into as many places. Stops at a handle that is invalid, or whose slot
    /// lies in another segment than the last one used. Returns the taken frames.
    #[inline(always)]
    pub fn take_near<'b>(&self, words: &[u64], to: &'b mut [MaybeUninit<Frame>]) -> &'b [Option<Frame>] {
        let n = match self.near.first() {
            Some(first) => take_near(self.near, self.holder | u64::from(first), self.change, words, to),
            None => 0,
        };
        // SAFETY: the first `n` places were written. An Option<Frame> has the layout of a Frame.
        unsafe { slice::from_raw_parts(to.as_ptr().cast(), n) }
    }

    /// As [`Ending::take`], for a frame that is freed: the result is empty and begins at the start of its first chunk. A freed frame needs
    /// only its number.
    #[inline(always)]
    pub fn take_bare(&mut self, word: u64) -> Option<Frame> {
        self.slot(word)?;
        // SAFETY: the slot of number 0 never has a holder, so the number is not 0. The number came from the word of a frame, and the slot
        // has lost the claim. Empty data lies inside every frame.
        Some(unsafe { Frame::from_raw(NonZeroU64::new_unchecked(word & !USE)) })
    }
}

/// As [`Ending::take_near`]. Returns the number taken. `all` holds the bits that all handles of this holder in this segment have in common.
#[inline(always)]
fn take_near(near: Near, all: u64, change: u64, words: &[u64], to: &mut [MaybeUninit<Frame>]) -> usize {
    let n = words.len().min(to.len());
    let (words, to) = (&words[..n], &mut to[..n]);
    let ((fours, ones), (to_fours, to_ones)) = (words.as_chunks::<4>(), to.as_chunks_mut::<4>());
    let mut taken = 0;
    // By fours, so that the cost of one loop step is shared by four frames.
    for (words, to) in fours.iter().zip(to_fours) {
        for (at, (&word, to)) in words.iter().zip(to).enumerate() {
            if !take_one(near, all, change, word, to) {
                return taken + at;
            }
        }
        taken += 4;
    }
    for (&word, to) in ones.iter().zip(to_ones) {
        if !take_one(near, all, change, word, to) {
            break;
        }
        taken += 1;
    }
    taken
}

/// Takes one frame. Returns false if the handle needs the slow path.
#[inline(always)]
fn take_one(near: Near, all: u64, change: u64, word: u64, to: &mut MaybeUninit<Frame>) -> bool {
    let Some((_, _, frame)) = end_near(near, all, change, word) else { return false };
    to.write(frame);
    true
}

/// Ends the use of a frame of the worker whose slot lies in this segment. Returns the slot, its old content and the frame. Returns None,
/// with nothing changed, if the handle needs the slow path.
#[inline(always)]
fn end_near<'a>(near: Near, all: u64, change: u64, word: u64) -> Option<(&'a AtomicU64, u64, Frame)> {
    // The generation and the index in the segment, if the handle is valid.
    let own = word ^ all;
    if own & (HOLDER | u64::from(Near::IN_ALL)) != 0 {
        return None;
    }
    // SAFETY: the number lies in the segment.
    let slot = unsafe { near.slot_within(word as u32) };
    // Relaxed: if the slot names this worker, this worker wrote it.
    let now = slot.load(Relaxed);
    if (now ^ word) >> 32 != 0 {
        return None;
    }
    // The next generation, no holder, and how the use ended.
    slot.store(own.wrapping_add(change), Relaxed);
    // SAFETY: as in `take_bare`.
    Some((slot, now, unsafe { Frame::from_raw(NonZeroU64::new_unchecked(word & !USE)) }))
}

/// Starts uses of frames whose slots lie in this segment. Replaces each frame in the array by its handle.
///
/// # Safety
/// As for [`Tag::give_all`]; and all frames lie in the segment.
#[inline(always)]
unsafe fn give_near(near: Near, holder: u64, frames: &mut [u64]) {
    let give = |frame: &mut u64| {
        // SAFETY: the caller's promise.
        let slot = unsafe { near.slot_within(*frame as u32) };
        *frame = put(slot, holder, *frame);
    };
    let (fours, ones) = frames.as_chunks_mut::<4>();
    fours.iter_mut().for_each(|four| four.iter_mut().for_each(give));
    ones.iter_mut().for_each(give);
}

impl Tag {
    /// Makes the tag of the worker at this place, which is below [`WORKERS`]. `chunks` are the chunks of the worker's memory.
    ///
    /// # Safety
    /// There is no other tag of that place at the same time.
    pub unsafe fn new(place: usize, chunks: Range<u32>) -> Tag {
        debug_assert!(place < WORKERS);
        let (holder, own) = ((place as u64 + 1) << 32, Near::of_all(chunks));
        Tag { holder, near: Near::NONE, own, all_own: holder | u64::from(own.first().unwrap_or(0)) }
    }

    /// Starts a use of a frame for this worker. Returns the handle.
    #[inline(always)]
    pub fn give(&mut self, frame: Frame) -> u64 {
        given(self.holder, &mut self.near, frame.into_raw().get())
    }

    /// As [`Ending::take_bare`], for a frame that `free` frees. Returns false, with nothing changed, if the handle is invalid, if its slot
    /// lies outside the segment of the worker's memory, or if `free` returns the frame.
    #[inline(always)]
    pub fn end_own(&mut self, word: u64, end: End, free: impl FnOnce(Frame) -> Result<(), Frame>) -> bool {
        if self.own.first().is_none() {
            return false;
        }
        let ended = end_near(self.own, self.all_own, NEXT | end as u64, word);
        let Some((slot, now, frame)) = ended else { return false };
        free(frame)
            .map_err(|frame| {
                // The slot holds the claim again.
                mem::forget(frame);
                slot.store(now, Relaxed);
            })
            .is_ok()
    }

    /// As [`Tag::give`], for a frame of the worker's memory. Calls `frame` only if that memory lies in one segment; otherwise returns None.
    #[inline(always)]
    pub fn give_own(&mut self, frame: impl FnOnce() -> Option<Frame>) -> Option<u64> {
        self.own.first()?;
        let raw = frame()?.into_raw().get();
        // SAFETY: all frames of the memory lie in that segment.
        Some(put(unsafe { self.own.slot_within(raw as u32) }, self.holder, raw))
    }

    /// As [`Tag::give_own`], for several frames, which `write` writes to `places`; handles replace them there. Returns false, with no frame
    /// written, if the memory has several segments or `write` returns false.
    ///
    /// # Safety
    /// If `write` returns true, all places hold frames of the worker's memory.
    #[inline(always)]
    pub unsafe fn give_all_own(
        &mut self,
        places: &mut [MaybeUninit<Frame>],
        write: impl FnOnce(&mut [MaybeUninit<Frame>]) -> bool,
    ) -> bool {
        let is_given = self.own.first().is_some() && write(places);
        if is_given {
            // SAFETY: a Frame is one word. The caller promises that these are frames, and their claims end here. All frames of the memory
            // lie in that segment.
            unsafe {
                let frames = slice::from_raw_parts_mut(places.as_mut_ptr().cast(), places.len());
                give_near(self.own, self.holder, frames);
            }
        }
        is_given
    }

    /// As [`Tag::give`], for several frames of the worker's memory. Replaces each word ([`Frame::into_raw`]) by a handle.
    ///
    /// # Safety
    /// The words are claims, which end with this call.
    #[inline(always)]
    pub unsafe fn give_all(&mut self, frames: &mut [u64]) {
        let Tag { holder, near, .. } = self;
        frames.iter_mut().for_each(|frame| *frame = given(*holder, near, *frame));
    }

    /// Returns an [`Ending`] that ends uses of this worker with `end`.
    #[inline(always)]
    pub fn ending(&mut self, end: End) -> Ending<'_> {
        let Tag { holder, near, .. } = *self;
        Ending { tag: self, near, holder, change: NEXT | end as u64 }
    }

    /// Returns the slot of a valid handle of this worker, and the content of the slot.
    #[inline(always)]
    fn find(&self, word: u64) -> Option<(&'static AtomicU64, u64)> {
        let slot = self.near.slot(word as u32).or_else(|| slot(word as u32))?;
        // Relaxed: if the slot names this worker, this worker wrote it.
        let now = slot.load(Relaxed);
        is_good(now, word, self.holder).then_some((slot, now))
    }

    /// Undoes the end of a use that just ended: `word` is the valid handle of the frame again.
    #[inline(always)]
    pub fn restore(&mut self, word: u64, frame: Frame) {
        let raw = frame.into_raw().get();
        debug_assert_eq!(raw as u32, word as u32);
        // The slot that `take` found. It has no holder, since no other thread has the frame.
        if let Some(slot) = slot(raw as u32) {
            slot.store(word & USE | raw >> 32, Relaxed);
        }
    }

    /// Calls `look` with the frame of a handle. Returns None if the handle is invalid.
    #[inline(always)]
    pub fn look<R>(&self, word: u64, look: impl FnOnce(&Frame) -> R) -> Option<R> {
        let (_, now) = self.find(word)?;
        // SAFETY: the frame is not dropped, and `&self` borrows the slot during the call.
        let frame = ManuallyDrop::new(unsafe { frame(word as u32, now) }?);
        Some(look(&frame))
    }

    /// Calls `change` with the frame of a handle, and stores the new headroom and length. Returns None if the handle is invalid.
    #[inline(always)]
    pub fn change<R>(&mut self, word: u64, change: impl FnOnce(&mut Frame) -> R) -> Option<R> {
        let (slot, now) = self.find(word)?;
        // SAFETY: the frame is not dropped, and `&mut self` keeps other calls from the slot.
        let mut frame = ManuallyDrop::new(unsafe { frame(word as u32, now) }?);
        let done = change(&mut frame);
        slot.store(word & USE | ManuallyDrop::into_inner(frame).into_raw().get() >> 32, Relaxed);
        Some(done)
    }

    /// Detaches a frame, so that any worker can attach it. Returns the handle for that.
    pub fn detach(&mut self, word: u64) -> Option<u64> {
        let (slot, now) = self.find(word)?;
        let use_ = (word & GENERATION).wrapping_add(NEXT) | LOOSE;
        // Release: pairs with the AcqRel in `attach`. The next holder sees what this one wrote into the frame.
        slot.store(use_ | now & !USE, Release);
        Some(use_ | word & !USE)
    }

    /// Attaches a detached frame to this worker. Returns the new handle. Returns None if the frame is not detached under this handle, or
    /// another worker was first.
    pub fn attach(&mut self, word: u64) -> Option<u64> {
        let slot = slot(word as u32)?;
        let now = slot.load(Relaxed);
        if (now ^ word) & USE != 0 || word & HOLDER != LOOSE {
            return None;
        }
        let use_ = (word & GENERATION).wrapping_add(NEXT) | self.holder;
        // AcqRel: pairs with the Release in `detach`. While the slot is loose, no thread changes its lower half.
        slot.compare_exchange(now, use_ | now & !USE, AcqRel, Relaxed).ok()?;
        Some(use_ | word & !USE)
    }

    /// Returns why a handle was refused. COLD: the slot may have changed since.
    #[cold]
    pub fn why(&self, word: u64) -> Bad {
        let slot = slot(word as u32).filter(|_| word as u32 > 0);
        slot.map_or(Bad::MadeUp, |slot| Bad::of(slot.load(Relaxed), word))
    }

    /// Returns the holder number of this tag, in place.
    #[inline(always)]
    pub fn holder(&self) -> u64 {
        self.holder
    }

    /// Ends all uses of this worker and calls `free` with each frame. Returns the number of uses ended.
    #[cold]
    pub fn reclaim(&mut self, mut free: impl FnMut(Frame)) -> usize {
        let (mut reclaimed, holder) = (0, self.holder);
        let mut ending = self.ending(End::Reclaimed);
        each_word(|word| {
            if word & HOLDER == holder {
                let Some(frame) = ending.take(word) else { return };
                reclaimed += 1;
                free(frame);
            }
        });
        reclaimed
    }
}

/// Ends the uses of all detached frames in these chunks, except those that another thread attaches first. Calls `free` with each.
#[cold]
pub fn reclaim_loose(chunks: Range<u32>, mut free: impl FnMut(Frame)) {
    slots::each(|number, slot| {
        let now = slot.load(Relaxed);
        let ended = (now & GENERATION).wrapping_add(NEXT | End::Reclaimed as u64);
        let is_one = now & HOLDER == LOOSE && chunks.contains(&number);
        // AcqRel: pairs with the Release in `detach`, as in `attach`.
        if is_one
            && slot.compare_exchange(now, ended, AcqRel, Relaxed).is_ok()
            // SAFETY: the slot had the claim and has lost it.
            && let Some(frame) = unsafe { frame(number, now) }
        {
            free(frame);
        }
    });
}

/// Calls `call` with the handle of each frame that has a holder or is detached. Reads one slot after another, while other threads may change them.
#[cold]
pub fn each_word(mut call: impl FnMut(u64)) {
    slots::each(|number, slot| {
        let now = slot.load(Relaxed);
        if now & HOLDER != NONE {
            call(now & USE | u64::from(number));
        }
    });
}

/// Calls `call` with the chunk number of each frame that has a holder or is detached. Reads one slot after another, while other threads may
/// change them.
#[cold]
pub fn each_held(mut call: impl FnMut(u32)) {
    each_word(|word| call(word as u32));
}

impl End {
    /// How the use ended, from the lower bits of a slot without a holder.
    fn of(slot: u64) -> Option<End> {
        let ends = [End::Freed, End::Sent, End::Filled, End::Reclaimed, End::Moved];
        ends.into_iter().find(|end| *end as u64 == slot & END)
    }
}
