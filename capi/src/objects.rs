//! HOT: the table of uses of objects, pages, packets and shared frames.
//!
//! These things have no number of their own. Each use takes an entry of a table and has its number. The entry is
//! reused after the use is over.
//!
//! ```text
//!   handle     63 ───── generation ───── 39 38 ─ holder ─ 32 31 kind 29 28 ──── number of the entry ──── 0
//!   entry's    63 ───── generation ───── 39 38 ─ holder ─ 32 31 kind 29            how the last use ended
//! ```
//! The rest is as for frames (`table.rs`): the generation advances when a use ends, and entries are never cleared and
//! never freed.
//!
//! # Soundness
//! An entry whose holder is a worker's [`Tag`] *is* the claim on the thing that it describes. A claim enters the entry
//! by [`Uses::give`] and leaves it by [`Uses::take`]; then the entry has no holder any more. The rules of who may change
//! an entry, and how it passes to another worker, are those for frames.

use crate::table::{Bad, End, GENERATION, HOLDER, LOOSE, NEXT, NONE, Tag, USE};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};
use std::sync::{Mutex, PoisonError};

/// Position of the kind.
const KIND_SHIFT: u32 = 29;
/// The bits of the kind. Kinds 0 and 1 are frames, whose numbers are one bit longer.
const KIND: u64 = 7 << KIND_SHIFT;
/// Maximum number of entries.
const NUMBERS: usize = 1 << KIND_SHIFT;
/// Entries in a segment.
const SEGMENT: usize = 1 << 14;
/// Numbers that a worker takes, or gives up, in one step.
const RUN: usize = 64;
/// Maximum number of free numbers that a worker keeps.
const KEPT: usize = 1024;

type Segment = [Entry; SEGMENT];

static DIRECTORY: [AtomicPtr<Segment>; NUMBERS / SEGMENT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS / SEGMENT];
/// Numbers from here on were never used.
static FRESH: AtomicU32 = AtomicU32::new(0);
/// Numbers that no worker has and whose uses are over.
static FREE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The kind of thing that a handle names.
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

impl What {
    /// Returns the kind of thing that a handle or an entry names, or None if it is none of these.
    pub fn of(word: u64) -> Option<What> {
        let kinds = [What::Object, What::Page, What::Packet, What::Shared];
        kinds.into_iter().find(|kind| *kind as u64 == word & KIND)
    }
}

/// The entry of one use at a time. All zeros are an entry that was never used.
#[derive(Debug)]
#[repr(C, align(32))]
pub struct Entry {
    use_: AtomicU64,
    /// The address of an object, the number of a page, or the word of the bytes of a packet or shared frame.
    at: AtomicU64,
    /// The handle of the cache of an object, of the heads of a packet, or of the memory of other things.
    of: AtomicU64,
    /// The word of a packet's head. 0 while a call has the packet, and for other things.
    head: AtomicU64,
}

/// A claim that is in an entry or has just left it.
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

    /// Ends the use of a valid handle; `change` is that of [`ended`].
    #[inline(always)]
    fn end(&self, word: u64, change: u64) {
        // The next use of the entry may be of another kind. Its generation is different then.
        self.use_.store((word & GENERATION).wrapping_add(change), Relaxed);
    }
}

/// Returns the number that, added to the generation of a valid handle, gives the entry of a use that has ended so.
#[inline(always)]
fn ended(what: What, end: End) -> u64 {
    NEXT | what as u64 | end as u64
}

/// Returns an entry, or None if it does not exist yet.
#[inline(always)]
fn entry(number: usize) -> Option<&'static Entry> {
    // Acquire: pairs with the Release in `make`.
    let segment = DIRECTORY.get(number / SEGMENT)?.load(Acquire);
    // SAFETY: null, or a segment that is never freed.
    Some(&unsafe { segment.as_ref() }?[number % SEGMENT])
}

/// Makes the segment of this entry, if it does not exist yet. Returns false if there is no memory for it.
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
    // Release: pairs with the Acquire in `entry`, which then sees the zeros. They are valid entries.
    if place.compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_err() {
        // SAFETY: it was allocated above with this layout, and no other thread has seen it.
        unsafe { dealloc(new.cast(), layout) };
    }
    true
}

/// The uses of one worker, and the free numbers that it keeps for later uses.
#[derive(Debug, Default)]
pub struct Uses {
    numbers: Vec<u32>,
}

