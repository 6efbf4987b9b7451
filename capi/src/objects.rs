//! HOT: which use of an object, a page, a packet or a shared frame each word was given out for.
//!
//! What has no number of its own gets one: an entry of a table, which is given out anew when its use is over.
//!
//! ```text
//!   word       63 ───── generation ───── 39 38 ─ holder ─ 32 31 kind 29 28 ──── number of the entry ──── 0
//!   entry's    63 ───── generation ───── 39 38 ─ holder ─ 32 31 kind 29            how the last use ended
//! ```
//! The rest is as with frames (`table.rs`): the generation moves on when a use ends, entries are never cleared and never freed.
//!
//! # Soundness
//! An entry whose holder is a worker's [`Tag`] *is* the claim on what it says: a claim enters it by [`Uses::give`] and leaves it by
//! [`Uses::take`], with which the holder is no more. Who may change an entry, and how it passes to another worker, is as with frames.

use crate::table::{Bad, End, GENERATION, HOLDER, LOOSE, NEXT, NONE, Tag, USE, is_good};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

/// Where the kind stands.
const KIND_SHIFT: u32 = 29;
/// The kind alone. 0 and 1 are those of frames, whose numbers have a bit more.
const KIND: u64 = 7 << KIND_SHIFT;
/// Entries at most.
const NUMBERS: usize = 1 << KIND_SHIFT;
/// Entries of a segment.
const SEGMENT: usize = 1 << 14;
/// Numbers that are taken, or given up, at once.
const RUN: usize = 64;
/// Numbers that a worker keeps at most.
const KEPT: usize = 1024;

type Segment = [Entry; SEGMENT];

static DIRECTORY: [AtomicPtr<Segment>; NUMBERS / SEGMENT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS / SEGMENT];
/// Numbers from here on were never given out.
static FRESH: AtomicU32 = AtomicU32::new(0);
/// Numbers that no worker has, and whose uses are over.
static FREE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// What a word names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum What {
    /// An object of a cache, or bytes of a size class.
    Object = 2 << KIND_SHIFT,
    /// A block of pages.
    Page = 4 << KIND_SHIFT,
    /// A packet.
    Packet = 6 << KIND_SHIFT,
    /// One of several claims on a frame.
    Shared = 7 << KIND_SHIFT,
}

/// One use at a time. Zeros are an entry that was never used.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct Entry {
    use_: AtomicU64,
    /// The address of an object, the number of a page, the word of a packet's or shared frame's bytes.
    at: AtomicU64,
    /// The word of the cache; of a packet, of the heads; of others, of the memory.
    of: AtomicU64,
    /// The word of a packet's head; 0 while a call has the packet, and of others.
    head: AtomicU64,
}

/// A claim that lies in an entry, or has just left it.
#[derive(Clone, Copy, Debug)]
pub struct Claim {
    pub at: u64,
    pub of: u64,
    pub head: u64,
}

impl Entry {
    #[inline(always)]
    fn claim(&self) -> Claim {
        Claim { at: self.at.load(Relaxed), of: self.of.load(Relaxed), head: self.head.load(Relaxed) }
    }

    #[inline(always)]
    fn put(&self, claim: Claim) {
        self.at.store(claim.at, Relaxed);
        self.of.store(claim.of, Relaxed);
        self.head.store(claim.head, Relaxed);
    }
}

/// An entry; None where there is none yet.
#[inline(always)]
fn entry(number: usize) -> Option<&'static Entry> {
    // Acquire: pairs with the Release in `make`.
    let segment = DIRECTORY.get(number / SEGMENT)?.load(Acquire);
    // SAFETY: null, or a segment that is never freed.
    Some(&unsafe { segment.as_ref() }?[number % SEGMENT])
}

/// Makes the segment of these entries, if there is none yet; false where there is no memory for it.
#[cold]
fn make(number: usize) -> bool {
    let Some(place) = DIRECTORY.get(number / SEGMENT) else { return false };
    if !place.load(Relaxed).is_null() {
        return true;
    }
    let layout = Layout::new::<Segment>();
    // SAFETY: a segment has a size.
    let new: *mut Segment = unsafe { alloc_zeroed(layout) }.cast();
    if new.is_null() {
        return false;
    }
    // Release: pairs with the Acquire in `entry`, so that its zeros are seen; they are entries.
    if place.compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_err() {
        // SAFETY: it was allocated above, with this layout, and nobody has seen it.
        unsafe { dealloc(new.cast(), layout) };
    }
    true
}

/// The uses of one worker, and the numbers that it keeps for those to come.
#[derive(Debug, Default)]
pub struct Uses {
    numbers: Vec<u32>,
}

