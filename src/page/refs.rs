//! The count of claims on a shared block: the protocol alone, so that loom checks the very code.
//!
//! ```text
//!   0 ──begin──► 1 ◄──clone / release──► n
//!   ▲            │
//!   └──release, or end by the only holder
//! ```
//! A release that leaves one claim is told so ([`Left::One`]), and the one that leaves none ([`Left::Nothing`]) has
//! the block to itself, with all that former holders did to it visible. Exactly one release ends each time.
//!
//! One holder may begin with many claims and give pieces of them away without a count each, then release those that
//! are left at once (page_pool's bias).

use crate::sync::shim::{AtomicU32, fence};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Claims at most; far more than there is room for handles, so a count beyond it is a bug of the caller.
const MOST: u32 = 1 << 31;

/// What a release left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Two claims or more.
    Several,
    /// A claim of another holder, which may have dropped or cloned it already.
    One,
    /// No claim: the block is the caller's alone.
    Nothing,
}

/// The count of one block.
#[derive(Clone, Copy)]
pub(crate) struct Refs<'a>(pub(crate) &'a AtomicU32);

impl Refs<'_> {
    /// The first claim, by the one who has the block alone.
    #[inline]
    pub(crate) fn begin(self) {
        self.begin_with(1);
    }

    /// The first `claims`, by the one who has the block alone.
    #[inline]
    pub(crate) fn begin_with(self, claims: u32) {
        // Relaxed: whoever gets another claim gets it from these.
        self.0.store(claims, Relaxed);
    }

    /// One claim more, from one that is there.
    #[inline]
    pub(crate) fn clone_claim(self) {
        // Relaxed: the claim that this is made from keeps the block, as in `Arc`.
        if self.0.fetch_add(1, Relaxed) >= MOST {
            too_many();
        }
    }

    /// Gives one claim up.
    #[inline]
    pub(crate) fn release(self) -> Left {
        self.release_many(1)
    }

    /// Gives up `claims`, all of them the caller's.
    ///
    /// # Cost
    /// One locked instruction; none when there are no others.
    #[inline]
    pub(crate) fn release_many(self, claims: u32) -> Left {
        // Acquire: pairs with the Release of every former holder's release. No others: nobody can make any.
        if self.0.load(Acquire) == claims {
            self.0.store(0, Relaxed);
            return Left::Nothing;
        }
        // Release: what this holder did to the block is seen by the one who ends it.
        match self.0.fetch_sub(claims, Release).wrapping_sub(claims) {
            0 => {
                // Acquire: as above.
                fence(Acquire);
                Left::Nothing
            }
            1 => Left::One,
            _ => Left::Several,
        }
    }

    /// Ends the sharing if the caller's claim is the only one; true if it did.
    pub(crate) fn end(self) -> bool {
        // Acquire: pairs with the Release of every former holder's `release`.
        self.0.compare_exchange(1, 0, Acquire, Relaxed).is_ok()
    }

    /// Claims at this moment.
    pub(crate) fn count(self) -> u32 {
        self.0.load(Relaxed)
    }
}

#[cold]
#[inline(never)]
fn too_many() -> ! {
    eprintln!("netmem: more than 2^31 claims on one block: claims are cloned and forgotten");
    std::process::abort()
}
