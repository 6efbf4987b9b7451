//! A working set of allocated objects, and the loops over it.

use std::hint::black_box;

use netmem::page::Memory;
use netmem::slab::{Cache, CacheConfig, Object};
use netmem::sync::Worker;

use super::slab_objects::{Account, Block, alloc, end};
use crate::bench::SetUpError;
use crate::method::random::Random;

/// Sizes of a [`working_set`], in bytes.
pub(super) const SIZES: [usize; 14] = [8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 1536, 2048, 4096, 8192];

/// Objects of one cache, held in the order in which they will be freed.
pub(super) trait WorkingSet: Send {
    /// Allocates until `count` objects are held.
    fn hold(&mut self, w: &mut Worker, count: usize);

    /// Puts the held objects into a random order, so that the objects of one slab are not freed one after the other.
    fn shuffle(&mut self, random: &mut Random);

    /// `ops` times: allocates an object and frees the same one. Only the worker's own list is at work.
    fn same(&mut self, w: &mut Worker, ops: u32);

    /// `ops` times: allocates an object and frees the one that has been held longest.
    fn oldest(&mut self, w: &mut Worker, ops: u32);

    /// `ops` objects: frees all that are held, then allocates the same number again, and so on.
    fn all(&mut self, w: &mut Worker, ops: u32);

    /// Returns as many objects of the same cache, for another worker. The twin must be settled first.
    fn twin(&self, w: &mut Worker) -> Box<dyn WorkingSet>;

    /// Returns SLUB's counters of the cache so far.
    fn frees(&self) -> Frees;

    /// Frees the held objects, and ends the cache unless this is a twin.
    fn settle(self: Box<Self>, w: &mut Worker) -> Account;
}

/// Frees of a cache, by SLUB's own counters: `free_fastpath` and `free_slowpath`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Frees {
    /// Into the worker's active slab: no slab's word is changed.
    pub(super) fast: u64,
    /// Into another slab, by changing its word.
    pub(super) slow: u64,
}

/// Makes a set of objects of `bytes`, one of [`SIZES`]. With `write` the first 64 bytes of each object are written when
/// it is allocated, or all bytes of a smaller one.
pub(super) fn working_set(
    memory: &Memory,
    config: &CacheConfig,
    bytes: usize,
    write: bool,
) -> Result<Box<dyn WorkingSet>, SetUpError> {
    macro_rules! by_size {
        ($($bytes:literal: $written:literal + $rest:literal, $words:literal;)*) => {
            match (bytes, write) {
                $(($bytes, true) => Held::<$written, $rest>::boxed(memory, config),
                  ($bytes, false) => Held::<0, $words>::boxed(memory, config),)*
                _ => Err(SetUpError { step: "working set", cause: format!("no objects of {bytes} bytes") }),
            }
        };
    }
    by_size! {
        8: 1 + 0, 1;
        16: 2 + 0, 2;
        32: 4 + 0, 4;
        64: 8 + 0, 8;
        96: 8 + 4, 12;
        128: 8 + 8, 16;
        192: 8 + 16, 24;
        256: 8 + 24, 32;
        512: 8 + 56, 64;
        1024: 8 + 120, 128;
        1536: 8 + 184, 192;
        2048: 8 + 248, 256;
        4096: 8 + 504, 512;
        8192: 8 + 1016, 1024;
    }
}

struct Held<const WRITTEN: usize, const REST: usize> {
    cache: Cache<Block<WRITTEN, REST>>,
    /// The stamp of each one is its index here.
    objects: Vec<Object<Block<WRITTEN, REST>>>,
    /// The index of the one that has been held longest.
    next: usize,
    /// Another set ends the cache.
    is_twin: bool,
    account: Account,
}

impl<const WRITTEN: usize, const REST: usize> Held<WRITTEN, REST> {
    fn of(cache: Cache<Block<WRITTEN, REST>>, is_twin: bool) -> Self {
        Self { cache, objects: Vec::new(), next: 0, is_twin, account: Account::default() }
    }

    fn boxed(memory: &Memory, config: &CacheConfig) -> Result<Box<dyn WorkingSet>, SetUpError> {
        let cache = Cache::new(memory, config).map_err(SetUpError::at("cache"))?;
        Ok(Box::new(Self::of(cache, false)))
    }

    #[inline(always)]
    fn alloc(&mut self, w: &mut Worker, stamp: usize) -> Option<Object<Block<WRITTEN, REST>>> {
        let object = alloc(&self.cache, w, stamp as u64);
        self.account.refused += u64::from(object.is_none());
        object
    }
}

impl<const WRITTEN: usize, const REST: usize> WorkingSet for Held<WRITTEN, REST> {
    fn hold(&mut self, w: &mut Worker, count: usize) {
        self.objects.reserve(count.saturating_sub(self.objects.len()));
        while self.objects.len() < count {
            let Some(object) = self.alloc(w, self.objects.len()) else { return };
            self.objects.push(object);
            self.account.allocated += 1;
        }
    }

    fn shuffle(&mut self, random: &mut Random) {
        random.shuffle(&mut self.objects);
        self.objects.iter_mut().zip(0..).for_each(|(object, place)| object.write(place));
    }

    #[inline(never)]
    fn same(&mut self, w: &mut Worker, ops: u32) {
        for _ in 0..ops {
            if let Some(object) = self.alloc(w, 0) {
                black_box(());
                self.cache.free(w, object);
            }
        }
        self.account.allocated += u64::from(ops);
        self.account.freed += u64::from(ops);
    }

