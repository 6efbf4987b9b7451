//! HOT: which use of a frame each word was given out for.
//!
//! One slot of eight bytes for each chunk that a frame can begin in. It holds what a frame says beside its number (headroom and
//! length), the generation of its use, and who holds it: so a word is checked, and its frame found, by one load.
//!
//! ```text
//!   slot   63 ───── generation ───── 39 38 ─ holder ─ 32 31 ── length ── 16 15 ── headroom ── 0
//! ```
//! The upper half of a word that is good is the upper half of its slot. The generation moves on when a use ends; slots are never
//! cleared and never freed, so that a word means the same for as long as the process lives, whatever was closed meanwhile.
//! A tag keeps where the segment lies that it looked into last, which is that of its memory.
//!
//! # Soundness
//! A slot whose holder is a worker's [`Tag`] *is* the claim on its frame, as a [`Frame`] is: a claim enters it only out of a
//! `Frame` ([`Tag::give`], [`Tag::restore`]) and leaves it only as one ([`Tag::take`]), with which the holder is no more. There is one `Tag` of a
//! number, and its methods that change anything want it `&mut`: so of a slot with that holder there is one writer, and a load,
//! a comparison and a store are enough where otherwise it would have to be one locked instruction. A frame between two workers has
//! the holder [`LOOSE`]; it is taken by compare-and-exchange, by whichever worker is first.

use crate::slots::{self, Near, slot};
use netmem::Frame;
use std::mem::{self, ManuallyDrop, MaybeUninit};
use std::num::NonZeroU64;
use std::ops::Range;
use std::slice;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

/// Generation and holder: what a good word and its slot have in common.
pub const USE: u64 = 0xffff_ffff_0000_0000;
/// The holder alone.
pub const HOLDER: u64 = 0x7f << 32;
/// What the generation moves on by.
pub const NEXT: u64 = 0x80 << 32;
/// The generation alone.
pub const GENERATION: u64 = USE & !HOLDER;
/// The holder of a frame that is free, with a device, or was never given out.
pub const NONE: u64 = 0;
/// The holder of a frame that was detached, and that any worker may attach.
pub const LOOSE: u64 = HOLDER;
/// Workers that can be told apart.
pub const WORKERS: usize = 120;
const _: () = assert!((WORKERS as u64) << 32 < LOOSE);

/// How a use of a frame ended: what stands in the lower half of a slot without a holder, above the bits that tell the slots of a segment apart. Those
/// mean nothing there, so that an end need not clear what a word has in them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum End {
    /// It was given back.
    Freed = 1 << END_SHIFT,
    /// It was transmitted.
    Sent = 2 << END_SHIFT,
    /// It was posted for reception.
    Filled = 3 << END_SHIFT,
    /// It was made a raw word.
    Raw = 4 << END_SHIFT,
    /// It was taken from a worker that had not given it back.
    Reclaimed = 5 << END_SHIFT,
    /// It has become a part of something else, or went into a lane.
    Moved = 6 << END_SHIFT,
}

/// Where the end stands, in the three bits up to the kinds of words (`objects`).
const END_SHIFT: u32 = 24;
const END: u64 = 7 << END_SHIFT;
const _: () = assert!(!Near::IN_ALL < 1 << END_SHIFT);

/// Why a word is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// No frame was ever given out by this word.
    MadeUp,
    /// Its use is over, and the place is in no other one. How it ended; None where that was not the last use.
    Over(Option<End>),
    /// Its use is over, and the frame has been given out again.
    Again,
    /// It was detached, or is of a use that was.
    Loose,
    /// It is good, and another worker's.
    OtherWorkers,
}

