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
use netmem::{Batch, Frame};
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::ptr;
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

/// How a use of a frame ended: what stands in the lower half of a slot without a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum End {
    /// It was given back.
    Freed = 1,
    /// It was transmitted.
    Sent = 2,
    /// It was posted for reception.
    Filled = 3,
    /// It was made a raw word.
    Raw = 4,
    /// It was taken from a worker that had not given it back.
    Reclaimed = 5,
    /// It has become a part of something else, or went into a lane.
    Moved = 6,
}

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

/// Puts a frame into its slot, for this holder; its word.
#[inline(always)]
fn given(holder: u64, near: &mut Near, frame: Frame) -> u64 {
    let raw = frame.into_raw().get();
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
}

/// Ends uses of a tag, all in the same way.
#[derive(Debug)]
pub struct Ending<'a> {
    tag: &'a mut Tag,
    /// What the tag says, in registers: slots are written between, and for all the compiler knows the tag is.
    near: Near,
    holder: u64,
    /// What makes of the upper half of a good word a slot whose use has ended: the next generation, no holder, the end.
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
            slot.store((word & USE).wrapping_add(self.change), Relaxed);
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

    /// As [`Ending::take_bare`] of several, into `to`, up to the first whose slot lies in another segment than the one that was looked into
    /// last, or that is not good; how many.
    #[inline(always)]
    pub fn take_near(&self, words: impl Iterator<Item = u64>, to: &mut Batch) -> usize {
        take_near(self.near, self.change, words, to)
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

    /// Why a word was refused.
    #[inline(always)]
    pub fn why(&self, word: u64) -> Bad {
        self.tag.why(word)
    }
}

/// As [`Ending::take_near`]. A function of its own, and without a call within: so that all of it stays in registers.
#[inline(never)]
fn take_near(near: Near, change: u64, words: impl Iterator<Item = u64>, to: &mut Batch) -> usize {
    to.extend(words.map_while(|word| {
        let slot = near.slot(word as u32)?;
        // What the slot says when the use has ended; of another holder's word some of the holder's bits are left.
        let ended = (word & USE).wrapping_add(change);
        // Relaxed: where it says this worker, this worker wrote it.
        if (slot.load(Relaxed) ^ word) >> 32 != 0 || ended & HOLDER != 0 {
            return None;
        }
        slot.store(ended, Relaxed);
        // SAFETY: as in `take_bare`.
        Some(unsafe { Frame::from_raw(NonZeroU64::new_unchecked(word & !USE)) })
    }))
}

/// Gives frames out whose slots lie in this segment, up to the first whose does not; how many.
///
/// # Safety
/// The claims on so many of `frames` end with this call: whoever has them forgets them.
#[inline(never)]
unsafe fn give_near<'a>(
    near: Near,
    holder: u64,
    frames: &[Frame],
    words: impl Iterator<Item = &'a mut u64>,
) -> usize {
    let mut given = 0;
    for (frame, word) in frames.iter().zip(words) {
        // SAFETY: the caller's promise; it is taken once, or not at all.
        let raw = unsafe { ptr::read(frame) }.into_raw().get();
        let Some(slot) = near.slot(raw as u32) else { break };
        *word = put(slot, holder, raw);
        given += 1;
    }
    given
}

impl Tag {
    /// The tag of the worker at this place, below [`WORKERS`].
    ///
    /// # Safety
    /// There is no other one of that place meanwhile.
    pub unsafe fn new(place: usize) -> Tag {
        debug_assert!(place < WORKERS);
        Tag { holder: (place as u64 + 1) << 32, near: Near::NONE }
    }

    /// Gives a frame out: a word for a new use, which is this worker's.
    #[inline(always)]
    pub fn give(&mut self, frame: Frame) -> u64 {
        given(self.holder, &mut self.near, frame)
    }

    /// As [`Tag::give`] of several, oldest first, into as many words.
    ///
    /// # Safety
    /// The claims on `frames` end with this call: whoever has them forgets them.
    #[inline(always)]
    pub unsafe fn give_all(&mut self, frames: &[Frame], mut words: &mut [u64]) {
        let mut rest = frames;
        loop {
            // SAFETY: the caller's promise.
            let near = unsafe { give_near(self.near, self.holder, rest, words.iter_mut()) };
            let (Some((frame, frames)), Some((word, later))) =
                (rest[near..].split_first(), words[near..].split_first_mut())
            else {
                return;
            };
            // SAFETY: the caller's promise; it was not taken above.
            *word = self.give(unsafe { ptr::read(frame) });
            (rest, words) = (frames, later);
        }
    }

    /// To end uses of this worker, so.
    #[inline(always)]
    pub fn ending(&mut self, end: End) -> Ending<'_> {
        let Tag { holder, near } = *self;
        Ending { tag: self, near, holder, change: NEXT.wrapping_sub(holder) | end as u64 }
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
        ends.into_iter().find(|end| *end as u64 == slot & 0xff)
    }
}
