//! Owners of shared pages: who is called when the last claim on a page goes.
//!
//! [brouer17-pages] asks for it: "a destructor callback at refcount 0 (and a separate call allowing 1) that may steal the
//! page". The table is the process's and entries stay for good, so an [`OwnerId`] is valid wherever it gets to.

use super::page::Page;
use crate::sync::Worker;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Owners in one process at most.
const OWNERS: usize = 255;
/// The first owner's number in page descriptors; below are the slab caches'.
pub(crate) const FIRST: u16 = 0xff00;

static TABLE: [OnceLock<Owner>; OWNERS] = [const { OnceLock::new() }; OWNERS];
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The callback of an owner of pages. Both run on the thread that releases, with its worker where it has one at hand,
/// and inside of nothing: no lock is held, and the worker may be used.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// The last claim is gone: here is the page, yours alone again, and the word it was shared with. To keep it,
    /// put it somewhere and return None; the page that is returned is freed (by the worker, if there is one).
    pub release: fn(Option<&mut Worker>, Page, u64) -> Option<Page>,
    /// A release left one claim on the page with this number and word. A hint to whoever holds that claim that
    /// [`SharedPage::into_page`](super::SharedPage::into_page) is worth trying: it may be cloned or gone again
    /// when this runs.
    pub early: Option<fn(Option<&mut Worker>, NonZeroU32, u64)>,
}

/// An owner in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerId(u16);

/// Why no further owner can be registered.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnerError {
    /// The table is full.
    #[error(
        "this process has {OWNERS} page owners already: register each kind of owner once and tell pages apart by their word"
    )]
    Full,
}

impl OwnerId {
    /// Enters an owner into the table, for good.
    ///
    /// # Errors
    /// [`OwnerError::Full`].
    #[cold]
    pub fn register(owner: Owner) -> Result<OwnerId, OwnerError> {
        let free = |taken: usize| (taken < OWNERS).then_some(taken + 1);
        let place = TAKEN.fetch_update(Relaxed, Relaxed, free).map_err(|_| OwnerError::Full)?;
        // The place is this call's alone, so it is empty.
        let _ = TABLE[place].set(owner);
        Ok(OwnerId(FIRST + place as u16))
    }

    /// As it stands in a descriptor.
    pub(super) fn number(self) -> u16 {
        self.0
    }
}

/// The owner with this number in a descriptor.
pub(super) fn owner(number: u16) -> Option<&'static Owner> {
    TABLE.get(usize::from(number.checked_sub(FIRST)?))?.get()
}
