//! HOT: finds the entry of a use, and checks its handle.
//!
//! Entries lie in segments, which are made when they are needed. A call for a burst remembers the segment of the first entry
//! ([`Near`]), so that one comparison checks a handle's holder, kind and segment together.
//!
//! Unsafe code: segments are leaked, and borrowed for the lifetime of the process.

use crate::table::{End, GENERATION, HOLDER, NEXT, USE};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};

/// Position of the kind.
const KIND_SHIFT: u32 = 29;
/// The bits of the kind. Kinds 0 and 1 are frames, whose numbers are one bit longer.
pub const KIND: u64 = 7 << KIND_SHIFT;
/// Maximum number of entries.
pub const NUMBERS: usize = 1 << KIND_SHIFT;
/// Entries in a segment: 2 MiB, of which only the used part takes memory.
const SEGMENT: usize = 1 << 16;

type Segment = [Entry; SEGMENT];

static DIRECTORY: [AtomicPtr<Segment>; NUMBERS / SEGMENT] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NUMBERS / SEGMENT];

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
    /// Generation, holder and kind; how the last use ended, if there is no holder.
    pub use_: AtomicU64,
    /// The address of an object, the number of a page, or the word of the bytes of a packet or shared frame.
    pub at: AtomicU64,
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
    pub fn claim(&self) -> Claim {
        Claim { at: self.at.load(Relaxed), of: self.of.load(Relaxed), head: self.head.load(Relaxed) }
    }

    #[inline(always)]
    fn put(&self, claim: Claim) {
        self.of.store(claim.of, Relaxed);
        self.put_thing(claim.at, claim.head);
    }

    #[inline(always)]
    pub fn put_thing(&self, at: u64, head: u64) {
        self.at.store(at, Relaxed);
        self.head.store(head, Relaxed);
    }

    /// Stores a claim in an entry that has none. Returns its handle without the number; `own` is the holder and the kind.
    #[inline(always)]
    pub fn start(&self, own: u64, claim: Claim) -> u64 {
        let use_ = self.use_.load(Relaxed) & GENERATION | own;
        self.put(claim);
        self.use_.store(use_, Relaxed);
        use_
    }

    /// Ends the use of a valid handle; `change` is that of [`ending`].
    #[inline(always)]
    pub fn end(&self, word: u64, change: u64) {
        // The next use of the entry may be of another kind. Its generation is different then.
        self.use_.store((word & (USE | KIND)).wrapping_add(change), Relaxed);
    }
}

/// Returns the number that, added to the generation of a valid handle, gives the entry of a use that has ended so.
#[inline(always)]
pub fn ended(what: What, end: End) -> u64 {
    NEXT | what as u64 | end as u64
}

/// Returns the number that, added to a valid handle without its number, gives the entry of a use that has ended so: the
/// holder goes. `own` is the holder and the kind.
#[inline(always)]
pub fn ending(own: u64, what: What, end: End) -> u64 {
    ended(what, end).wrapping_sub(own)
}

/// Returns the segment of an entry, or None if it does not exist yet.
#[inline(always)]
fn segment(number: usize) -> Option<&'static Segment> {
    // Acquire: pairs with the Release in `make`.
    let segment = DIRECTORY.get(number / SEGMENT)?.load(Acquire);
    // SAFETY: null, or a segment that is never freed.
    unsafe { segment.as_ref() }
}

/// Returns an entry, or None if it does not exist yet.
#[inline(always)]
pub fn entry(number: usize) -> Option<&'static Entry> {
    Some(&segment(number)?[number % SEGMENT])
}

/// The entries of one segment, for things of one holder and kind.
#[derive(Clone, Copy)]
pub struct Near {
    /// What valid handles have in common: holder, kind, and the upper bits of the number.
    own: u64,
    entries: &'static Segment,
}

impl Near {
    /// The bits of a number that are equal in a whole segment.
    const IN_ALL: u64 = (NUMBERS - SEGMENT) as u64;

    /// Returns the segment of the entry that a number or a handle names, or None if it does not exist; `own` is the holder and
    /// the kind.
    #[inline(always)]
    pub fn of(own: u64, word: u64) -> Option<Near> {
        Some(Near { own: own | word & Near::IN_ALL, entries: segment(number(word))? })
    }

    /// Returns an entry, if it lies in this segment.
    #[inline(always)]
    pub fn entry(self, number: u32) -> Option<&'static Entry> {
        let is_here = (u64::from(number) ^ self.own) & Near::IN_ALL == 0;
        is_here.then_some(&self.entries[number as usize % SEGMENT])
    }

    /// Returns the entry of a handle, or None if it lies in another segment, or the handle is invalid or another holder's or kind's.
    #[inline(always)]
    pub fn find(self, word: u64) -> Option<&'static Entry> {
        if (word ^ self.own) & (HOLDER | KIND | Near::IN_ALL) != 0 {
            return None;
        }
        let entry = &self.entries[word as usize % SEGMENT];
        // Relaxed: as in `find_own`.
        (entry.use_.load(Relaxed) == word & (USE | KIND)).then_some(entry)
    }
}

/// Makes the segment of this entry, if it does not exist yet. Returns false if there is no memory for it.
#[cold]
pub fn make(number: usize) -> bool {
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
    // Release: pairs with the Acquire in `segment`, which then sees the zeros. They are valid entries.
    if place.compare_exchange(ptr::null_mut(), new, Release, Relaxed).is_err() {
        // SAFETY: it was allocated above with this layout, and no other thread has seen it.
        unsafe { dealloc(new.cast(), layout) };
    }
    true
}

/// Returns the number of the entry that a handle names.
#[inline(always)]
pub fn number(word: u64) -> usize {
    word as usize & (NUMBERS - 1)
}

/// Returns the entry of a handle, or None if the handle is invalid or not of this holder and kind.
#[inline(always)]
pub fn find_own(own: u64, word: u64) -> Option<&'static Entry> {
    if (word ^ own) & (HOLDER | KIND) != 0 {
        return None;
    }
    // Relaxed: if the entry names this worker, this worker wrote it. An entry with a holder has no end, so it equals the handle but
    // for the number.
    entry(number(word)).filter(|entry| entry.use_.load(Relaxed) == word & (USE | KIND))
}