impl Uses {
    /// Makes sure that `n` uses can be started, at most [`RUN`]. Returns false if there is no memory for
    /// their entries.
    #[inline]
    pub fn reserve(&mut self, n: usize) -> bool {
        self.numbers.len() >= n || {
            self.refill();
            self.numbers.len() >= n
        }
    }

    /// Takes free numbers, and fresh ones up to [`RUN`] as long as there is memory for their entries.
    #[cold]
    fn refill(&mut self) {
        self.numbers.reserve(KEPT + RUN);
        let mut free = FREE.lock().unwrap_or_else(PoisonError::into_inner);
        let rest = free.len().saturating_sub(RUN);
        self.numbers.extend(free.drain(rest..));
        // The lock is held, so one thread at a time runs this.
        while self.numbers.len() < RUN {
            let number = FRESH.load(Relaxed);
            if number as usize >= NUMBERS || !make(number as usize) {
                return;
            }
            FRESH.store(number + 1, Relaxed);
            self.numbers.push(number);
        }
    }

    /// Starts a use with a reserved number, for this worker. Returns the handle, or None if nothing was
    /// reserved.
    #[inline(always)]
    pub fn give(&mut self, tag: &mut Tag, what: What, claim: Claim) -> Option<u64> {
        give(tag, what, self.numbers.pop()?, claim)
    }

    /// Starts a use of each claim, as [`Uses::give`], and writes the handles to `places`. Returns the number of uses: it ends with
    /// the claims, the places or the reserved numbers.
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

    /// Ends a use. Returns the claim, or None if the handle is invalid.
    #[inline(always)]
    pub fn take(&mut self, tag: &mut Tag, what: What, word: u64, end: End) -> Option<Claim> {
        let entry = find(tag, what, word)?;
        let claim = entry.claim();
        entry.end(word, ended(what, end));
        self.make_room(1);
        self.numbers.push(number(word) as u32);
        Some(claim)
    }

    /// Returns an iterator that ends the uses of `words`, in order, and yields their claims. It stops at an invalid handle and at a
    /// claim that is not of `of`. The caller takes at most [`RUN`] claims and then calls [`Taking::finish`].
    #[inline(always)]
    pub fn taking<'a>(
        &'a mut self,
        tag: &'a mut Tag,
        what: What,
        words: &'a [u64],
        end: End,
        of: u64,
    ) -> Taking<'a> {
        let (own, change) = (tag.holder() | what as u64, ended(what, end));
        Taking { uses: self, words, n: 0, own, change, of }
    }

    /// Makes room for `n` more numbers, at most [`RUN`].
    #[inline(always)]
    fn make_room(&mut self, n: usize) {
        if self.numbers.len() + n > KEPT {
            self.give_up(KEPT / 2);
        }
    }

    /// Gives free numbers to other workers, until `left` numbers are left.
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

/// An iterator over claims. Each use ends when its claim is taken.
pub struct Taking<'a> {
    uses: &'a mut Uses,
    words: &'a [u64],
    /// The number of uses that have ended: those of the first words.
    n: usize,
    /// Holder and kind of a valid handle.
    own: u64,
    /// The change of [`ended`].
    change: u64,
    /// The cache or the heads of the claims.
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
        entry.end(word, self.change);
        self.n += 1;
        Some(claim)
    }
}

impl Taking<'_> {
    /// Keeps the numbers of the ended uses for later uses. Returns the number of them.
    #[inline(always)]
    pub fn finish(self) -> usize {
        let taken = &self.words[..self.n];
        self.uses.make_room(taken.len());
        self.uses.numbers.extend(taken.iter().map(|&word| number(word) as u32));
        taken.len()
    }
}

/// Stores a claim in a free entry and returns its handle, or None if there is no such entry.
#[inline(always)]
fn give(tag: &mut Tag, what: What, number: u32, claim: Claim) -> Option<u64> {
    let entry = entry(number as usize)?;
    let use_ = entry.use_.load(Relaxed) & GENERATION | tag.holder() | what as u64;
    entry.put(claim);
    entry.use_.store(use_, Relaxed);
    Some(use_ | u64::from(number))
}

