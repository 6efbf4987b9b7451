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

use crate::table::{Bad, End, GENERATION, HOLDER, LOOSE, NEXT, NONE, Tag, USE};
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
        self.of.store(claim.of, Relaxed);
        self.put_thing(claim.at, claim.head);
    }

    #[inline(always)]
    fn put_thing(&self, at: u64, head: u64) {
        self.at.store(at, Relaxed);
        self.head.store(head, Relaxed);
    }

    /// Ends the use of a word that is good.
    #[inline(always)]
    fn end(&self, what: What, word: u64, end: End) {
        // Whatever holds it next may be of another kind: its generation is another one then.
        self.use_.store((word & GENERATION).wrapping_add(NEXT) | what as u64 | end as u64, Relaxed);
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
        give(tag, what, self.numbers.pop()?, claim)
    }

    /// As [`Uses::give`] of each claim that there is a place for; how many.
    #[inline(always)]
    pub fn give_all<'a>(
        &mut self,
        tag: &mut Tag,
        what: What,
        claims: impl ExactSizeIterator<Item = Claim>,
        places: impl ExactSizeIterator<Item = &'a mut u64>,
    ) -> usize {
        let n = claims.len().min(places.len()).min(self.numbers.len());
        let numbers = self.numbers.drain(self.numbers.len() - n..).rev();
        for ((number, claim), place) in numbers.zip(claims).zip(places) {
            *place = give(tag, what, number, claim).unwrap_or(0);
        }
        n
    }

    /// Ends a use: the claim, or None where the word is not good.
    #[inline(always)]
    pub fn take(&mut self, tag: &mut Tag, what: What, word: u64, end: End) -> Option<Claim> {
        let entry = find(tag, what, word)?;
        let claim = entry.claim();
        entry.end(what, word, end);
        self.make_room(1);
        self.numbers.push(number(word) as u32);
        Some(claim)
    }

    /// Claims of words, from the first on, whose uses end as they are taken, as long as the word is good and the claim `of` that. At most [`RUN`] are taken, and
    /// [`Taking::finish`] is called at the end.
    #[inline(always)]
    pub fn taking<'a>(
        &'a mut self,
        tag: &'a mut Tag,
        what: What,
        words: &'a [u64],
        end: End,
        of: u64,
    ) -> Taking<'a> {
        let (own, change) = (tag.holder() | what as u64, NEXT | what as u64 | end as u64);
        Taking { uses: self, words, n: 0, own, change, of }
    }

    /// Makes room for `n` numbers more, at most [`RUN`].
    #[inline(always)]
    fn make_room(&mut self, n: usize) {
        if self.numbers.len() + n > KEPT {
            self.give_up(KEPT / 2);
        }
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

/// Claims whose uses end as they are taken.
pub struct Taking<'a> {
    uses: &'a mut Uses,
    words: &'a [u64],
    /// Words whose uses have ended, the first ones.
    n: usize,
    /// Holder and kind.
    own: u64,
    /// What makes of the generation of a good word an entry whose use has ended.
    change: u64,
    of: u64,
}

impl Iterator for Taking<'_> {
    type Item = Claim;

    #[inline(always)]
    fn next(&mut self) -> Option<Claim> {
        let word = *self.words.get(self.n)?;
        let entry = find_own(self.own, word)?;
        let claim = entry.claim();
        if claim.of != self.of {
            return None;
        }
        entry.use_.store((word & GENERATION).wrapping_add(self.change), Relaxed);
        self.n += 1;
        Some(claim)
    }
}

impl Taking<'_> {
    /// Keeps the numbers of those that were taken for uses to come; how many.
    #[inline(always)]
    pub fn finish(self) -> usize {
        let taken = &self.words[..self.n];
        self.uses.make_room(taken.len());
        self.uses.numbers.extend(taken.iter().map(|&word| number(word) as u32));
        taken.len()
    }
}

/// Makes an entry that nobody holds a claim's; its word. None where there is no such entry.
#[inline(always)]
fn give(tag: &mut Tag, what: What, number: u32, claim: Claim) -> Option<u64> {
    let entry = entry(number as usize)?;
    let use_ = entry.use_.load(Relaxed) & GENERATION | tag.holder() | what as u64;
    entry.put(claim);
    entry.use_.store(use_, Relaxed);
    Some(use_ | u64::from(number))
}

/// The entry of a word that is good, of this kind and this worker's.
#[inline(always)]
fn find(tag: &Tag, what: What, word: u64) -> Option<&'static Entry> {
    find_own(tag.holder() | what as u64, word)
}

/// As [`find`], by holder and kind.
#[inline(always)]
fn find_own(own: u64, word: u64) -> Option<&'static Entry> {
    if (word ^ own) & (HOLDER | KIND) != 0 {
        return None;
    }
    // Relaxed: where it says this worker, this worker wrote it. What has a holder has no end in it: all but the number is the word.
    entry(number(word)).filter(|entry| entry.use_.load(Relaxed) == word & (USE | KIND))
}

/// What a word names, as long as the tag is borrowed; None where it is not good.
#[inline(always)]
pub fn look(tag: &Tag, what: What, word: u64) -> Option<Claim> {
    find(tag, what, word).map(Entry::claim)
}

/// Puts what a claim has become where it was found; nothing happens where the word is not good.
#[inline(always)]
pub fn put(tag: &mut Tag, what: What, word: u64, at: u64, head: u64) {
    if let Some(entry) = find(tag, what, word) {
        entry.put_thing(at, head);
    }
}

/// Calls `change` with the claim of a word, which has then become the thing and the head that it returns; what else it returns. None where the word is
/// not good, or `change` returns None.
#[inline(always)]
pub fn change<R>(
    tag: &mut Tag,
    what: What,
    word: u64,
    change: impl FnOnce(Claim) -> Option<(u64, u64, R)>,
) -> Option<R> {
    let entry = find(tag, what, word)?;
    let (at, head, done) = change(entry.claim())?;
    entry.put_thing(at, head);
    Some(done)
}

/// Makes it anybody's: the word under which a worker attaches it.
pub fn detach(tag: &mut Tag, what: What, word: u64) -> Option<u64> {
    let entry = find(tag, what, word)?;
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
