//! The account of what readers pin.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Bytes of frames that readers pin, and how many they may.
#[derive(Debug)]
pub struct Account {
    bound: usize,
    pinned: AtomicUsize,
}

/// Bytes that an account has as pinned, until this is dropped.
#[derive(Debug)]
pub struct Counted {
    account: Arc<Account>,
    bytes: usize,
}

impl Account {
    pub fn new(bound: usize) -> Account {
        Account { bound, pinned: AtomicUsize::new(0) }
    }

    pub fn pinned(&self) -> usize {
        self.pinned.load(Relaxed)
    }

    /// Whether so many bytes more are too many.
    pub fn is_full_for(&self, bytes: usize) -> bool {
        self.sum(self.pinned(), bytes).is_none()
    }

    /// Counts bytes as pinned; None where they are too many.
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
        self.account.pinned.fetch_sub(self.bytes, Relaxed);
    }
}