    #[inline(never)]
    fn oldest(&mut self, w: &mut Worker, ops: u32) {
        for _ in 0..ops {
            let place = self.next;
            self.next = if place + 1 < self.objects.len() { place + 1 } else { 0 };
            if let Some(young) = self.alloc(w, place)
                && let Some(held) = self.objects.get_mut(place)
            {
                let old = std::mem::replace(held, young);
                self.cache.free(w, old);
            }
        }
        self.account.allocated += u64::from(ops);
        self.account.freed += u64::from(ops);
    }

    #[inline(never)]
    fn all(&mut self, w: &mut Worker, ops: u32) {
        let (count, mut left) = (self.objects.len(), ops as usize);
        while left > 0 && count > 0 {
            let part = left.min(count);
            for object in self.objects.drain(count - part..) {
                self.cache.free(w, object);
            }
            self.account.freed += part as u64;
            self.hold(w, count);
            left -= part;
        }
    }

    fn twin(&self, w: &mut Worker) -> Box<dyn WorkingSet> {
        let mut twin = Self::of(self.cache.clone(), true);
        twin.hold(w, self.objects.len());
        Box::new(twin)
    }

    fn frees(&self) -> Frees {
        let stats = self.cache.stats();
        Frees { fast: stats.free_fastpath, slow: stats.free_slowpath }
    }

    fn settle(mut self: Box<Self>, w: &mut Worker) -> Account {
        for (place, object) in self.objects.drain(..).enumerate() {
            self.account.corrupted += u64::from(!object.holds(place as u64));
            self.account.freed += 1;
            self.cache.free(w, object);
        }
        if !self.is_twin {
            self.account.missing = end(self.cache);
        }
        self.account
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::page::MemoryConfig;
    use netmem::slab::Layer;

    const CONFIG: fn() -> CacheConfig =
        || CacheConfig { layer: Layer::CpuSlab, merge: false, ..CacheConfig::default() };

    fn memory() -> (Memory, Worker) {
        let memory = Memory::new(&MemoryConfig { bytes: 16 << 20, ..MemoryConfig::default() }).unwrap();
        let worker = memory.worker().unwrap();
        (memory, worker)
    }

    #[test]
    fn every_size_has_its_set_and_every_loop_keeps_its_account() {
        let (memory, mut worker) = memory();
        for bytes in SIZES {
            for write in [false, true] {
                let mut set = working_set(&memory, &CONFIG(), bytes, write).unwrap();
                set.hold(&mut worker, 50);
                set.same(&mut worker, 70);
                set.oldest(&mut worker, 120);
                set.all(&mut worker, 90);
                let whole = Account { allocated: 330, freed: 330, ..Account::default() };
                assert_eq!(set.settle(&mut worker), whole, "{bytes}");
            }
        }
        assert!(working_set(&memory, &CONFIG(), 24, true).is_err());
    }

    #[test]
    fn a_twin_settles_first_and_the_cache_ends_with_the_other() {
        let (memory, mut worker) = memory();
        let mut set = working_set(&memory, &CONFIG(), 64, true).unwrap();
        set.hold(&mut worker, 40);
        let mut twin = set.twin(&mut worker);
        twin.oldest(&mut worker, 100);
        let whole = Account { allocated: 140, freed: 140, ..Account::default() };
        assert_eq!(twin.settle(&mut worker), whole);
        assert_eq!(set.settle(&mut worker), Account { allocated: 40, freed: 40, ..whole });
    }

    #[test]
    fn a_shuffled_set_frees_into_another_slab_each_time_and_keeps_its_account() {
        let (memory, mut worker) = memory();
        let changes = |shuffled: bool, worker: &mut Worker| {
            let cache: Cache<Block<4, 0>> = Cache::new(&memory, &CONFIG()).unwrap();
            let mut held = Held::of(cache, false);
            held.hold(worker, 4_096);
            if shuffled {
                held.shuffle(&mut Random::new(1));
            }
            held.oldest(worker, 2_048);
            let page = |object: &Object<Block<4, 0>>| std::ptr::from_ref(&**object).addr() >> 12;
            let changes =
                held.objects[2_048..].windows(2).filter(|two| page(&two[0]) != page(&two[1])).count();
            let whole = Account { allocated: 6_144, freed: 6_144, ..Account::default() };
            assert_eq!(Box::new(held).settle(worker), whole);
            changes
        };
        let (in_turn, shuffled) = (changes(false, &mut worker), changes(true, &mut worker));
        assert!(in_turn < 64 && shuffled > 1_900, "{in_turn} and {shuffled} of 2047");
    }

    #[test]
    fn warm_frees_are_fast_ones_and_old_objects_go_the_slow_way() {
        let (memory, mut worker) = memory();
        let mut set = working_set(&memory, &CONFIG(), 256, true).unwrap();
        set.same(&mut worker, 100);
        assert_eq!(set.frees(), Frees { fast: 100, slow: 0 });
        set.hold(&mut worker, 400);
        set.shuffle(&mut Random::new(1));
        set.oldest(&mut worker, 200);
        let Frees { fast, slow } = set.frees();
        assert!(fast + slow == 300 && slow > 150, "{fast} fast, {slow} slow");
        set.settle(&mut worker);
    }

    #[test]
    fn a_corrupted_object_and_one_that_never_comes_back_are_counted() {
        let (memory, mut worker) = memory();
        let cache = Cache::new(&memory, &CONFIG()).unwrap();
        let mut held: Held<8, 24> = Held::of(cache, false);
        held.hold(&mut worker, 20);
        held.objects[7].corrupt();
        std::mem::forget(held.objects.pop());
        let account = Box::new(held).settle(&mut worker);
        assert_eq!(account, Account { allocated: 20, freed: 19, corrupted: 1, missing: 1, refused: 0 });
    }
}