impl Bad {
    /// Why a word was refused whose slot says this.
    #[cold]
    pub fn of(now: u64, word: u64) -> Bad {
        let holder = word & HOLDER;
        if holder == NONE {
            return Bad::MadeUp;
        }
        // Uses since: as a signed number, so that what is yet to come is told from what has been.
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

/// Whether a slot that says `now` is that of this word, and both are the holder's.
#[inline(always)]
pub fn is_good(now: u64, word: u64, holder: u64) -> bool {
    ((now ^ word) | (word ^ holder) & HOLDER) & USE == 0
}

/// The frame of a slot that says this.
///
/// # Safety
/// The slot is the claim, and is none from now on, or the frame is not dropped.
#[inline(always)]
unsafe fn frame(number: u32, slot: u64) -> Option<Frame> {
    let word = NonZeroU64::new(slot << 32 | u64::from(number))?;
    // SAFETY: the lower half came from a frame's word, whose lower half its number was; the rest is the caller's promise.
    Some(unsafe { Frame::from_raw(word) })
}

/// Puts what a frame says into its slot, for this holder; its word.
#[inline(always)]
fn given(holder: u64, near: &mut Near, raw: u64) -> u64 {
    // Every memory's slots are made before a frame of it can be had.
    near.find(raw as u32).map_or(0, |slot| put(slot, holder, raw))
}

/// Puts what a frame says into its slot, which nobody holds; its word.
#[inline(always)]
fn put(slot: &AtomicU64, holder: u64, raw: u64) -> u64 {
    let use_ = slot.load(Relaxed) & GENERATION | holder;
    slot.store(use_ | raw >> 32, Relaxed);
    use_ | u64::from(raw as u32)
}

/// The right to hold frames under one number. There is one of each.
#[derive(Debug)]
pub struct Tag {
    holder: u64,
    near: Near,
    /// The segment of all frames of the worker's memory; none where they have several.
    own: Near,
    /// What words of this holder have in common there.
    all_own: u64,
}

/// Ends uses of a tag, all in the same way.
#[derive(Debug)]
pub struct Ending<'a> {
    tag: &'a mut Tag,
    /// What the tag says, in registers: slots are written between, and for all the compiler knows the tag is.
    near: Near,
    holder: u64,
    /// What makes of the generation of a good word a slot whose use has ended: the next one, no holder, the end.
    change: u64,
}

impl Ending<'_> {
    /// Ends a use: what the slot said, or None where the word is not good.
    #[inline(always)]
    fn slot(&mut self, word: u64) -> Option<u64> {
        if !self.near.has(word as u32) {
            self.near = Near::of(word as u32);
            self.tag.near = self.near;
        }
        let slot = self.near.slot(word as u32)?;
        // Relaxed: where it says this worker, this worker wrote it.
        let now = slot.load(Relaxed);
        is_good(now, word, self.holder).then(|| {
            slot.store((word & GENERATION).wrapping_add(self.change), Relaxed);
            now
        })
    }

    /// Ends a use: the frame, or None where the word is not good.
    #[inline(always)]
    pub fn take(&mut self, word: u64) -> Option<Frame> {
        let now = self.slot(word)?;
        // SAFETY: the slot had the claim, and has it no longer.
        unsafe { frame(word as u32, now) }
    }

    /// As [`Ending::take_bare`] of several, from the first on, into as many places: up to one whose slot lies in another segment than the one that was
    /// looked into last, or whose word is not good. Those that were taken.
    #[inline(always)]
    pub fn take_near<'b>(&self, words: &[u64], to: &'b mut [MaybeUninit<Frame>]) -> &'b [Option<Frame>] {
        let n = match self.near.first() {
            Some(first) => take_near(self.near, self.holder | u64::from(first), self.change, words, to),
            None => 0,
        };
        // SAFETY: the first `n` were written; an Option<Frame> has a Frame's layout.
        unsafe { slice::from_raw_parts(to.as_ptr().cast(), n) }
    }

    /// As [`Ending::take`], of a frame that goes home: it is empty, and begins where its first chunk does. What a freed frame says besides its
    /// number nobody asks.
    #[inline(always)]
    pub fn take_bare(&mut self, word: u64) -> Option<Frame> {
        self.slot(word)?;
        // SAFETY: the slot of number 0 never has a holder, so the number is another one; it came from a frame's word, the slot had the
        // claim and has it no longer, and no data at all lies within every frame.
        Some(unsafe { Frame::from_raw(NonZeroU64::new_unchecked(word & !USE)) })
    }
}

/// As [`Ending::take_near`]; how many. `all` is what words of this holder, in this segment, have in common.
#[inline(always)]
fn take_near(near: Near, all: u64, change: u64, words: &[u64], to: &mut [MaybeUninit<Frame>]) -> usize {
    let n = words.len().min(to.len());
    let (words, to) = (&words[..n], &mut to[..n]);
    let ((fours, ones), (to_fours, to_ones)) = (words.as_chunks::<4>(), to.as_chunks_mut::<4>());
    let mut taken = 0;
    // By fours: what a loop costs is paid once for them.
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

/// Takes one frame; false where something is odd about its word.
#[inline(always)]
fn take_one(near: Near, all: u64, change: u64, word: u64, to: &mut MaybeUninit<Frame>) -> bool {
    let Some((_, _, frame)) = end_near(near, all, change, word) else { return false };
    to.write(frame);
    true
}

/// Ends the use of a frame of the worker's own whose slot lies in this segment: the slot, what it said, and the frame. None, and nothing has changed, where
/// something is odd about its word.
#[inline(always)]
fn end_near<'a>(near: Near, all: u64, change: u64, word: u64) -> Option<(&'a AtomicU64, u64, Frame)> {
    // The generation, and where in the segment it is, if nothing is wrong.
    let own = word ^ all;
    if own & (HOLDER | u64::from(Near::IN_ALL)) != 0 {
        return None;
    }
    // SAFETY: its number lies in the segment.
    let slot = unsafe { near.slot_within(word as u32) };
    // Relaxed: where it says this worker, this worker wrote it.
    let now = slot.load(Relaxed);
    if (now ^ word) >> 32 != 0 {
        return None;
    }
    // The next generation, no holder, the end.
    slot.store(own.wrapping_add(change), Relaxed);
    // SAFETY: as in `take_bare`.
    Some((slot, now, unsafe { Frame::from_raw(NonZeroU64::new_unchecked(word & !USE)) }))
}

