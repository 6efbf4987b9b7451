//! Objects that are constructed once and keep their value from one use to the next.

use super::config::{CacheConfig, CacheError};
use super::constructor::Constructor;
use super::controls::controls;
use super::debug::Site;
use super::object::Object;
use super::shared::Shared;
use super::slabs::pointer;
use crate::page::Memory;
use crate::sync::{Handle, Worker};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// A cache that constructs its objects when it makes a slab, and drops them when it gives the slab back.
///
/// An allocated object holds the value that its last user left. Use it for objects that are expensive to construct and
/// cheap to reset. The freelist word lies behind the object. The cache is never merged.
///
/// ```
/// # use netmem::{page::{Memory, MemoryConfig}, slab::{CacheConfig, ConstructedCache}};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let memory = Memory::new(&MemoryConfig { bytes: 2 << 20, ..Default::default() })?;
/// let mut w = memory.worker()?;
/// let cache = ConstructedCache::new(&memory, &CacheConfig::default(), || Vec::<u8>::with_capacity(1500))?;
/// let mut buffer = cache.alloc(&mut w).ok_or("no memory")?;
/// buffer.extend_from_slice(b"hello");
/// buffer.clear();
/// cache.free(&mut w, buffer);
/// assert_eq!(cache.alloc(&mut w).ok_or("no memory")?.capacity(), 1500);
/// # Ok(())
/// # }
/// ```
/// The values stay, so all handles must use the same type for them. A type with a shorter or a longer lifetime inside
/// is another type:
/// ```compile_fail,E0308
/// # use netmem::slab::ConstructedCache;
/// type Any = for<'a> fn(&'a str);
/// fn weaker(cache: ConstructedCache<Any>) -> ConstructedCache<fn(&'static str)> { cache }
/// ```
/// ```compile_fail,E0308
/// # use netmem::slab::ConstructedCache;
/// type Any = for<'a> fn(&'a str);
/// fn stronger(cache: ConstructedCache<fn(&'static str)>) -> ConstructedCache<Any> { cache }
/// ```
pub struct ConstructedCache<T> {
    shared: Handle<Shared>,
    /// Invariant in `T`: the cache keeps values, which come in and go out through all handles.
    _of: PhantomData<fn(T) -> T>,
}

impl<T> Clone for ConstructedCache<T> {
    fn clone(&self) -> Self {
        ConstructedCache { shared: self.shared.clone(), _of: PhantomData }
    }
}

/// An object of a [`ConstructedCache`]: eight bytes, move-only, derefs to the `T`; the value is kept when the object is
/// freed.
///
/// The next user reads what is written through it, as a value of the type with which the cache was made:
/// ```compile_fail,E0308
/// # use netmem::slab::Constructed;
/// type Any = for<'a> fn(&'a str);
/// fn weaker(object: Constructed<Any>) -> Constructed<fn(&'static str)> { object }
/// ```
/// ```compile_fail,E0308
/// # use netmem::slab::Constructed;
/// type Any = for<'a> fn(&'a str);
/// fn stronger(object: Constructed<fn(&'static str)>) -> Constructed<Any> { object }
/// ```
#[derive(Debug)]
#[must_use = "dropping it frees it on the slow path: give it back with a worker"]
pub struct Constructed<T> {
    object: ManuallyDrop<Object<T>>,
    /// Invariant in `T`, unlike an [`Object`], whose value ends with it.
    _of: PhantomData<fn(T) -> T>,
}

impl<T: Send + 'static> ConstructedCache<T> {
    /// Makes a cache whose objects `make` constructs.
    ///
    /// # Errors
    /// [`CacheError`]; nothing is left behind then.
    #[cold]
    pub fn new(
        memory: &Memory,
        config: &CacheConfig,
        make: impl Fn() -> T + Send + Sync + 'static,
    ) -> Result<Self, CacheError> {
        let make = move |at: NonNull<u8>| {
            // SAFETY: an object of the cache, laid out for a `T`, that no other code has yet.
            unsafe { at.cast::<T>().write(make()) }
        };
        let constructor = Constructor { make: Box::new(make), end: end::<T> };
        let size = size_of::<T>().max(1);
        let shared = Shared::create(memory, config.padded(size), align_of::<T>(), config, Some(constructor))?;
        Ok(ConstructedCache { shared, _of: PhantomData })
    }

    /// Allocates an object as its last user left it, or as it was constructed. Returns None if there is none and no
    /// slab can be made.
    ///
    /// # Cost
    /// As [`Cache::alloc`](super::Cache::alloc), and nothing is written.
    #[inline]
    #[track_caller]
    pub fn alloc(&self, w: &mut Worker) -> Option<Constructed<T>> {
        let object = self.shared.take(w)?;
        // SAFETY: constructed with its slab, and just taken off a list.
        let object = ManuallyDrop::new(unsafe { Object::adopt(object) });
        Some(Constructed { object, _of: PhantomData })
    }

    /// Frees the object with its value. An object of another cache goes back to that cache.
    ///
    /// A value is dropped when the cache gives its slab back, in whichever call that is. If the value's Drop panics,
    /// the call first gives back everything else.
    #[inline]
    #[track_caller]
    pub fn free(&self, w: &mut Worker, object: Constructed<T>) {
        if !self.shared.owns(object.object.tagged()) {
            return drop(object);
        }
        let tagged = object.object.tagged();
        std::mem::forget(object);
        self.shared.give(w, tagged);
    }
}

controls!(ConstructedCache<T>);

/// # Safety
/// A `T` was constructed there, and no code uses it.
unsafe fn end<T>(at: NonNull<u8>) {
    // SAFETY: the caller's promise.
    unsafe { pointer(at.addr().get() as u64).cast::<T>().drop_in_place() }
}

impl<T> Deref for Constructed<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T> DerefMut for Constructed<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.object
    }
}

impl<T> Drop for Constructed<T> {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        // SAFETY: the claim was this object's and ends here; the value stays.
        unsafe { Shared::free_from_anywhere(self.object.tagged(), Some(Site::DROPPED)) }
    }
}
