//! Which pool the frames inside a device are of.
//!
//! A port counts what it posts and what comes back by pool. While all that is inside a queue is of one pool (the
//! usual case by far), neither direction looks a frame's pool up.

use super::batch::Batch;
use super::shared::Shared;
use crate::sync::Worker;
use std::ptr;

/// The frames inside one queue of a device: how many, and of which pool.
#[derive(Debug)]
pub(crate) struct Origin {
    inside: usize,
    /// Null, or the pool that all the frames inside are of, if there are any: they keep it.
    pool: *const Shared,
}

// SAFETY: the pointer is followed only while frames of that pool are inside or just claimed, which keep it; the pool
// itself is Sync.
unsafe impl Send for Origin {}

impl Origin {
    pub(crate) fn new() -> Origin {
        Origin { inside: 0, pool: ptr::null() }
    }

    /// Frames inside.
    pub(crate) fn inside(&self) -> usize {
        self.inside
    }

    pub(super) fn pool(&self) -> *const Shared {
        self.pool
    }

    /// Takes note that the first `n` frames of `batch` go to the device, just before their claims are given up:
    /// owned → posted.
    #[inline]
    pub(crate) fn post(&mut self, w: &Worker, batch: &Batch, n: usize) {
        batch.each_pool(n, |pool, n| {
            pool.lanes.add(w, n as u64, |lane| &lane.posted);
            if self.inside == 0 {
                self.pool = pool;
            } else if !ptr::eq(self.pool, pool) {
                self.pool = ptr::null();
            }
            self.inside += n;
        });
    }

    /// Takes note that the last `n` frames of `batch` came back, just after they were claimed: posted → owned.
    #[inline]
    pub(crate) fn unpost(&mut self, w: &Worker, batch: &Batch, n: usize) {
        let frames = &batch[batch.len() - n..];
        super::batch::each_pool(frames, self.pool, |pool, n| {
            pool.lanes.add(w, n as u64, |lane| &lane.unposted);
        });
        self.inside -= n;
    }
}
