//! The count of claims on a shared block. This file has the protocol alone, so that loom checks the code that runs.
//!
//! ```text
//!   0 ──begin──► 1 ◄──clone / release──► n
//!   ▲            │
//!   └──release, or end by the only holder
//! ```
//! A release that leaves one claim returns [`Left::One`]. The release that leaves none returns [`Left::Nothing`]: its
//! caller then has the block alone, and sees everything that former holders did to it. Exactly one release ends each
//! time.
//!
//! One holder may begin with many claims, give some of them away without counting each, and release the rest at once
//! (page_pool's bias).

use crate::sync::shim::{AtomicU32, fence};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Maximum number of claims. It is far more than there is memory for handles, so a count beyond it is a bug of the
/// caller.
const MOST: u32 = 1 << 31;

/// The claims that a release left behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// Two claims or more.
    Several,
    /// A claim of another holder, which may have dropped or cloned it already.
    One,
    /// No claim: the caller has the block alone.
    Nothing,
}

/// The count of one block.
#[derive(Clone, Copy)]
pub(crate) struct Refs<'a>(pub(crate) &'a AtomicU32);

impl Refs<'_> {
    /// Makes the first claim. The caller has the block alone.
    #[inline]
    pub(crate) fn begin(self) {
        self.begin_with(1);
    }

    /// Makes the first `claims` claims. The caller has the block alone.
    #[inline]
    pub(crate) fn begin_with(self, claims: u32) {
        // Relaxed: every further claim is made from these.
        self.0.store(claims, Relaxed);
    }

    /// Makes one more claim from an existing claim.
    #[inline]
    pub(crate) fn clone_claim(self) {
        // Relaxed: the claim that this one is made from keeps the block, as in `Arc`.
        if self.0.fetch_add(1, Relaxed) >= MOST {
            too_many();
        }
    }

    /// Gives one claim up.
    #[inline]
    pub(crate) fn release(self) -> Left {
        self.release_many(1)
    }

    /// Gives up `claims` claims, all of them the caller's.
    ///
    /// # Cost
    /// One locked instruction; none if there are no other claims.
    #[inline]
    pub(crate) fn release_many(self, claims: u32) -> Left {
        // Acquire: pairs with the Release of every former holder's release. If there are no other claims, no thread can
        // make any.
        if self.0.load(Acquire) == claims {
            self.0.store(0, Relaxed);
            return Left::Nothing;
        }
        // Release: the holder that ends the sharing sees what this holder did to the block.
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

    /// Ends the sharing if the caller's claim is the only one. Returns true if it did.
    pub(crate) fn end(self) -> bool {
        // Acquire: pairs with the Release of every former holder's `release`.
        self.0.compare_exchange(1, 0, Acquire, Relaxed).is_ok()
    }

    /// The number of claims at this moment.
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
