//! A slab's state in one word: `{head: 16, inuse: 15, frozen: 1, tag: 32}`, changed at once.
//!
//! Free objects are pushed one or many at a time, and taken only by detaching the whole freelist: a single pop
//! would have to read the link inside an object that another thread may already own. The tag counts every
//! change, so a word never comes back to an old value while someone still compares with it (ABA).
//!
//! [hansen14-page] compares ways to change such a word; all of them stand here, each with its whole loop in one place.

#[cfg(feature = "comparisons")]
mod interrupts;

use crate::page::{Desc, Table};
use crate::stats::Count;
use std::sync::atomic::{Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed};

/// How the word of a slab is updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WordForm {
    /// Packed in 64 bits, by one compare-and-swap.
    #[default]
    Packed,
    /// In the descriptor's 16-byte pair, by one double-word compare-and-swap (`cmpxchg16b`).
    Wide,
    /// Under a lock bit of the descriptor.
    Lock,
    #[cfg(feature = "comparisons")]
    /// As `Lock`, and two further cache lines of the thread's are written, as disabling interrupts did in
    /// [hansen14-page]. For comparison only. The lines are the same at each change, so that they stay in the first cache.
    LockInterrupts,
    #[cfg(feature = "comparisons")]
    /// As `LockInterrupts`, but the two lines are others at each change, out of 4 MiB of the thread's, so that they
    /// have left a core's own caches. For comparison only.
    LockInterruptsCold,
}

/// The unpacked word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    /// Place of the first free object, counted from 1; 0 when there is none.
    pub(super) head: u16,
    /// Objects that are not on the freelist; 15 bits.
    pub(super) inuse: u16,
    /// A worker has the slab to itself: it is on no list of the node, and whoever frees into it leaves it alone.
    pub(super) frozen: bool,
    tag: u32,
}

impl Word {
    /// A new slab's: everything in use, that is, with whoever makes it.
    pub(super) fn all_out(objects: u16, frozen: bool) -> Word {
        Word { head: 0, inuse: objects, frozen, tag: 0 }
    }

    fn unpack(word: u64) -> Word {
        let counts = (word >> 16) as u16;
        Word {
            head: word as u16,
            inuse: counts & 0x7fff,
            frozen: counts >> 15 == 1,
            tag: (word >> 32) as u32,
        }
    }

    fn pack(self) -> u64 {
        let counts = self.inuse | u16::from(self.frozen) << 15;
        u64::from(self.head) | u64::from(counts) << 16 | u64::from(self.tag) << 32
    }

    /// The head in one word, the rest in the other, as the kernel's pair.
    fn pack_wide(self) -> u128 {
        let packed = self.pack();
        u128::from(packed & 0xffff) | u128::from(packed >> 16) << 64
    }

    fn unpack_wide(pair: u128) -> Word {
        Word::unpack(pair as u64 & 0xffff | ((pair >> 64) as u64) << 16)
    }

    /// The word after `n` objects, linked from `head` on, were pushed.
    pub(super) fn pushed(self, head: u16, n: u16) -> Word {
        Word { head, inuse: self.inuse - n, ..self.next() }
    }

    /// The word after the whole freelist was detached from a slab of `objects`.
    pub(super) fn detached(self, objects: u16) -> Word {
        Word { head: 0, inuse: objects, ..self.next() }
    }

    /// The same, frozen or not.
    pub(super) fn freeze(self, frozen: bool) -> Word {
        Word { frozen, ..self.next() }
    }

    fn next(self) -> Word {
        Word { tag: self.tag.wrapping_add(1), ..self }
    }
}

impl WordForm {
    /// The word, as it is at this moment.
    pub(super) fn load(self, table: &Table, slab: u32) -> Word {
        let desc = table.desc(slab);
        match self {
            WordForm::Wide => Word::unpack_wide(table.pair(slab).load()),
            // Acquire: pairs with the Release of `update`.
            _ => Word::unpack(desc.word.load(Acquire)),
        }
    }

    /// Sets the word of a slab that is the caller's alone.
    pub(super) fn store(self, table: &Table, slab: u32, word: Word) {
        match self {
            WordForm::Wide => table.pair(slab).store(word.pack_wide()),
            _ => table.desc(slab).word.store(word.pack(), Relaxed),
        }
    }

    /// Changes the word: `change` gets it as it is, as often as others are faster, and says what it shall be, or
    /// None to leave it. Returns the word before and after. Failed attempts are counted in `failed`.
    ///
    /// A change releases all that the caller did, and acquires all that those before it did.
    pub(super) fn update(
        self,
        table: &Table,
        slab: u32,
        failed: &Count,
        change: impl FnMut(Word) -> Option<Word>,
    ) -> Option<(Word, Word)> {
        match self {
            WordForm::Packed => packed(table.desc(slab), failed, change),
            WordForm::Wide => wide(table.pair(slab), failed, change),
            WordForm::Lock => locked(table.desc(slab), change),
            #[cfg(feature = "comparisons")]
            WordForm::LockInterrupts => {
                // Off and on again, both before: with the change the slab may be another's.
                interrupts::switch();
                locked(table.desc(slab), change)
            }
            #[cfg(feature = "comparisons")]
            WordForm::LockInterruptsCold => {
                interrupts::switch_cold();
                locked(table.desc(slab), change)
            }
        }
    }
}

fn packed(desc: &Desc, failed: &Count, mut change: impl FnMut(Word) -> Option<Word>) -> Option<(Word, Word)> {
    // Acquire: pairs with the Release below, for callers that leave the word as it is.
    let mut old = desc.word.load(Acquire);
    loop {
        let word = Word::unpack(old);
        let new = change(word)?;
        // AcqRel: Release for the links and all that holders did with the objects; Acquire of the same by those who
        // changed it before. Pairs with itself.
        match desc.word.compare_exchange(old, new.pack(), AcqRel, Acquire) {
            Ok(_) => return Some((word, new)),
            Err(now) => {
                failed.add_shared(1);
                old = now;
            }
        }
    }
}

fn wide(
    pair: crate::page::Pair<'_>,
    failed: &Count,
    mut change: impl FnMut(Word) -> Option<Word>,
) -> Option<(Word, Word)> {
    let mut old = pair.load();
    loop {
        let word = Word::unpack_wide(old);
        let new = change(word)?;
        match pair.compare_exchange(old, new.pack_wide()) {
            Ok(()) => return Some((word, new)),
            Err(now) => {
                failed.add_shared(1);
                old = now;
            }
        }
    }
}

fn locked(desc: &Desc, mut change: impl FnMut(Word) -> Option<Word>) -> Option<(Word, Word)> {
    let _locked = desc.lock();
    // Relaxed both: the lock bit orders them.
    let word = Word::unpack(desc.word.load(Relaxed));
    let new = change(word)?;
    desc.word.store(new.pack(), Relaxed);
    Some((word, new))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives_packing_and_every_change_is_a_new_word() {
        let mut word = Word::all_out(0x7fff, false);
        for step in 0..crate::rounds::rounds(70_000) {
            let next = match step % 4 {
                0 => word.pushed(7, 9),
                1 => word.freeze(true),
                2 => word.detached(0x7fff),
                _ => word.freeze(false),
            };
            assert_eq!((Word::unpack(next.pack()), Word::unpack_wide(next.pack_wide())), (next, next));
            assert_ne!(next.pack(), word.pack());
            word = next;
        }
    }
}
