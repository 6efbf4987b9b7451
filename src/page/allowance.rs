//! The bytes that the slab caches of a memory may keep as free objects with demand, all together.

use crate::sync::shim::AtomicU64;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// The share of the memory: an eighth.
const SHARE: usize = 8;

/// The bytes that are left of the share.
#[derive(Debug)]
pub(crate) struct Allowance(AtomicU64);

impl Allowance {
    /// Makes the allowance of a memory of so many bytes.
    pub(super) fn of(memory: usize) -> Arc<Allowance> {
        Arc::new(Allowance(AtomicU64::new((memory / SHARE) as u64)))
    }

    /// Takes `bytes`. Returns false, and takes none, if fewer are left.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes as u64)).is_ok()
    }

    /// Gives back bytes that were taken.
    pub(crate) fn give(&self, bytes: usize) {
        self.0.fetch_add(bytes as u64, Relaxed);
    }
}