/// Gives frames out whose slots lie in this segment: what they say becomes their words.
///
/// # Safety
/// As of [`Tag::give_all`]; and they are all of the segment.
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
    /// The tag of the worker at this place, below [`WORKERS`], whose memory has these chunks.
    ///
    /// # Safety
    /// There is no other one of that place meanwhile.
    pub unsafe fn new(place: usize, chunks: Range<u32>) -> Tag {
        debug_assert!(place < WORKERS);
        let (holder, own) = ((place as u64 + 1) << 32, Near::of_all(chunks));
        Tag { holder, near: Near::NONE, own, all_own: holder | u64::from(own.first().unwrap_or(0)) }
    }

    /// Gives a frame out: a word for a new use, which is this worker's.
    #[inline(always)]
    pub fn give(&mut self, frame: Frame) -> u64 {
        given(self.holder, &mut self.near, frame.into_raw().get())
    }

    /// As [`Ending::take_bare`], of a frame that goes home by `home`; false, and nothing has changed, where its word is not good, or its slot
    /// lies in another segment than those of the worker's memory, or `home` gives the frame back.
    #[inline(always)]
    pub fn end_own(&mut self, word: u64, end: End, home: impl FnOnce(Frame) -> Result<(), Frame>) -> bool {
        if self.own.first().is_none() {
            return false;
        }
        let ended = end_near(self.own, self.all_own, NEXT | end as u64, word);
        let Some((slot, now, frame)) = ended else { return false };
        home(frame)
            .map_err(|frame| {
                // The slot is the claim again.
                mem::forget(frame);
                slot.store(now, Relaxed);
            })
            .is_ok()
    }

    /// As [`Tag::give`], of a frame of the worker's memory, which is asked for if that lies in one segment; else None.
    #[inline(always)]
    pub fn give_own(&mut self, frame: impl FnOnce() -> Option<Frame>) -> Option<u64> {
        self.own.first()?;
        let raw = frame()?.into_raw().get();
        // SAFETY: all frames of the memory lie in that segment.
        Some(put(unsafe { self.own.slot_within(raw as u32) }, self.holder, raw))
    }

    /// As [`Tag::give_own`] of several, which `write` writes into the places: words stand there then. False, and there are none, where the memory's frames
    /// lie in several segments, or `write` says that there are none.
    ///
    /// # Safety
    /// Where it says that there are, all places hold frames of the worker's memory.
    #[inline(always)]
    pub unsafe fn give_all_own(
        &mut self,
        places: &mut [MaybeUninit<Frame>],
        write: impl FnOnce(&mut [MaybeUninit<Frame>]) -> bool,
    ) -> bool {
        let is_given = self.own.first().is_some() && write(places);
        if is_given {
            // SAFETY: a Frame is its word, and these are frames by the caller's promise, whose claims end here; all frames of the memory lie in that segment.
            unsafe {
                let frames = slice::from_raw_parts_mut(places.as_mut_ptr().cast(), places.len());
                give_near(self.own, self.holder, frames);
            }
        }
        is_given
    }

    /// As [`Tag::give`] of several, of the worker's memory: what each says ([`Frame::into_raw`]) becomes its word.
    ///
    /// # Safety
    /// They are claims, and end with this call.
    #[inline(always)]
    pub unsafe fn give_all(&mut self, frames: &mut [u64]) {
        let Tag { holder, near, .. } = self;
        frames.iter_mut().for_each(|frame| *frame = given(*holder, near, *frame));
    }

    /// To end uses of this worker, so.
    #[inline(always)]
    pub fn ending(&mut self, end: End) -> Ending<'_> {
        let Tag { holder, near, .. } = *self;
        Ending { tag: self, near, holder, change: NEXT | end as u64 }
    }

    /// The slot of a word that is good and this worker's, and what it holds.
    #[inline(always)]
    fn find(&self, word: u64) -> Option<(&'static AtomicU64, u64)> {
        let slot = self.near.slot(word as u32).or_else(|| slot(word as u32))?;
        // Relaxed: where it says this worker, this worker wrote it.
        let now = slot.load(Relaxed);
        is_good(now, word, self.holder).then_some((slot, now))
    }

    /// Takes an end back that was a moment ago: the frame is held by `word` again.
    #[inline(always)]
    pub fn restore(&mut self, word: u64, frame: Frame) {
        let raw = frame.into_raw().get();
        debug_assert_eq!(raw as u32, word as u32);
        // The slot that `take` found: nobody has it, since nobody has the frame.
        if let Some(slot) = slot(raw as u32) {
            slot.store(word & USE | raw >> 32, Relaxed);
        }
    }

    /// Calls `look` with the frame of a word.
    #[inline(always)]
    pub fn look<R>(&self, word: u64, look: impl FnOnce(&Frame) -> R) -> Option<R> {
        let (_, now) = self.find(word)?;
        // SAFETY: it is not dropped, and the slot is borrowed by `&self` meanwhile.
        let frame = ManuallyDrop::new(unsafe { frame(word as u32, now) }?);
        Some(look(&frame))
    }

    /// Calls `change` with the frame of a word, and keeps what it has made of headroom and length.
    #[inline(always)]
    pub fn change<R>(&mut self, word: u64, change: impl FnOnce(&mut Frame) -> R) -> Option<R> {
        let (slot, now) = self.find(word)?;
        // SAFETY: it is not dropped, and the slot is this call's meanwhile.
        let mut frame = ManuallyDrop::new(unsafe { frame(word as u32, now) }?);
        let done = change(&mut frame);
        slot.store(word & USE | ManuallyDrop::into_inner(frame).into_raw().get() >> 32, Relaxed);
        Some(done)
    }

    /// Makes a frame anybody's: the word under which a worker attaches it.
    pub fn detach(&mut self, word: u64) -> Option<u64> {
        let (slot, now) = self.find(word)?;
        let use_ = (word & GENERATION).wrapping_add(NEXT) | LOOSE;
        // Release: pairs with the AcqRel in `attach`, so that the next holder sees what this one wrote into the frame.
        slot.store(use_ | now & !USE, Release);
        Some(use_ | word & !USE)
    }

    /// Makes a detached frame this worker's: its word from now on. None where the word is not that of a detached frame, or another
    /// worker was first.
    pub fn attach(&mut self, word: u64) -> Option<u64> {
        let slot = slot(word as u32)?;
        let now = slot.load(Relaxed);
        if (now ^ word) & USE != 0 || word & HOLDER != LOOSE {
            return None;
        }
        let use_ = (word & GENERATION).wrapping_add(NEXT) | self.holder;
        // AcqRel: pairs with the Release in `detach`. While it is loose nobody changes its lower half.
        slot.compare_exchange(now, use_ | now & !USE, AcqRel, Relaxed).ok()?;
        Some(use_ | word & !USE)
    }

    /// Why a word was refused. COLD: the slot may have moved on since.
    #[cold]
    pub fn why(&self, word: u64) -> Bad {
        let slot = slot(word as u32).filter(|_| word as u32 > 0);
        slot.map_or(Bad::MadeUp, |slot| Bad::of(slot.load(Relaxed), word))
    }

    /// The holder that this is.
    #[inline(always)]
    pub fn holder(&self) -> u64 {
        self.holder
    }

    /// Ends all uses of this worker: calls `home` with each frame; how many there were.
    #[cold]
    pub fn reclaim(&mut self, mut home: impl FnMut(Frame)) -> usize {
        let (mut reclaimed, holder) = (0, self.holder);
        let mut ending = self.ending(End::Reclaimed);
        each_word(|word| {
            if word & HOLDER == holder {
                let Some(frame) = ending.take(word) else { return };
                reclaimed += 1;
                home(frame);
            }
        });
        reclaimed
    }
}

/// Calls `call` with the words of all frames that somebody holds, as of some moment.
fn each_word(mut call: impl FnMut(u64)) {
    slots::each(|number, slot| {
        let now = slot.load(Relaxed);
        if now & HOLDER != NONE {
            call(now & USE | u64::from(number));
        }
    });
}

/// Of every frame that is held, or between two holders, its chunk's number, as of some moment.
#[cold]
pub fn each_held(mut call: impl FnMut(u32)) {
    each_word(|word| call(word as u32));
}

impl End {
    /// The end that the lower bits of a slot without a holder say.
    fn of(slot: u64) -> Option<End> {
        let ends = [End::Freed, End::Sent, End::Filled, End::Raw, End::Reclaimed, End::Moved];
        ends.into_iter().find(|end| *end as u64 == slot & END)
    }
}
