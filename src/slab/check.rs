//! What looks at each object of a cache when it goes out and when it comes back, where anything does.

use super::debug::{self, Home, Layout, Misuse, Site, Track};
use super::hardened::HardenedObjects;
use std::ptr::NonNull;

/// Debug of the one cache, or the hardening of its memory. A cache that has debug has no other.
#[derive(Debug)]
pub(super) enum Checker {
    Debug(debug::Checker),
    Hardened(HardenedObjects),
}

impl Checker {
    /// Where objects lie, and where their freelist words. A slab of them may end with a guard page, of which this knows nothing.
    pub(super) fn layout(&self) -> Layout {
        match self {
            Checker::Debug(checker) => checker.layout(),
            Checker::Hardened(objects) => objects.layout(),
        }
    }

    /// Prepares an object of a new slab, before it is on any list.
    ///
    /// # Safety
    /// `object` is one of a slab that is laid out as [`Checker::layout`] says, and the caller's alone.
    pub(super) unsafe fn init(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checker::Debug(checker) => checker.init(object),
                Checker::Hardened(objects) => objects.init(object),
            }
        }
    }

    /// An object goes out to a holder.
    ///
    /// # Safety
    /// `object` is the cache's, prepared by [`Checker::init`], and was just taken off a list.
    pub(super) unsafe fn on_alloc(&self, object: NonNull<u8>, site: Site) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checker::Debug(checker) => checker.on_alloc(object, site),
                Checker::Hardened(objects) => objects.on_alloc(object, site),
            }
        }
    }

    /// Pointers come back: all of them are checked, then all are free; or nothing changes.
    ///
    /// # Errors
    /// The first misuse, where the cache reports; else the process has ended.
    ///
    /// # Safety
    /// Where pointers are not looked at, each is an object of the cache. The claims on the objects end with this call, unless it
    /// fails.
    pub(super) unsafe fn check_free(
        &self,
        home: &Home<'_>,
        pointers: &[NonNull<u8>],
        site: Site,
    ) -> Result<(), Misuse> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checker::Debug(checker) => checker.check_free(home, pointers, site),
                Checker::Hardened(objects) => objects.check_free(home, pointers, site),
            }
        }
    }

    /// An object that its type says is out comes back: it is never refused.
    ///
    /// # Safety
    /// `object` is the cache's and out, and its claim ends with this call.
    pub(super) unsafe fn on_free(&self, object: NonNull<u8>, site: Site) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checker::Debug(checker) => checker.on_free(object, site),
                Checker::Hardened(objects) => objects.on_free(object, site),
            }
        }
    }

    /// Checks an object in whatever state it is, and changes nothing. Hardening has no mark that says which state that is, and
    /// looks at nothing here.
    ///
    /// # Errors
    /// The damage that was found.
    ///
    /// # Safety
    /// `object` is the cache's, prepared by [`Checker::init`], and its slab is not given back meanwhile.
    pub(super) unsafe fn check(&self, object: NonNull<u8>) -> Result<(), Misuse> {
        match self {
            // SAFETY: the caller's promise.
            Checker::Debug(checker) => unsafe { checker.check(object) },
            Checker::Hardened(_) => Ok(()),
        }
    }

    /// What was found and mended: the last 64, oldest first.
    pub(super) fn found(&self) -> Vec<Misuse> {
        match self {
            Checker::Debug(checker) => checker.found(),
            Checker::Hardened(objects) => objects.found(),
        }
    }

    /// Who allocated an object that is out, where that is kept.
    ///
    /// # Safety
    /// As [`Checker::check`].
    pub(super) unsafe fn allocated(&self, object: NonNull<u8>) -> Option<Track> {
        match self {
            // SAFETY: the caller's promise.
            Checker::Debug(checker) => unsafe { checker.allocated(object) },
            Checker::Hardened(_) => None,
        }
    }

    /// What debug looks for; nothing where there is none.
    pub(super) fn debug_options(&self) -> Option<debug::DebugOptions> {
        match self {
            Checker::Debug(checker) => Some(checker.options()),
            Checker::Hardened(_) => None,
        }
    }
}
