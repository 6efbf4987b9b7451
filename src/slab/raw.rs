//! A cache of objects whose size is known at run time: SLUB's own interface, for C, the size classes and the lab.

use super::config::{CacheConfig, CacheError};
use super::controls::controls;
use super::debug::{Misuse, Site};
use super::grow;
use super::reference::Ref;
use super::registry;
use super::shared::Shared;
use crate::page::Memory;
use crate::sync::{Handle, Steps, Worker};
use std::ptr::NonNull;

/// A named cache of objects of a size and an alignment.
///
/// An allocation is a pointer: its holder may use `size` bytes, until the pointer is freed once.
#[derive(Clone)]
pub struct RawCache {
    pub(super) shared: Handle<Shared>,
}

controls!(RawCache);

impl RawCache {
    /// Makes a cache, or shares an existing one ([`CacheConfig::merge`]).
    ///
    /// # Errors
    /// [`CacheError`]; nothing is left behind then.
    #[cold]
    pub fn new(
        memory: &Memory,
        size: usize,
        align: usize,
        config: &CacheConfig,
    ) -> Result<RawCache, CacheError> {
        Ok(RawCache { shared: Shared::create(memory, config.padded(size.max(1)), align, config, None)? })
    }

    /// The cache's number in the process, which its slabs' descriptors carry.
    pub(super) fn number(&self) -> u16 {
        self.shared.number
    }

    /// Allocates an object. Returns None if there is none and no slab can be made. Its contents are those that the last
    /// holder left.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, w: &mut Worker) -> Option<NonNull<u8>> {
        self.shared.take(w).map(|object| self.shared.pointer(object))
    }

    /// Frees an object.
    ///
    /// # Errors
    /// [`Misuse`], if the cache has debug that found one and reports it. The object stays with the caller then.
    ///
    /// # Safety
    /// The object belongs to this cache, is out, and is not used after this. With debug, what debug checks is exempt.
    #[inline]
    #[track_caller]
    pub unsafe fn free(&self, w: &mut Worker, object: NonNull<u8>) -> Result<(), Misuse> {
        if self.shared.keep_hot(w, self.tagged(object)) {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { free_all(&*self.shared, Some(w), &[object], Site::caller()) }
    }

    #[inline(always)]
    fn tagged(&self, object: NonNull<u8>) -> Ref {
        self.shared.tag() | object.addr().get() as u64
    }

    /// Fills all of `objects`, or none. Returns true if it did. The old contents are not read.
    #[inline]
    #[track_caller]
    pub fn alloc_bulk(&self, w: &mut Worker, objects: &mut [Option<NonNull<u8>>]) -> bool {
        let mut filling = Filling { cache: self, objects, got: 0 };
        let got = self.shared.take_bulk(w, filling.objects.len(), |taken| {
            for (&object, place) in taken.iter().zip(&mut filling.objects[filling.got..]) {
                *place = Some(self.shared.pointer(object));
            }
            filling.got += taken.len();
        });
        let filled = got == filling.objects.len();
        let mut back = if filled { Vec::new() } else { filling.take_back() };
        filling.got = 0;
        if !filled {
            self.shared.give_bulk(w, &mut back);
        }
        filled
    }

    /// Frees objects at once: into the sheaf by a copy, or those of one slab by one change of its word (the detached
    /// freelists of [brouer15-bulk]).
    ///
    /// # Errors
    /// As [`RawCache::free`]; then none was freed.
    ///
    /// # Safety
    /// As [`RawCache::free`], for each.
    #[inline]
    #[track_caller]
    pub unsafe fn free_bulk(&self, w: &mut Worker, objects: &mut [NonNull<u8>]) -> Result<(), Misuse> {
        let kept = self.shared.keep_hot_bulk(w, objects, |&object| self.tagged(object));
        if kept == objects.len() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { free_all(&*self.shared, Some(w), &objects[kept..], Site::caller()) }
    }

    /// Frees objects one by one: the plain loop, for comparison.
    ///
    /// # Errors
    /// As [`RawCache::free`], for the first; the objects before it were freed.
    ///
    /// # Safety
    /// As [`RawCache::free`], for each.
    #[inline]
    #[track_caller]
    pub unsafe fn free_each(&self, w: &mut Worker, objects: &[NonNull<u8>]) -> Result<(), Misuse> {
        // SAFETY: the caller's promise.
        objects.iter().try_for_each(|&object| unsafe { self.free(w, object) })
    }

    /// Frees an object of any cache without a worker: one change of a word.
    ///
    /// # Errors
    /// As [`RawCache::free`].
    ///
    /// # Safety
    /// The object belongs to a cache of a memory that lives, is out, and is not used after this.
    #[cold]
    #[track_caller]
    pub unsafe fn release(object: NonNull<u8>) -> Result<(), Misuse> {
        // SAFETY: the object is out, and so are its slab's pages.
        let cache = registry::cache_at(unsafe { registry::number_at(object) });
        if cache.is_null() {
            return Err(Misuse::outside(object));
        }
        // SAFETY: the caller's promise; the object keeps the cache.
        unsafe { free_all(cache, None, &[object], Site::caller()) }
    }
}

