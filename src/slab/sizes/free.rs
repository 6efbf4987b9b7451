//! Frees memory. The page's descriptor tells which cache a pointer belongs to.

use super::SizeClasses;
use super::large::{self, Found};
use crate::slab::{Misuse, RawCache, free_bulk_any};
use crate::sync::Worker;
use std::ptr::NonNull;

impl SizeClasses {
    /// Frees memory.
    ///
    /// # Errors
    /// [`Misuse`], if the caches have debug and report; the memory stays with the caller then. A pointer outside of all
    /// slabs and blocks is detected without debug too.
    ///
    /// # Safety
    /// `at` came from a `SizeClasses` of this memory, and its claim ends with this call, unless it fails.
    ///
    /// # Cost
    /// That of [`RawCache::free`], and the line of the page's descriptor that names the owner.
    #[inline]
    #[track_caller]
    pub unsafe fn free(&self, w: &mut Worker, at: NonNull<u8>) -> Result<(), Misuse> {
        match self.class_at(at) {
            // SAFETY: the caller's promise, and the slab is this cache's.
            Some(class) => unsafe { self.shared.classes[class].free(w, at) },
            // SAFETY: the caller's promise.
            None => unsafe { self.free_outside(w, at) },
        }
    }

    /// Frees memory that is not an object of these classes: a large block goes to the worker's lists, the rest is freed
    /// as without a worker.
    ///
    /// # Safety
    /// As [`SizeClasses::free`].
    #[cold]
    #[inline(never)]
    #[track_caller]
    unsafe fn free_outside(&self, w: &mut Worker, at: NonNull<u8>) -> Result<(), Misuse> {
        let memory = &self.shared.memory;
        match large::find(memory, at) {
            Found::Zero => Ok(()),
            Found::Block(number) => {
                // SAFETY: the caller's promise; a `SizeClasses` gave the block out.
                if let Some(page) = unsafe { large::claim(number) } {
                    memory.free(w, page);
                }
                Ok(())
            }
            // SAFETY: the caller's promise.
            Found::Object => unsafe { RawCache::release(at) },
            Found::Nothing => Err(Misuse::outside(at)),
        }
    }

    /// Frees memory from a thread without a worker, for any `SizeClasses` that it came from.
    ///
    /// # Errors
    /// [`Misuse`], if the cache has debug and reports; the memory stays with the caller then.
    ///
    /// # Safety
    /// `at` came from a `SizeClasses` of any memory, and its claim ends with this call, unless it fails.
    ///
    /// # Cost
    /// One or two locked instructions; a lock if a slab changes lists, and for large blocks.
    #[cold]
    #[track_caller]
    pub unsafe fn release(at: NonNull<u8>) -> Result<(), Misuse> {
        if at == SizeClasses::ZERO {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        match unsafe { large::block_of(at) } {
            Some(number) => {
                // SAFETY: the caller's promise; a `SizeClasses` gave the block out.
                drop(unsafe { large::claim(number) });
                Ok(())
            }
            // SAFETY: the caller's promise.
            None => unsafe { RawCache::release(at) },
        }
    }

    /// Frees allocations of any sizes at once: the objects of one slab are freed by one CAS. The array's order is not
    /// kept.
    ///
    /// # Errors
    /// As [`SizeClasses::free`], for the first misuse that is found; some of the others are freed then.
    ///
    /// # Safety
    /// As [`SizeClasses::free`] for each pointer.
    #[track_caller]
    pub unsafe fn free_bulk(&self, w: &mut Worker, pointers: &mut [NonNull<u8>]) -> Result<(), Misuse> {
        let mut objects = 0;
        for at in 0..pointers.len() {
            if self.class_at(pointers[at]).is_some() {
                pointers.swap(objects, at);
                objects += 1;
            }
        }
        let (objects, others) = pointers.split_at_mut(objects);
        let memory = &self.shared.memory;
        if let Some(&stray) = others.iter().find(|&&at| matches!(large::find(memory, at), Found::Nothing)) {
            return Err(Misuse::outside(stray));
        }
        // SAFETY: the caller's promise.
        unsafe {
            free_bulk_any(w, objects)?;
            others.iter().try_for_each(|&at| self.free_outside(w, at))
        }
    }
}
