//! The checks of each object of a cache when it is given out and when it is freed, if the cache has checks.

use super::debug::{self, Layout, Locator, Misuse, Site, Track};
use super::hardened::HardenedObjects;
use std::ptr::NonNull;

/// The debug of one cache, or the hardening of its memory. A cache that has debug has no hardening.
#[derive(Debug)]
pub(super) enum Checker {
    Debug(debug::Checker),
    Hardened(HardenedObjects),
}

impl Checker {
    /// The layout of objects and of their freelist words. A slab of them may end with a guard page, which this does not
    /// include.
    pub(super) fn layout(&self) -> Layout {
        match self {
            Checker::Debug(checker) => checker.layout(),
            Checker::Hardened(objects) => objects.layout(),
        }
    }

    /// Prepares an object of a new slab, before it is on any list.
    ///
    /// # Safety
    /// `object` belongs to a slab with the layout of [`Checker::layout`], and to the caller alone.
    pub(super) unsafe fn init(&self, object: NonNull<u8>) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checker::Debug(checker) => checker.init(object),
                Checker::Hardened(objects) => objects.init(object),
            }
        }
    }

    /// Handles an object that is given out to a holder.
    ///
    /// # Safety
    /// `object` belongs to the cache, was prepared by [`Checker::init`], and was just taken off a list.
    pub(super) unsafe fn on_alloc(&self, object: NonNull<u8>, site: Site) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checker::Debug(checker) => checker.on_alloc(object, site),
                Checker::Hardened(objects) => objects.on_alloc(object, site),
            }
        }
    }

    /// Handles pointers that are freed. Checks all of them; then all are free, or nothing changes.
    ///
    /// # Errors
    /// The first misuse, if the cache reports. Otherwise the process has ended.
    ///
    /// # Safety
    /// If pointers are not checked, each is an object of the cache. The claims on the objects end with this call,
    /// unless it fails.
    pub(super) unsafe fn check_free(
        &self,
        locator: &Locator<'_>,
        pointers: &[NonNull<u8>],
        site: Site,
    ) -> Result<(), Misuse> {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checker::Debug(checker) => checker.check_free(locator, pointers, site),
                Checker::Hardened(objects) => objects.check_free(locator, pointers, site),
            }
        }
    }

    /// Handles the free of an object that is out according to its type. It never refuses the object.
    ///
    /// # Safety
    /// `object` belongs to the cache and is out, and its claim ends with this call.
    pub(super) unsafe fn on_free(&self, object: NonNull<u8>, site: Site) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Checker::Debug(checker) => checker.on_free(object, site),
                Checker::Hardened(objects) => objects.on_free(object, site),
            }
        }
    }

    /// Checks an object in any state, and changes nothing. Hardening has no mark that tells the state, and checks
    /// nothing here.
    ///
    /// # Errors
    /// The damage that was found.
    ///
    /// # Safety
    /// `object` belongs to the cache, was prepared by [`Checker::init`], and its slab is not given back during this
    /// call.
    pub(super) unsafe fn check(&self, object: NonNull<u8>) -> Result<(), Misuse> {
        match self {
            // SAFETY: the caller's promise.
            Checker::Debug(checker) => unsafe { checker.check(object) },
            Checker::Hardened(_) => Ok(()),
        }
    }

    /// The misuses that were found and repaired: the last 64, oldest first.
    pub(super) fn found(&self) -> Vec<Misuse> {
        match self {
            Checker::Debug(checker) => checker.found(),
            Checker::Hardened(objects) => objects.found(),
        }
    }

    /// The allocation site of an object that is out, if it is recorded.
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

    /// The options of debug. None if there is no debug.
    pub(super) fn debug_options(&self) -> Option<debug::DebugOptions> {
        match self {
            Checker::Debug(checker) => Some(checker.options()),
            Checker::Hardened(_) => None,
        }
    }
}
