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

use crate::entries::{Entry, KIND, NUMBERS, Near, ended, ending, entry, find_own, make, number};
use crate::table::{Bad, End, GENERATION, HOLDER, LOOSE, NEXT, NONE, Tag, USE};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::{Mutex, PoisonError};

pub use crate::entries::{Claim, What};

/// Numbers that a worker takes, or gives up, in one step.
const RUN: usize = 64;
/// Maximum number of free numbers that a worker keeps.
const KEPT: usize = 1024;

/// Numbers from here on were never used.
static FRESH: AtomicU32 = AtomicU32::new(0);
/// Numbers that no worker has and whose uses are over.
static FREE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

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

    /// Ends a use. Returns the claim, or None if the handle is invalid.
    #[inline(always)]
    pub fn take(&mut self, tag: &mut Tag, what: What, word: u64, end: End) -> Option<Claim> {
        let own = tag.holder() | what as u64;
        let entry = find_own(own, word)?;
        let claim = entry.claim();
        entry.end(word, ending(own, what, end));
        self.make_room(1);
        self.numbers.push(number(word) as u32);
        Some(claim)
    }

    /// Starts a use of each item with a reserved number, and writes the handles to `places`. `claim` makes the claim of the item
    /// at an index. Returns the number of uses: it ends with the items, the places or the reserved numbers.
    #[inline(always)]
    pub fn give_all<T>(
        &mut self,
        tag: &mut Tag,
        what: What,
        (items, claim): (&[T], impl Fn(usize, &T) -> Claim),
        places: &mut [u64],
    ) -> usize {
        let most = items.len().min(places.len()).min(self.numbers.len());
        let (own, reserved) = (tag.holder() | what as u64, self.numbers.len() - most);
        let (numbers, items, places) = (&self.numbers[reserved..], &items[..most], &mut places[..most]);
        let mut given = 0;
        // Numbers whose entries lie in one segment are handled together.
        while let Some(near) = numbers.get(given).and_then(|number| Near::of(own, u64::from(*number))) {
            let of_run = numbers[given..].iter().zip(&items[given..]).zip(&mut places[given..]);
            for ((&number, item), place) in of_run {
                let Some(entry) = near.entry(number) else { break };
                *place = entry.start(own, claim(given, item)) | u64::from(number);
                given += 1;
            }
        }
        self.numbers.drain(reserved..reserved + given);
        given
    }

    /// Ends the uses of `words`, at most [`RUN`], in order, and moves their claims into `places` by `put`. It stops at an invalid
    /// handle, at one whose entry lies in another segment than the first, at a claim that is not of `of`, where `put` returns false,
    /// and at the end of the places. Returns the number of uses that it ended.
    #[inline(always)]
    pub fn take_all<P>(
        &mut self,
        tag: &mut Tag,
        what: What,
        (words, end): (&[u64], End),
        of: u64,
        (places, put): (&mut [P], impl Fn(&mut P, Claim) -> bool),
    ) -> usize {
        let most = words.len().min(places.len()).min(RUN);
        let own = tag.holder() | what as u64;
        let Some(near) = words.first().and_then(|word| Near::of(own, *word)) else { return 0 };
        let change = ending(own, what, end);
        let mut taken = 0;
        for (&word, place) in words[..most].iter().zip(&mut places[..most]) {
            let Some(entry) = near.find(word) else { break };
            let claim = entry.claim();
            if claim.of != of || !put(place, claim) {
                break;
            }
            entry.end(word, change);
            taken += 1;
        }
        self.make_room(taken);
        self.numbers.extend(words[..taken].iter().map(|&word| number(word) as u32));
        taken
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

/// Stores a claim in a free entry and returns its handle, or None if there is no such entry.
#[inline(always)]
fn give(tag: &mut Tag, what: What, number: u32, claim: Claim) -> Option<u64> {
    let entry = entry(number as usize)?;
    Some(entry.start(tag.holder() | what as u64, claim) | u64::from(number))
}

/// Returns the entry of a handle, or None if the handle is invalid, of another kind, or of another worker.
#[inline(always)]
fn find(tag: &Tag, what: What, word: u64) -> Option<&'static Entry> {
    find_own(tag.holder() | what as u64, word)
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

/// Calls `change` with the claim of each handle and an item of `items`, and stores the word that it returns as the claim's first
/// (`at`). It stops at an invalid handle, at one whose entry lies in another segment than the first, where `change` returns None,
/// and at the end of the items. Returns the number of claims that were changed.
#[inline(always)]
pub fn change_all<P>(
    tag: &mut Tag,
    what: What,
    words: &[u64],
    items: impl Iterator<Item = P>,
    change: impl Fn(Claim, P) -> Option<u64>,
) -> usize {
    let Some(near) = words.first().and_then(|word| Near::of(tag.holder() | what as u64, *word)) else {
        return 0;
    };
    let mut changed = 0;
    for (&word, item) in words.iter().zip(items) {
        let Some(entry) = near.find(word) else { break };
        let Some(at) = change(entry.claim(), item) else { break };
        entry.at.store(at, Relaxed);
        changed += 1;
    }
    changed
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
