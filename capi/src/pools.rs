//! HOT: the pools that a worker knows by their words.
//!
//! Unsafe code: where a word is equal to the one that is looked for, nobody asks again whether there is a pool.

use crate::word;
use netmem::Pool;

/// Pools that a worker knows at once. Pools whose places differ by this share one, which the pool that was asked for last has.
const KNOWN: usize = 256;

/// The pools that a worker has found, by place. In two arrays, so that a place is reached without a multiplication.
pub struct Pools {
    /// Invariant: where there is no pool, the word is one of another place.
    words: [u64; KNOWN],
    pools: [Option<Pool>; KNOWN],
}

impl Pools {
    /// None yet.
    pub fn new() -> Pools {
        Pools { words: std::array::from_fn(none), pools: [const { None }; KNOWN] }
    }

    /// The pool of this word, if it is among them. It may have been closed since: its owner's cache has nothing to give then, and is shut
    /// (`Pool::alloc_cached`).
    ///
    /// # Cost
    /// Two loads and a comparison.
    #[inline(always)]
    pub fn look_up(&self, word: u64) -> Option<&Pool> {
        let at = word::place(word) % KNOWN;
        // SAFETY: this word is one of this place, so by the invariant there is a pool where it stands.
        (self.words[at] == word).then(|| unsafe { self.pools[at].as_ref().unwrap_unchecked() })
    }

    /// Knows one more, and lets go of those of which `is_open` says no.
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

    /// The word first: a pool's end may panic.
    fn forget(&mut self, at: usize) {
        self.words[at] = none(at);
        self.pools[at] = None;
    }
}

/// A word of another place than this one.
fn none(at: usize) -> u64 {
    at as u64 ^ 1
}
