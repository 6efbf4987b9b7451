//! Objects of which only the first words are written, and the account of them.

use std::mem::MaybeUninit;

use netmem::page::Memory;
use netmem::slab::{Cache, Object};
use netmem::sync::Worker;

use crate::bench::Bench;

/// An object of `8 * (WRITTEN + REST)` bytes, of which [`alloc`] and [`alloc_bulk`] write the first `WRITTEN`
/// words.
///
/// Invariant: only these two make an object, so the words are written whenever an object is used elsewhere.
#[derive(Debug)]
pub(super) struct Block<const WRITTEN: usize, const REST: usize> {
    written: MaybeUninit<[u64; WRITTEN]>,
    _rest: [MaybeUninit<u64>; REST],
}

impl<const WRITTEN: usize, const REST: usize> Block<WRITTEN, REST> {
    /// Makes an object without written words, so that nothing is copied into the cache's object.
    #[inline(always)]
    fn unwritten() -> Self {
        Self { written: MaybeUninit::uninit(), _rest: [MaybeUninit::uninit(); REST] }
    }

    /// Writes the first `WRITTEN` words.
    #[inline(always)]
    pub(super) fn write(&mut self, stamp: u64) {
        self.written.write([stamp; WRITTEN]);
    }

    /// Returns true if the first word is as it was written, or is not a written one.
    #[inline(always)]
    pub(super) fn begins_with(&self, stamp: u64) -> bool {
        // SAFETY: the invariant: they are written.
        let written = unsafe { self.written.assume_init_ref() };
        written.first().is_none_or(|word| *word == stamp)
    }

    /// Changes a bit of a word, as a fault would.
    #[cfg(test)]
    pub(super) fn corrupt(&mut self) {
        self.write(u64::MAX);
    }

    /// Returns true if the words are as they were written.
    pub(super) fn holds(&self, stamp: u64) -> bool {
        // SAFETY: the invariant: they are written.
        let written = unsafe { self.written.assume_init_ref() };
        *written == [stamp; WRITTEN]
    }
}

/// Allocates an object with `stamp` in every written word. Returns `None` if there is no memory.
#[inline(always)]
pub(super) fn alloc<const WRITTEN: usize, const REST: usize>(
    cache: &Cache<Block<WRITTEN, REST>>,
    w: &mut Worker,
    stamp: u64,
) -> Option<Object<Block<WRITTEN, REST>>> {
    let mut object = cache.alloc(w, Block::unwritten()).ok()?;
    object.write(stamp);
    Some(object)
}

/// Adds `n` objects to `objects`, the first with `stamp`, each next one with one more. Returns false if there is no
/// memory.
#[inline(always)]
pub(super) fn alloc_bulk<const WRITTEN: usize, const REST: usize>(
    cache: &Cache<Block<WRITTEN, REST>>,
    w: &mut Worker,
    n: usize,
    objects: &mut Vec<Object<Block<WRITTEN, REST>>>,
    stamp: u64,
) -> bool {
    let begin = objects.len();
    let made = cache.alloc_bulk(w, n, objects, Block::unwritten);
    objects[begin..].iter_mut().zip(stamp..).for_each(|(object, stamp)| object.write(stamp));
    made
}

/// The counts of a working set at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Account {
    /// Objects allocated from the cache.
    pub(super) allocated: u64,
    /// Objects freed.
    pub(super) freed: u64,
    /// Failed allocations.
    pub(super) refused: u64,
    /// Objects with wrong words.
    pub(super) corrupted: u64,
    /// Objects that the cache itself counted as allocated when all were freed, and faults in its lists.
    pub(super) missing: u64,
}

impl Account {
    /// Checks that every object was allocated, stayed the same and was freed.
    pub(super) fn check(&self, bench: &mut Bench<'_>) {
        let Self { allocated, freed, refused, corrupted, missing } = self;
        bench.check("every allocation succeeded", *refused == 0, format!("{refused} refused"));
        bench.check("contents intact", *corrupted == 0, format!("{corrupted} objects were not as written"));
        bench.check(
            "every object back",
            allocated == freed && *missing == 0,
            format!(
                "{allocated} allocated, {freed} freed, {missing} still out or at fault when the caches ended"
            ),
        );
    }

    /// Adds the counts of another set.
    pub(super) fn add(&mut self, other: Account) {
        self.allocated += other.allocated;
        self.freed += other.freed;
        self.refused += other.refused;
        self.corrupted += other.corrupted;
        self.missing += other.missing;
    }
}

/// Ends a cache whose objects are all freed. Returns the number of objects that it counts as allocated, plus the
/// faults in its own lists and counts.
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
