//! The handle of a cache for objects of one type.

use super::config::{CacheConfig, CacheError};
use super::controls::controls;
use super::debug::Site;
use super::grow;
use super::object::{Object, Unclaimed, end_all, forget_all};
use super::reference::TAG_SHIFT;
use super::shared::Shared;
use crate::page::Memory;
use crate::sync::{Handle, Steps, Worker};
use std::marker::PhantomData;

/// A named cache of `T`s.
///
/// Clone the handle freely. Objects that are out when the last handle goes stay valid. The last of them to be freed
/// gives the cache's pages back. [`Cache::destroy`] refuses while an object is out.
pub struct Cache<T> {
    pub(super) shared: Handle<Shared>,
    _of: PhantomData<fn() -> T>,
}

impl<T> Clone for Cache<T> {
    fn clone(&self) -> Self {
        Cache { shared: self.shared.clone(), _of: PhantomData }
    }
}

controls!(Cache<T>);

impl<T: Send> Cache<T> {
    /// Makes a cache over a memory's pages, or shares an existing one ([`CacheConfig::merge`]). Slabs are made as they
    /// are needed.
    ///
    /// # Errors
    /// [`CacheError`]; nothing is left behind then.
    #[cold]
    pub fn new(memory: &Memory, config: &CacheConfig) -> Result<Cache<T>, CacheError> {
        let size = config.padded(size_of::<T>().max(1));
        let shared = Shared::create(memory, size, align_of::<T>(), config, None)?;
        Ok(Cache { shared, _of: PhantomData })
    }

    /// Puts `value` into an object.
    ///
    /// # Errors
    /// The value, if no free object of the cache exists and no slab can be made.
    ///
    /// # Cost
    /// From the sheaf: no locked instruction, one line of the sheaf, one of counters, and the object's own.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, w: &mut Worker, value: T) -> Result<Object<T>, T> {
        // The value moves in one place of the code, so that it is written to its final place and nowhere before.
        let object = match self.shared.take_hot(w) {
            Some(object) => object,
            None => match grow::alloc(&self.shared, w, Site::caller()) {
                Some(object) => object,
                None => return Err(value),
            },
        };
        Ok(self.shared.claim(object, value))
    }

    /// Drops the value and frees the object. An object of another cache goes back to that cache. If the value's Drop
    /// panics, the object is still freed, without a worker.
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

    /// Does the same as [`Cache::free`], but returns the value.
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

    /// Puts values of `make` into `n` objects, appends them to `objects` and returns true. If there are not that many,
    /// whatever `n` is, it returns false, and `objects` takes no more memory than before.
    ///
    /// # Cost
    /// That of one allocation, and a copy of the sheaf's part, each time a sheaf runs empty.
    #[inline]
    #[track_caller]
    pub fn alloc_bulk(
        &self,
        w: &mut Worker,
        n: usize,
        objects: &mut Vec<Object<T>>,
        make: impl FnMut() -> T,
    ) -> bool {
        let Some(mut taken) = Unclaimed::new(objects, &self.shared, n) else { return false };
        let got = self.shared.take_bulk(w, n, |words| taken.extend(words));
        if got == n {
            taken.claim(make);
        } else {
            taken.refuse();
        }
        got == n
    }

    /// Drops the values and frees the objects. `objects` is empty afterwards. If a value's Drop panics, the other
    /// values are still dropped and all objects are freed; then the first panic resumes.
    ///
    /// # Cost
    /// That of one free, and a copy into the sheaf. In the layer `CpuSlab`, one change of a word for each run of
    /// objects of one slab ([brouer15-bulk]'s detached freelists).
    #[inline]
    #[track_caller]
    pub fn free_bulk(&self, w: &mut Worker, objects: &mut Vec<Object<T>>) {
        let foreign = self.drop_foreign(objects);
        self.shared.give_bulk(w, end_all(objects, &self.shared));
        foreign.end();
    }

    /// Does the same as [`Cache::free_bulk`], but neither drops nor reads the values: for objects whose values hold
    /// nothing.
    #[inline]
    #[track_caller]
    pub(crate) fn forget_bulk(&self, w: &mut Worker, objects: &mut Vec<Object<T>>) {
        let foreign = self.drop_foreign(objects);
        self.shared.give_bulk(w, forget_all(objects));
        foreign.end();
    }

    /// Drops objects of other caches, which returns them to their own caches.
    #[inline(always)]
    fn drop_foreign(&self, objects: &mut Vec<Object<T>>) -> Steps {
        // There is no branch in the loop, so that it is a few vector instructions.
        let tag = self.shared.tag();
        let differs = objects.iter().fold(0, |bits, object| bits | (object.tagged() ^ tag));
        if differs >> TAG_SHIFT != 0 { self.drop_each_foreign(objects) } else { Steps::new() }
    }

    #[cold]
    #[inline(never)]
    fn drop_each_foreign(&self, objects: &mut Vec<Object<T>>) -> Steps {
        let mut steps = Steps::new();
        let foreign: Vec<_> = objects.extract_if(.., |object| !self.shared.owns(object.tagged())).collect();
        foreign.into_iter().for_each(|object| steps.run(|| drop(object)));
        steps
    }
}
