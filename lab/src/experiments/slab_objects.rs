//! Objects of which only the first words are written, and the account that is kept of them.

use std::mem::MaybeUninit;

use netmem::page::Memory;
use netmem::slab::Cache;

use crate::bench::Bench;

/// An object of `8 * (WRITTEN + REST)` bytes, of which making it writes the first `WRITTEN` words.
#[derive(Debug)]
pub(super) struct Block<const WRITTEN: usize, const REST: usize> {
    written: [u64; WRITTEN],
    _rest: [MaybeUninit<u64>; REST],
}

impl<const WRITTEN: usize, const REST: usize> Block<WRITTEN, REST> {
    /// A block with `stamp` in every word that is written; at most eight are.
    #[inline(always)]
    pub(super) fn new(stamp: u64) -> Self {
        const { assert!(WRITTEN <= 8) }
        // Word by word: a loop here would have the whole block made elsewhere and copied, unwritten words and all.
        let mut written = [0; WRITTEN];
        if WRITTEN > 0 {
            written[0] = stamp;
        }
        if WRITTEN > 1 {
            written[1] = stamp;
        }
        if WRITTEN > 3 {
            (written[2], written[3]) = (stamp, stamp);
        }
        if WRITTEN > 7 {
            (written[4], written[5], written[6], written[7]) = (stamp, stamp, stamp, stamp);
        }
        Self { written, _rest: [MaybeUninit::uninit(); REST] }
    }

    /// Changes a bit of a word, as a fault would.
    #[cfg(test)]
    pub(super) fn spoil(&mut self, word: usize) {
        self.written[word] ^= 1;
    }

    /// Whether the words are as they were written.
    pub(super) fn holds(&self, stamp: u64) -> bool {
        self.written == [stamp; WRITTEN]
    }
}

/// What a working set has to say at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Objects that came out of the cache.
    pub(super) allocated: u64,
    /// Objects that went back.
    pub(super) freed: u64,
    /// Allocations for which there was no memory.
    pub(super) refused: u64,
    /// Objects whose words were not those written.
    pub(super) spoilt: u64,
    /// Objects that the cache itself counted as out when all were back, and faults that it found in its lists.
    pub(super) missing: u64,
}

impl Account {
    /// Checks that every object came, stayed whole and went.
    pub(super) fn check(&self, bench: &mut Bench<'_>) {
        let Self { allocated, freed, refused, spoilt, missing } = self;
        bench.check("every allocation succeeded", *refused == 0, format!("{refused} refused"));
        bench.check("contents intact", *spoilt == 0, format!("{spoilt} objects were not as written"));
        bench.check(
            "every object back",
            allocated == freed && *missing == 0,
            format!(
                "{allocated} allocated, {freed} freed, {missing} still out or at fault when the caches ended"
            ),
        );
    }

    /// Adds the account of another set.
    pub(super) fn add(&mut self, other: Account) {
        self.allocated += other.allocated;
        self.freed += other.freed;
        self.refused += other.refused;
        self.spoilt += other.spoilt;
        self.missing += other.missing;
    }
}

/// Ends a cache all of whose objects are back; returns how many it says are still out, and how many faults it finds
/// in its own lists and counts.
pub(super) fn end<T: Send>(cache: Cache<T>) -> u64 {
    let faults = cache.validate().len() as u64;
    faults + cache.destroy().map_or_else(|live| live.len(), |()| 0)
}

/// Checks that every page is where it was before.
pub(super) fn check_pages(bench: &mut Bench<'_>, memory: &Memory) {
    let stats = memory.stats();
    bench.check(
        "pages conserved",
        stats.free + stats.cached == stats.total,
        format!("{} free + {} cached of {}", stats.free, stats.cached, stats.total),
    );
}