impl Uses {
    /// Makes sure that `n` uses, [`RUN`] at most, can be given out; false where there is no memory for their entries.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> bool {
        self.numbers.len() >= n || self.refill()
    }

    #[cold]
    fn refill(&mut self) -> bool {
        self.numbers.reserve(KEPT + RUN);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = free.len().saturating_sub(RUN);
        self.numbers.extend(free.drain(rest..));
        // One at a time comes by here: the lock is held.
        while self.numbers.len() < RUN {
            let number = FRESH.load(Relaxed);
            if number as usize >= NUMBERS || !make(number as usize) {
                return false;
            }
            FRESH.store(number + 1, Relaxed);
            self.numbers.push(number);
        }
        true
    }

    /// Gives out what was reserved: a word for a new use, which is this worker's. None where nothing was.
    #[inline(always)]
    pub fn give(&mut self, tag: &mut Tag, what: What, claim: Claim) -> Option<u64> {
        let number = self.numbers.pop()?;
        let entry = entry(number as usize)?;
        let use_ = entry.use_.load(Relaxed) & GENERATION | tag.holder() | what as u64;
        entry.put(claim);
        entry.use_.store(use_, Relaxed);
        Some(use_ | u64::from(number))
    }

    /// Ends a use: the claim, or None where the word is not good.
    #[inline(always)]
    pub fn take(&mut self, tag: &mut Tag, what: What, word: u64, end: End) -> Option<Claim> {
        let (entry, claim) = find(tag, what, word)?;
        // Whatever holds it next may be of another kind: its generation is another one then.
        entry.use_.store((word & GENERATION).wrapping_add(NEXT) | what as u64 | end as u64, Relaxed);
        if self.numbers.len() >= KEPT {
            self.give_up(KEPT / 2);
        }
        self.numbers.push(number(word) as u32);
        Some(claim)
    }

    /// Lets others have numbers, until so many are left.
    #[cold]
    pub fn give_up(&mut self, left: usize) {
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        free.extend(self.numbers.drain(left.min(self.numbers.len())..));
    }
}

#[inline(always)]
fn number(word: u64) -> usize {
    word as usize & (NUMBERS - 1)
}

/// The entry of a word that is good, of this kind and this worker's, and its claim.
#[inline(always)]
fn find(tag: &Tag, what: What, word: u64) -> Option<(&'static Entry, Claim)> {
    let entry = entry(number(word))?;
    // Relaxed: where it says this worker, this worker wrote it.
    let now = entry.use_.load(Relaxed);
    let is_kind = ((now ^ word) | (word ^ what as u64)) & KIND == 0;
    (is_good(now, word, tag.holder()) && is_kind).then(|| (entry, entry.claim()))
}

/// What a word names, as long as the tag is borrowed; None where it is not good.
#[inline(always)]
pub fn look(tag: &Tag, what: What, word: u64) -> Option<Claim> {
    find(tag, what, word).map(|(_, claim)| claim)
}

/// Puts what a claim has become where it was found; false where the word is not good.
#[inline(always)]
pub fn put(tag: &mut Tag, what: What, word: u64, claim: Claim) -> bool {
    find(tag, what, word).map(|(entry, _)| entry.put(claim)).is_some()
}

/// Makes it anybody's: the word under which a worker attaches it.
pub fn detach(tag: &mut Tag, what: What, word: u64) -> Option<u64> {
    let (entry, _) = find(tag, what, word)?;
    let use_ = (word & GENERATION).wrapping_add(NEXT) | LOOSE | what as u64;
    // Release: pairs with the AcqRel in `attach`, so that the next holder sees what this one wrote.
    entry.use_.store(use_, Release);
    Some(use_ | number(word) as u64)
}

/// Makes what was detached this worker's: its word from now on. None where the word is not that of a detached one, or another worker was first.
pub fn attach(tag: &mut Tag, what: What, word: u64) -> Option<u64> {
    let entry = entry(number(word))?;
    let loose = word & (USE | KIND);
    if word & HOLDER != LOOSE || word & KIND != what as u64 {
        return None;
    }
    let use_ = (word & GENERATION).wrapping_add(NEXT) | tag.holder() | what as u64;
    // AcqRel: pairs with the Release in `detach`.
    entry.use_.compare_exchange(loose, use_, AcqRel, Relaxed).ok()?;
    Some(use_ | number(word) as u64)
}

/// Why a word was refused.
#[cold]
pub fn why(what: What, word: u64) -> Bad {
    let entry = entry(number(word)).filter(|_| word & KIND == what as u64);
    let now = entry.map(|entry| entry.use_.load(Relaxed));
    match now {
        // The use is over, or was never: the entry has been of another kind since.
        Some(now) if (now ^ word) & KIND != 0 => match Bad::of(now, word) {
            Bad::MadeUp => Bad::MadeUp,
            _ => Bad::Again,
        },
        Some(now) => Bad::of(now, word),
        None => Bad::MadeUp,
    }
}

/// Of all that somebody holds, or that is between two holders, its word and claim, as of some moment.
#[cold]
pub fn each_held(mut call: impl FnMut(u64, Claim)) {
    for number in 0..FRESH.load(Relaxed) as usize {
        let Some(entry) = entry(number) else { continue };
        let use_ = entry.use_.load(Relaxed);
        if use_ & HOLDER != NONE {
            call(use_ | number as u64, entry.claim());
        }
    }
}

/// How many of a cache's objects are out.
#[cold]
pub fn out_of(of: u64) -> usize {
    let mut n = 0;
    each_held(|_, claim| n += usize::from(claim.of == of));
    n
}

impl Drop for Uses {
    fn drop(&mut self) {
        self.give_up(0);
    }
}
