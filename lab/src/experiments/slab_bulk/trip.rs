//! The timed loops: allocate from the cache and free.

use std::hint::black_box;

use netmem::page::Memory;
use netmem::slab::{Cache, CacheConfig, Object};
use netmem::sync::Worker;

use crate::bench::SetUpError;
use crate::experiments::slab_objects::{Account, Block, alloc, alloc_bulk, end};

/// How objects are allocated and freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// One call for each object.
    Loop,
    /// One call for the whole bulk.
    Bulk,
}

/// Bulks of one cache: a whole bulk is allocated before its first object is freed.
pub(super) struct Trip<const WRITTEN: usize, const REST: usize> {
    cache: Cache<Block<WRITTEN, REST>>,
    hand: Vec<Object<Block<WRITTEN, REST>>>,
    bulk: usize,
    account: Account,
}

/// The value of every written word of the first object of a bulk.
const STAMP: u64 = 0x5a5a_5a5a_5a5a_5a5a;

impl<const WRITTEN: usize, const REST: usize> Trip<WRITTEN, REST> {
    pub(super) fn new(memory: &Memory, config: &CacheConfig, bulk: usize) -> Result<Self, SetUpError> {
        let cache = Cache::new(memory, config).map_err(SetUpError::at("cache"))?;
        Ok(Self { cache, hand: Vec::with_capacity(bulk), bulk, account: Account::default() })
    }

    /// Objects that are allocated at the same time.
    pub(super) fn bulk(&self) -> usize {
        self.bulk
    }

    /// Allocates and frees `ops` objects.
    pub(super) fn run(&mut self, w: &mut Worker, way: Way, ops: u32) {
        match way {
            Way::Loop if self.bulk == 1 => self.one(w, ops),
            Way::Loop => self.one_by_one(w, ops),
            Way::Bulk => self.in_bulk(w, ops),
        }
        self.account.allocated += u64::from(ops);
        self.account.freed += u64::from(ops);
    }

    /// There is no array: the object stays in a register, as in the rivals' loops.
    #[inline(never)]
    fn one(&mut self, w: &mut Worker, ops: u32) {
        for _ in 0..ops {
            match alloc(&self.cache, w, STAMP) {
                Some(object) => {
                    black_box(());
                    self.cache.free(w, object);
                }
                None => self.account.refused += 1,
            }
        }
    }

    #[inline(never)]
    fn one_by_one(&mut self, w: &mut Worker, ops: u32) {
        let mut left = ops as usize;
        while left > 0 {
            let bulk = self.bulk.min(left);
            for _ in 0..bulk {
                match alloc(&self.cache, w, STAMP) {
                    Some(object) => self.hand.push(object),
                    None => self.account.refused += 1,
                }
            }
            for object in black_box(&mut self.hand).drain(..) {
                self.cache.free(w, object);
            }
            left -= bulk;
        }
    }

    #[inline(never)]
    fn in_bulk(&mut self, w: &mut Worker, ops: u32) {
        let mut left = ops as usize;
        while left > 0 {
            let bulk = self.bulk.min(left);
            if !alloc_bulk(&self.cache, w, bulk, &mut self.hand, STAMP) {
                self.account.refused += bulk as u64;
            }
            self.cache.free_bulk(w, black_box(&mut self.hand));
            left -= bulk;
        }
    }

    /// Allocates one more object, and keeps it.
    pub(super) fn take(&mut self, w: &mut Worker, kept: &mut Vec<Object<Block<WRITTEN, REST>>>) {
        match alloc(&self.cache, w, STAMP) {
            Some(object) => kept.push(object),
            None => self.account.refused += 1,
        }
        self.account.allocated += 1;
    }

    /// Frees the kept objects.
    pub(super) fn give(&mut self, w: &mut Worker, kept: Vec<Object<Block<WRITTEN, REST>>>) {
        self.account.freed += kept.len() as u64;
        kept.into_iter().for_each(|object| self.cache.free(w, object));
    }

    /// Writes and reads one more bulk, then ends the cache.
    pub(super) fn settle(mut self, w: &mut Worker) -> Account {
        let made = alloc_bulk(&self.cache, w, self.bulk, &mut self.hand, 1);
        let bulk = self.bulk as u64;
        self.account.refused += if made { 0 } else { bulk };
        self.account.allocated += bulk;
        let whole = self.hand.iter().zip(1..).filter(|(object, stamp)| object.holds(*stamp)).count() as u64;
        self.account.corrupted += bulk - whole;
        self.account.freed += self.hand.len() as u64;
        self.cache.free_bulk(w, &mut self.hand);
        self.account.missing = end(self.cache);
        self.account
    }
}
