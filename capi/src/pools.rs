//! HOT: the pools that a worker has looked up, by handle.
//!
//! Unsafe code: if a handle equals the stored one, the code does not check again that there is a pool.

use crate::word;
use netmem::Pool;

/// Pools that a worker remembers at once. Pools whose places differ by a multiple of this share a slot, which
/// the pool looked up last has.
const KNOWN: usize = 256;

/// The pools that a worker has looked up, by place. Two arrays, so that the index needs no multiplication.
pub struct Pools {
    /// Invariant: if the slot has no pool, its word belongs to another place.
    words: [u64; KNOWN],
    pools: [Option<Pool>; KNOWN],
}

impl Pools {
    /// Makes an empty table.
    pub fn new() -> Pools {
        Pools { words: std::array::from_fn(none), pools: [const { None }; KNOWN] }
    }

    /// Returns the pool of this handle, if the table has it. The pool may have been closed since: then its
    /// owner's cache is empty and shut (`Pool::alloc_cached`).
    ///
    /// # Cost
    /// Two loads and a comparison.
    #[inline(always)]
    pub fn look_up(&self, word: u64) -> Option<&Pool> {
        let at = word::place(word) % KNOWN;
        // SAFETY: the word belongs to this place, so by the invariant there is a pool.
        (self.words[at] == word).then(|| unsafe { self.pools[at].as_ref().unwrap_unchecked() })
    }

    /// Adds a pool, and drops the pools for which `is_open` returns false.
    #[cold]
    pub fn put(&mut self, word: u64, pool: Pool, is_open: impl Fn(u64) -> bool) -> &Pool {
        for at in 0..KNOWN {
            if self.pools[at].is_some() && !is_open(self.words[at]) {
                self.forget(at);
            }
        }
        let at = word::place(word) % KNOWN;
        self.forget(at);
        let known = self.pools[at].insert(pool);
        self.words[at] = word;
        known
    }

    /// Clears the word first, because dropping a pool may panic.
    fn forget(&mut self, at: usize) {
        self.words[at] = none(at);
        self.pools[at] = None;
    }
}

/// A word that belongs to another place than this one.
fn none(at: usize) -> u64 {
    at as u64 ^ 1
}
