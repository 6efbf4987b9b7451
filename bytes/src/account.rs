//! The account of the memory that readers pin.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Bytes of frames that readers pin, and the maximum.
#[derive(Debug)]
pub struct Account {
    bound: usize,
    pinned: AtomicUsize,
}

/// Bytes that an account counts as pinned, until this is dropped.
#[derive(Debug)]
pub struct Counted {
    account: Arc<Account>,
    bytes: usize,
}

impl Account {
    /// Makes an account of at most `bound` pinned bytes.
    pub fn new(bound: usize) -> Account {
        Account { bound, pinned: AtomicUsize::new(0) }
    }

    /// The bytes that are pinned now.
    pub fn pinned(&self) -> usize {
        // Pairs with the Release of a drop: what is not counted any more has been freed.
        self.pinned.load(Acquire)
    }

    /// Returns whether that many more bytes would exceed the maximum.
    pub fn is_full_for(&self, bytes: usize) -> bool {
        self.sum(self.pinned(), bytes).is_none()
    }

    /// Counts bytes as pinned. Returns None if they would exceed the maximum.
    pub fn pin(self: &Arc<Account>, bytes: usize) -> Option<Counted> {
        self.pinned.fetch_update(Relaxed, Relaxed, |pinned| self.sum(pinned, bytes)).ok()?;
        Some(Counted { account: Arc::clone(self), bytes })
    }

    fn sum(&self, pinned: usize, more: usize) -> Option<usize> {
        pinned.checked_add(more).filter(|sum| *sum <= self.bound)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        // Pairs with the Acquire of `pinned`: the frame, which was dropped before, has been freed.
        self.account.pinned.fetch_sub(self.bytes, Release);
    }
}
