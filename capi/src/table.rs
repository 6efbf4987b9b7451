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
//!
//! # Soundness
//! A slot whose holder is a worker's [`Tag`] *is* the claim on its frame, as a [`Frame`] is: a claim enters it only out of a
//! `Frame` ([`Tag::give`], [`Tag::restore`]) and leaves it only as one ([`Tag::take`]), with which the holder is no more. There is one `Tag` of a
//! number, and its methods that change anything want it `&mut`: so of a slot with that holder there is one writer, and a load,
//! a comparison and a store are enough where otherwise it would have to be one locked instruction. A frame between two workers has
//! the holder [`LOOSE`]; it is taken by compare-and-exchange, by whichever worker is first.

use netmem::Frame;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

/// Generation and holder: what a good word and its slot have in common.
const USE: u64 = 0xffff_ffff_0000_0000;
/// The holder alone.
const HOLDER: u64 = 0x7f << 32;
/// What the generation moves on by.
const NEXT: u64 = 0x80 << 32;
/// The generation alone.
const GENERATION: u64 = USE & !HOLDER;
/// The holder of a frame that is free, with a device, or was never given out.
const NONE: u64 = 0;
/// The holder of a frame that was detached, and that any worker may attach.
const LOOSE: u64 = HOLDER;
/// Workers that can be told apart.
pub const WORKERS: usize = 120;
const _: () = assert!((WORKERS as u64) << 32 < LOOSE);

/// Chunks of a segment of slots: 64 MiB of frames.
const SEGMENT: usize = 1 << 15;
/// Numbers that words have for chunks: 2 TiB of frames. The two bits above are kept for what is no frame.
pub const NUMBERS: usize = 1 << 30;

static DIRECTORY: [AtomicPtr<[AtomicU64; SEGMENT]>; NUMBERS / SEGMENT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS / SEGMENT];

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

/// Makes slots for these chunks, if there are none yet; they stay for good.
#[cold]
pub fn open(chunks: std::ops::Range<u32>) {
    let segments = chunks.start as usize / SEGMENT..(chunks.end as usize).div_ceil(SEGMENT);
    let missing = |entry: &&AtomicPtr<[AtomicU64; SEGMENT]>| entry.load(Relaxed).is_null();
    for entry in DIRECTORY.get(segments).unwrap_or_default().iter().filter(missing) {
        let zeros: Box<[AtomicU64]> = std::iter::repeat_with(AtomicU64::default).take(SEGMENT).collect();
        let Ok(zeros) = <Box<[AtomicU64; SEGMENT]>>::try_from(zeros) else { continue };
        let new = Box::into_raw(zeros);
        // Release: pairs with the Acquire in `slot`, so that its zeros are seen.
        if entry.compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_err() {
            // SAFETY: it came out of a box above, and nobody has seen it.
            drop(unsafe { Box::from_raw(new) });
        }
    }
}

/// A segment of slots; None where no memory ever was.
#[inline(always)]
fn segment(at: usize) -> Option<&'static [AtomicU64; SEGMENT]> {
    // Acquire: pairs with the Release in `open`.
    let segment = DIRECTORY.get(at)?.load(Acquire);
    // SAFETY: null, or a box that was leaked.
    unsafe { segment.as_ref() }
}

/// The slot of a chunk; None where no memory ever was.
#[inline(always)]
fn slot(number: u32) -> Option<&'static AtomicU64> {
    Some(&segment(number as usize / SEGMENT)?[number as usize % SEGMENT])
}

/// The segment that was looked into last: frames of a burst lie near each other.
pub struct Near {
    at: usize,
    segment: Option<&'static [AtomicU64; SEGMENT]>,
}

impl Near {
    /// None yet.
    #[inline(always)]
    pub fn new() -> Near {
        Near { at: usize::MAX, segment: None }
    }

    /// As [`slot`].
    #[inline(always)]
    fn slot(&mut self, number: u32) -> Option<&'static AtomicU64> {
        let at = number as usize / SEGMENT;
        if at != self.at {
            *self = Near { at, segment: segment(at) };
        }
        Some(&self.segment?[number as usize % SEGMENT])
    }
}

/// A slot without a holder, of the use behind that of `word`, which ended so.
#[inline(always)]
fn over(word: u64, end: End) -> u64 {
    (word & GENERATION).wrapping_add(NEXT) | end as u64
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
    let Some(slot) = near.slot(raw as u32) else { return 0 };
    let use_ = slot.load(Relaxed) & GENERATION | holder;
    slot.store(use_ | raw >> 32, Relaxed);
    use_ | u64::from(raw as u32)
}

