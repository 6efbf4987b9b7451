//! Owners of shared pages: the callbacks for the release of the last claim on a page.
//!
//! [brouer17-pages] asks for it: "a destructor callback at refcount 0 (and a separate call allowing 1) that may steal
//! the page". The table belongs to the process and its entries stay for good. So an [`OwnerId`] is valid everywhere in
//! the process.

use super::page::Page;
use crate::sync::Worker;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Maximum number of owners in a process.
const OWNERS: usize = 255;
/// The number of the first owner in page descriptors. Lower numbers are those of slab caches.
pub(crate) const FIRST: u16 = 0xff00;

static TABLE: [OnceLock<Owner>; OWNERS] = [const { OnceLock::new() }; OWNERS];
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// The callbacks of an owner of pages. Both run on the releasing thread, with its worker if there is one at hand. No
/// lock is held, and the worker may be used.
#[derive(Debug, Clone, Copy)]
pub struct Owner {
    /// Called when the last claim is gone. It gets the page, which has no other claim, and the word that it was shared
    /// with. To keep the page, the callback stores it and returns None. A page that it returns is freed (by the worker,
    /// if there is one).
    pub release: fn(Option<&mut Worker>, Page, u64) -> Option<Page>,
    /// Called when a release left one claim on the page with this number and word. This is a hint to the holder of that
    /// claim that [`SharedPage::into_page`](super::SharedPage::into_page) is worth trying. The claim may be cloned or
    /// gone again when this runs.
    pub early: Option<fn(Option<&mut Worker>, NonZeroU32, u64)>,
}

/// The number of an owner that was registered.
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
        // The slot belongs to this call alone, so it is empty.
        let _ = TABLE[place].set(owner);
        Ok(OwnerId(FIRST + place as u16))
    }

    /// The number of the owner in a descriptor.
    pub(super) fn number(self) -> u16 {
        self.0
    }
}

/// The owner with this number in a descriptor.
pub(super) fn owner(number: u16) -> Option<&'static Owner> {
    TABLE.get(usize::from(number.checked_sub(FIRST)?))?.get()
}
