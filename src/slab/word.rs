//! A slab's state in one word: `{head: 16, inuse: 15, frozen: 1, tag: 32}`, changed at once.
//!
//! Free objects are pushed one or many at a time, and taken only by detaching the whole freelist. A single pop would
//! have to read the link inside an object that another thread may already own. The tag counts every change, so a word
//! never returns to an old value while a thread still compares with it (ABA).
//!
//! [hansen14-page] compares ways to change such a word. All of them are here, each with its whole loop in one place.

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
    /// As `Lock`, and two more cache lines of the thread are written, as disabling interrupts did in [hansen14-page].
    /// For comparison only. The lines are the same at each change, so that they stay in the first-level cache.
    LockInterrupts,
    #[cfg(feature = "comparisons")]
    /// As `LockInterrupts`, but the two lines are different at each change. They are chosen from 4 MiB of the thread,
    /// so that they have left a core's own caches. For comparison only.
    LockInterruptsCold,
}

/// The unpacked word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    /// The place of the first free object, counted from 1; 0 if there is none.
    pub(super) head: u16,
    /// The number of objects that are not on the freelist; 15 bits.
    pub(super) inuse: u16,
    /// A worker has the slab to itself: it is on no list of the node, and a free by another thread leaves it there.
    pub(super) frozen: bool,
    tag: u32,
}

impl Word {
    /// The word of a new slab: all objects are in use, which means that they are with the code that makes the slab.
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

    /// Packs the head into one word and the rest into the other, as in the kernel's pair.
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

    /// The same word, frozen or not.
    pub(super) fn freeze(self, frozen: bool) -> Word {
        Word { frozen, ..self.next() }
    }

    fn next(self) -> Word {
        Word { tag: self.tag.wrapping_add(1), ..self }
    }
}

impl WordForm {
    /// Reads the word. While other threads change it, the parts of a wide one may be of two moments, and what the links
    /// are is not known: [`WordForm::snapshot`] tells both.
    pub(super) fn load(self, table: &Table, slab: u32) -> Word {
        let desc = table.desc(slab);
        match self {
            WordForm::Wide => Word::unpack_wide(table.pair(slab).load()),
            // Acquire: pairs with the Release of `update`.
            _ => Word::unpack(desc.word.load(Acquire)),
        }
    }

    /// The word at one moment, with the links of that moment: what a free adds comes before this head. No other thread may
    /// [store](WordForm::store) the word meanwhile.
    pub(super) fn snapshot(self, table: &Table, slab: u32, failed: &Count) -> Word {
        // Only a change acquires what the threads before it did, in every form.
        let same = self.update(table, slab, failed, |word| Some(word.freeze(word.frozen)));
        same.map_or_else(|| self.load(table, slab), |(word, _)| word)
    }

    /// Sets the word of a slab that belongs to the caller alone.
    pub(super) fn store(self, table: &Table, slab: u32, word: Word) {
        match self {
            WordForm::Wide => table.pair(slab).store(word.pack_wide()),
            _ => table.desc(slab).word.store(word.pack(), Relaxed),
        }
    }

    /// Changes the word. `change` gets the current word, once more each time another thread is faster. It returns the
    /// new word, or None to leave the word as it is. Returns the word before and after. Failed attempts are counted in
    /// `failed`.
    ///
    /// A change releases everything that the caller did, and acquires everything that the threads before it did.
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
                // Off and on again, both before the change: after it the slab may belong to another thread.
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
        // AcqRel: Release for the links and everything that holders did with the objects; Acquire of the same by the
        // threads that changed it before. Pairs with itself.
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

    /// Pushes one object after the other, so that the head and the number in use are `k` and `OBJECTS - k` at each moment.
    #[test]
    fn a_snapshot_is_of_one_moment_while_another_thread_frees() {
        const OBJECTS: u16 = 1_000;
        for form in [WordForm::Packed, WordForm::Wide, WordForm::Lock] {
            for _ in 0..crate::rounds::rounds(50) {
                let (table, failed) = (Table::new(2, crate::page::DescriptorSize::Compact), Count::default());
                form.store(&table, 1, Word::all_out(OBJECTS, false));
                let frees = || {
                    for k in 1..=OBJECTS {
                        form.update(&table, 1, &Count::default(), |word| Some(word.pushed(k, 1)));
                    }
                };
                std::thread::scope(|scope| {
                    scope.spawn(frees);
                    loop {
                        let word = form.snapshot(&table, 1, &failed);
                        assert_eq!(word.head + word.inuse, OBJECTS, "{form:?}: {word:?}");
                        if word.head == OBJECTS {
                            break;
                        }
                    }
                });
            }
        }
    }
}