/// The right to hold frames under one number. There is one of each.
#[derive(Debug)]
pub struct Tag(u64);

impl Tag {
    /// The tag of the worker at this place, below [`WORKERS`].
    ///
    /// # Safety
    /// There is no other one of that place meanwhile.
    pub unsafe fn new(place: usize) -> Tag {
        debug_assert!(place < WORKERS);
        Tag((place as u64 + 1) << 32)
    }

    /// Gives a frame out: a word for a new use, which is this worker's.
    #[inline(always)]
    pub fn give(&mut self, frame: Frame) -> u64 {
        given(self.0, &mut Near::new(), frame)
    }

    /// As [`Tag::give`] of several, oldest first, into as many words.
    ///
    /// # Safety
    /// The claims on `frames` end with this call: whoever has them forgets them.
    #[inline(always)]
    pub unsafe fn give_all<'a>(&mut self, frames: &[Frame], words: impl Iterator<Item = &'a mut u64>) {
        let (mut near, holder) = (Near::new(), self.0);
        for (frame, word) in frames.iter().zip(words) {
            // SAFETY: the caller's promise; each is taken once.
            *word = given(holder, &mut near, unsafe { ptr::read(frame) });
        }
    }

    /// The slot of a word that is good and this worker's, and what it holds.
    #[inline(always)]
    fn find(&self, word: u64) -> Option<(&'static AtomicU64, u64)> {
        self.find_near(&mut Near::new(), word)
    }

    #[inline(always)]
    fn find_near(&self, near: &mut Near, word: u64) -> Option<(&'static AtomicU64, u64)> {
        let slot = near.slot(word as u32)?;
        // Relaxed: where it says this worker, this worker wrote it.
        let now = slot.load(Relaxed);
        (((now ^ word) | (word ^ self.0) & HOLDER) & USE == 0).then_some((slot, now))
    }

    /// Ends a use: the frame, or None where the word is not good.
    #[inline(always)]
    pub fn take(&mut self, near: &mut Near, word: u64, end: End) -> Option<Frame> {
        let (slot, now) = self.find_near(near, word)?;
        slot.store(over(word, end), Relaxed);
        // SAFETY: the slot had the claim, and has it no longer.
        unsafe { frame(word as u32, now) }
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
        let use_ = (word & GENERATION).wrapping_add(NEXT) | self.0;
        // AcqRel: pairs with the Release in `detach`. While it is loose nobody changes its lower half.
        slot.compare_exchange(now, use_ | now & !USE, AcqRel, Relaxed).ok()?;
        Some(use_ | word & !USE)
    }

    /// Why a word was refused. COLD: the slot may have moved on since.
    #[cold]
    pub fn why(&self, word: u64) -> Bad {
        let (number, holder) = (word as u32, word & HOLDER);
        let Some(slot) = slot(number).filter(|_| holder != NONE && number > 0) else { return Bad::MadeUp };
        let now = slot.load(Relaxed);
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

    /// Ends all uses of this worker: calls `home` with each frame; how many there were.
    #[cold]
    pub fn reclaim(&mut self, mut home: impl FnMut(Frame)) -> usize {
        let mut reclaimed = 0;
        for word in held(self.0) {
            let Some(frame) = self.take(&mut Near::new(), word, End::Reclaimed) else { continue };
            reclaimed += 1;
            home(frame);
        }
        reclaimed
    }
}

/// The words of all frames that this holder has.
fn held(holder: u64) -> impl Iterator<Item = u64> {
    let segments = DIRECTORY.iter().enumerate().filter(|(_, segment)| !segment.load(Relaxed).is_null());
    let numbers = segments.flat_map(|(at, _)| at * SEGMENT..(at + 1) * SEGMENT);
    numbers.filter_map(move |number| {
        let now = slot(number as u32)?.load(Relaxed);
        (now & HOLDER == holder).then_some(now & USE | number as u64)
    })
}

/// Of every frame that is held, or between two holders, its chunk's number, as of some moment.
#[cold]
pub fn each_held(mut call: impl FnMut(u32)) {
    for holder in 1..=LOOSE >> 32 {
        held(holder << 32).for_each(|word| call(word as u32));
    }
}

impl End {
    fn of(slot: u64) -> Option<End> {
        let ends = [End::Freed, End::Sent, End::Filled, End::Raw, End::Reclaimed];
        ends.into_iter().find(|end| *end as u32 == slot as u32)
    }
}