/// Returns the entry of a handle, or None if the handle is invalid, of another kind, or of another worker.
#[inline(always)]
fn find(tag: &Tag, what: What, word: u64) -> Option<&'static Entry> {
    find_own(tag.holder() | what as u64, word)
}

/// Works as [`find`]; `own` is the holder and the kind.
#[inline(always)]
fn find_own(own: u64, word: u64) -> Option<&'static Entry> {
    if (word ^ own) & (HOLDER | KIND) != 0 {
        return None;
    }
    // Relaxed: if the entry names this worker, this worker wrote it. An entry with a holder has no end, so it equals the handle but
    // for the number.
    entry(number(word)).filter(|entry| entry.use_.load(Relaxed) == word & (USE | KIND))
}

/// Returns the claim of a handle, or None if the handle is invalid. The claim is usable while the tag is
/// borrowed.
#[inline(always)]
pub fn look(tag: &Tag, what: What, word: u64) -> Option<Claim> {
    find(tag, what, word).map(Entry::claim)
}

/// Stores the changed words of a claim in its entry. Does nothing if the handle is invalid.
#[inline(always)]
pub fn put(tag: &mut Tag, what: What, word: u64, at: u64, head: u64) {
    if let Some(entry) = find(tag, what, word) {
        entry.put_thing(at, head);
    }
}

/// Calls `change` with the claim of a handle, and stores the two words (`at` and `head`) that it returns. Returns its third value, or None
/// if the handle is invalid or `change` returns None.
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

/// Detaches a thing, so that any worker can attach it. Returns the handle for that.
pub fn detach(tag: &mut Tag, what: What, word: u64) -> Option<u64> {
    let entry = find(tag, what, word)?;
    let use_ = (word & GENERATION).wrapping_add(NEXT) | LOOSE | what as u64;
    // Release: pairs with the AcqRel in `attach`. The next holder sees what this one wrote.
    entry.use_.store(use_, Release);
    Some(use_ | number(word) as u64)
}

/// Attaches a detached thing to this worker. Returns the new handle. Returns None if the thing is not
/// detached under this handle, or another worker was first.
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

/// Returns why a handle was refused.
#[cold]
pub fn why(what: What, word: u64) -> Bad {
    let entry = entry(number(word)).filter(|_| word & KIND == what as u64);
    let now = entry.map(|entry| entry.use_.load(Relaxed));
    match now {
        // In this generation, the entry was given out for a thing of another kind.
        Some(now) if (now ^ word) & KIND != 0 && (now ^ word) & GENERATION == 0 => Bad::MadeUp,
        // The use is over, or never existed: the entry has had another kind since.
        Some(now) if (now ^ word) & KIND != 0 => match Bad::of(now, word) {
            Bad::MadeUp => Bad::MadeUp,
            _ => Bad::Again,
        },
        Some(now) => Bad::of(now, word),
        None => Bad::MadeUp,
    }
}

/// Calls `call` with the handle and the claim of each thing that has a holder or is detached. Reads one entry
/// after another, while other threads may change them.
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

/// Ends the uses of all detached things for which `is_one` returns true. Calls `free` with the claim of each. A thing that another thread
/// attaches at the same time stays with that thread. Returns the number of uses ended.
#[cold]
pub fn reclaim_loose(is_one: impl Fn(What, Claim) -> bool, mut free: impl FnMut(What, Claim)) -> usize {
    let mut reclaimed = 0;
    for number in 0..FRESH.load(Relaxed) {
        let Some(entry) = entry(number as usize) else { continue };
        // Acquire: pairs with the Release in `detach`, so the claim that is read next is the one of this use.
        let use_ = entry.use_.load(Acquire);
        let Some(what) = What::of(use_).filter(|_| use_ & HOLDER == LOOSE) else { continue };
        // No thread changes the claim of a thing that is detached. If another thread has attached it, the exchange fails.
        let claim = entry.claim();
        let over = (use_ & GENERATION).wrapping_add(ended(what, End::Reclaimed));
        // AcqRel: pairs with the Release in `detach`, as in `attach`.
        if !is_one(what, claim) || entry.use_.compare_exchange(use_, over, AcqRel, Relaxed).is_err() {
            continue;
        }
        FREE.lock().unwrap_or_else(PoisonError::into_inner).push(number);
        reclaimed += 1;
        free(what, claim);
    }
    reclaimed
}

/// Returns the number of allocated objects of a cache, or of packets of heads.
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
