//! The count of claims on a shared block: the protocol alone, so that loom checks the very code.
//!
//! ```text
//!   0 ──begin──► 1 ◄──clone / release──► n
//!   ▲            │
//!   └──release, or end by the only holder
//! ```
//! A release that leaves one claim is told so ([`Left::One`]), and the one that leaves none ([`Left::Nothing`]) has
//! the block to itself, with all that former holders did to it visible. Exactly one release ends each time.

use crate::sync::shim::{AtomicU32, fence};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Claims at most; far more than there is room for handles, so a count beyond it is a bug of the caller.
const MOST: u32 = 1 << 31;

/// What a release left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Left {
    /// Two claims or more.
    Several,
    /// One claim, of somebody else; it may be gone or cloned already.
    One,
    /// No claim: the block is the caller's alone.
    Nothing,
}

/// The count of one block.
#[derive(Clone, Copy)]
pub(super) struct Refs<'a>(pub(super) &'a AtomicU32);

impl Refs<'_> {
    /// The first claim, by the one who has the block alone.
    pub(super) fn begin(self) {
        // Relaxed: whoever gets another claim gets it from this one.
        self.0.store(1, Relaxed);
    }

    /// One claim more, from one that is there.
    #[inline]
    pub(super) fn clone_claim(self) {
        // Relaxed: the claim that this is made from keeps the block, as in `Arc`.
        if self.0.fetch_add(1, Relaxed) >= MOST {
            too_many();
        }
    }

    /// Gives one claim up.
    #[inline]
    pub(super) fn release(self) -> Left {
        // Release: what this holder did to the block is seen by the one who ends it.
        match self.0.fetch_sub(1, Release) {
            1 => {
                // Acquire: pairs with the Release of every former holder's `release`.
                fence(Acquire);
                Left::Nothing
            }
            2 => Left::One,
            _ => Left::Several,
        }
    }

    /// Ends the sharing if the caller's claim is the only one; true if it did.
    pub(super) fn end(self) -> bool {
        // Acquire: pairs with the Release of every former holder's `release`.
        self.0.compare_exchange(1, 0, Acquire, Relaxed).is_ok()
    }

    /// Claims at this moment.
    pub(super) fn count(self) -> u32 {
        self.0.load(Relaxed)
    }
}

#[cold]
#[inline(never)]
fn too_many() -> ! {
    eprintln!("netmem: more than 2^31 claims on one page: claims are cloned and forgotten");
    std::process::abort()
}