/// An array that is being filled with objects. A drop gives the objects back: the page stage's callback, which is the
/// caller's code, may panic.
struct Filling<'a> {
    cache: &'a RawCache,
    objects: &'a mut [Option<NonNull<u8>>],
    got: usize,
}

impl Filling<'_> {
    /// Takes the objects so far out of the array, and returns them tagged.
    #[cold]
    fn take_back(&mut self) -> Vec<Ref> {
        let got = self.objects[..self.got].iter_mut();
        got.filter_map(Option::take).map(|object| self.cache.tagged(object)).collect()
    }
}

impl Drop for Filling<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.got > 0 {
            let mut back = self.take_back();
            self.cache.shared.undo(&mut back);
        }
    }
}

/// Does the same as [`grow::free_pointers`]. A panic during the call resumes when all objects are freed.
///
/// # Safety
/// As for that function.
#[cold]
unsafe fn free_all(
    cache: *const Shared,
    w: Option<&mut Worker>,
    objects: &[NonNull<u8>],
    site: Site,
) -> Result<(), Misuse> {
    let mut steps = Steps::new();
    // SAFETY: the caller's promise.
    let freed = unsafe { grow::free_pointers(cache, w, objects, site, &mut steps) };
    steps.end();
    freed
}

/// Frees objects of any caches in bulk (the form without a cache argument): consecutive objects of one cache are freed
/// together.
///
/// # Errors
/// As [`RawCache::free`]; the runs before the one that failed were freed.
///
/// # Safety
/// As [`RawCache::release`], for each.
#[track_caller]
pub unsafe fn free_bulk_any(w: &mut Worker, objects: &mut [NonNull<u8>]) -> Result<(), Misuse> {
    let mut steps = Steps::new();
    // SAFETY: the caller's promise.
    let freed = unsafe { free_runs(w, objects, Site::caller(), &mut steps) };
    steps.end();
    freed
}

/// Does the same as [`free_bulk_any`]. `steps` collects the panics when slabs are given back.
///
/// # Safety
/// As for that function.
unsafe fn free_runs(
    w: &mut Worker,
    objects: &mut [NonNull<u8>],
    site: Site,
    steps: &mut Steps,
) -> Result<(), Misuse> {
    let mut rest = &mut objects[..];
    while let Some(&first) = rest.first() {
        // SAFETY: the objects are out, and so are their slabs' pages.
        let number = |object: NonNull<u8>| unsafe { registry::number_at(object) };
        let of_first = number(first);
        let run = rest.iter().take_while(|&&object| number(object) == of_first).count();
        let cache = registry::cache_at(of_first);
        if cache.is_null() {
            return Err(Misuse::outside(first));
        }
        let (now, later) = rest.split_at_mut(run);
        // SAFETY: the caller's promise. The objects keep the cache until the last of them is on a freelist or in a
        // sheaf. In a sheaf, only a worker inside touches it, and a closing cache waits for that worker.
        unsafe { grow::free_pointers(cache, Some(w), now, site, steps)? };
        rest = later;
    }
    Ok(())
}
