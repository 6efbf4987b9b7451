//! The cache's handle, for objects of one type.

use super::config::{CacheConfig, CacheError};
use super::debug::{Misuse, Site};
use super::grow;
use super::inspect::{Finding, Live};
use super::local::TAG_SHIFT;
use super::object::{Object, Unclaimed, end_all};
use super::shared::Shared;
use super::stats::{Attributes, SlabStats};
use crate::page::Memory;
use crate::sync::{Handle, Worker};
use std::marker::PhantomData;

/// A named cache of `T`s.
///
/// Clone the handle freely. Objects that are out when the last one goes stay good; the last of them to come home gives
/// the cache's pages back. [`Cache::destroy`] refuses while any is out.
#[derive(Debug)]
pub struct Cache<T> {
    shared: Handle<Shared>,
    _of: PhantomData<fn() -> T>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Cache { shared: self.shared.clone(), _of: PhantomData }
    }
}

impl<T: Send> Cache<T> {
    /// Makes a cache over a memory's pages, or shares one that is there ([`CacheConfig::merge`]); slabs are made as
    /// they are needed.
    ///
    /// # Errors
    /// [`CacheError`]; nothing is left behind then.
    #[cold]
    pub fn new(memory: &Memory, config: &CacheConfig) -> Result<Cache<T>, CacheError> {
        let shared = Shared::create(memory, size_of::<T>().max(1), align_of::<T>(), config, None)?;
        Ok(Cache { shared, _of: PhantomData })
    }

    /// What it is called in reports: the name of the first who made it, where several share it.
    pub fn name(&self) -> String {
        self.shared.name()
    }

    /// Puts `value` into an object.
    ///
    /// # Errors
    /// The value, when no free object of the cache exists and no slab can be made.
    ///
    /// # Cost
    /// From the sheaf: no locked instruction, one line of the sheaf, one of counters, and the object's own.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, w: &mut Worker, value: T) -> Result<Object<T>, T> {
        // One place where the value moves, so that it is written where it is to be and nowhere before.
        let object = match self.shared.take_hot(w) {
            Some(object) => object,
            None => match grow::alloc(&self.shared, w, Site::caller()) {
                Some(object) => object,
                None => return Err(value),
            },
        };
        Ok(self.shared.claim(object, value))
    }

    /// Drops the value and gives the object back; an object of another cache goes home to its own.
    ///
    /// # Cost
    /// As [`Cache::alloc`]; no descriptor.
    #[inline]
    #[track_caller]
    pub fn free(&self, w: &mut Worker, object: Object<T>) {
        if !self.shared.owns(object.tagged()) {
            return drop(object);
        }
        self.shared.give(w, object.end());
    }

    /// As [`Cache::free`], but hands the value out.
    #[inline]
    #[track_caller]
    pub fn take(&self, w: &mut Worker, object: Object<T>) -> T {
        if !self.shared.owns(object.tagged()) {
            return object.into_value();
        }
        let (object, value) = object.take();
        self.shared.give(w, object);
        value
    }

    /// Puts `make`'s values into `n` objects and appends them to `objects`, or does nothing; true if it did.
    ///
    /// # Cost
    /// That of one allocation, and a copy of the sheaf's part, as often as a sheaf runs empty.
    #[inline]
    #[track_caller]
    pub fn alloc_bulk(
        &self,
        w: &mut Worker,
        n: usize,
        objects: &mut Vec<Object<T>>,
        make: impl FnMut() -> T,
    ) -> bool {
        let mut taken = Unclaimed::new(objects, &self.shared, n);
        let got = self.shared.take_bulk(w, n, |words| taken.extend(words));
        if got == n {
            taken.claim(make);
        }
        got == n
    }

    /// Drops the values and gives the objects back; `objects` is empty then.
    ///
    /// # Cost
    /// That of one free, and a copy into the sheaf; on the [`Layer::CpuSlab`](super::Layer::CpuSlab) one change of a
    /// word for each run of objects of one slab (source 000's detached freelists).
    #[inline]
    #[track_caller]
    pub fn free_bulk(&self, w: &mut Worker, objects: &mut Vec<Object<T>>) {
        // Without a branch in the loop, so that it is a few vector instructions.
        let tag = self.shared.tag();
        let differs = objects.iter().fold(0, |bits, object| bits | (object.tagged() ^ tag));
        if differs >> TAG_SHIFT != 0 {
            // Strangers are dropped, and so go home to their own.
            objects.retain(|object| self.shared.owns(object.tagged()));
        }
        self.shared.give_bulk(w, end_all(objects));
    }
}

impl<T> Cache<T> {
    /// Gives empty slabs back to the memory, with all that workers and the barn keep.
    #[cold]
    pub fn shrink(&self) {
        self.shared.shrink();
    }

    /// Looks at every free object: whether freelists are whole and counts agree, and with debug whether anything was
    /// written to. Returns what is wrong.
    #[cold]
    pub fn validate(&self) -> Vec<Finding> {
        self.shared.validate()
    }

    /// Changes a tunable: `order`, `min_partial`, `cpu_partial` or `sheaf_capacity`, with effect at once.
    ///
    /// # Errors
    /// [`CacheError::Unknown`], [`CacheError::Range`], [`CacheError::Layer`] or [`CacheError::Size`]; nothing changes
    /// then.
    #[cold]
    pub fn set(&self, name: &str, value: usize) -> Result<(), CacheError> {
        self.shared.set(name, value)
    }

    /// The value of a tunable.
    ///
    /// # Errors
    /// [`CacheError::Unknown`].
    pub fn get(&self, name: &str) -> Result<usize, CacheError> {
        self.shared.get(name)
    }

    /// The cache's counters.
    pub fn stats(&self) -> SlabStats {
        self.shared.stats()
    }

    /// All that is known of the cache, as SLUB shows it.
    pub fn attributes(&self) -> Attributes {
        self.shared.attributes()
    }

    /// Ends the cache, unless objects of it are out or others share it.
    ///
    /// # Errors
    /// [`Live`], which lists the objects that are out, and holds the handle.
    #[cold]
    pub fn destroy(self) -> Result<(), Live<Cache<T>>> {
        Live::or_end(self, |cache| &cache.shared)
    }

    /// Misuse that debug found and mended, where it was told to report: the last 64.
    pub fn found(&self) -> Vec<Misuse> {
        self.shared.found()
    }
}
