//! The lender of frames, and the memory that its readers pin.

use crate::account::{Account, Counted};
use bytes::Bytes;
use netmem::limits::CACHE_LINE;
use netmem::packet::CopyBreak;
use netmem::{Pool, SharedFrame, Worker};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lends frames as [`Bytes`], and bounds the memory that their readers pin; see [the crate](crate). All clones are one
/// lender.
#[derive(Debug, Clone)]
pub struct Lender(Arc<Terms>);

#[derive(Debug)]
struct Terms {
    frame_size: usize,
    account: Arc<Account>,
    copied: AtomicU64,
}

/// A claim on a frame, as the owner of `Bytes`.
struct LentFrame {
    // Dropped first, so that a frame counted as given back has been freed.
    frame: SharedFrame,
    _counted: Counted,
}

impl AsRef<[u8]> for LentFrame {
    fn as_ref(&self) -> &[u8] {
        self.frame.data()
    }
}

impl Lender {
    /// Makes a lender for frames of `pool`, whose readers pin at most `bound` bytes of frames. 0 copies all.
    pub fn new(pool: &Pool, bound: usize) -> Lender {
        let (account, copied) = (Arc::new(Account::new(bound)), AtomicU64::new(0));
        Lender(Arc::new(Terms { frame_size: pool.frame_size(), account, copied }))
    }

    /// Lends the data of a frame or of a piece of one ([`Frame::share`](netmem::Frame::share),
    /// [`Fragment::share`](netmem::pool::Fragment::share)) without a copy. If the bound is reached, returns a copy, and
    /// the claim is freed. To lend a part, narrow the claim first ([`SharedFrame::pull`], [`SharedFrame::trim`]).
    ///
    /// Several claims on one frame count as several frames. Open offload work of the data ([`SharedFrame::offload`]) is
    /// not done.
    ///
    /// # Cost
    /// One allocation by the program's own allocator, of about 50 bytes, or of the copy's length.
    pub fn lend(&self, w: &mut Worker, frame: SharedFrame) -> Bytes {
        self.try_lend(frame).unwrap_or_else(|frame| {
            let copy = self.copy(frame.data());
            frame.free(w);
            copy
        })
    }

    /// As [`Lender::lend`], for tasks without a worker.
    ///
    /// # Errors
    /// Returns the claim if the bound is reached.
    pub fn try_lend(&self, frame: SharedFrame) -> Result<Bytes, SharedFrame> {
        let Some(counted) = self.0.account.pin(frame.pinned()) else { return Err(frame) };
        Ok(Bytes::from_owner(LentFrame { frame, _counted: counted }))
    }

    /// Returns a part of lent bytes that will be kept after the rest is dropped. It is shared with the rest. If the
    /// bound is reached and the part is small, it is copied.
    ///
    /// # Panics
    /// Panics if `range` is not within `bytes`, as [`Bytes::slice`] does.
    pub fn part(&self, bytes: &Bytes, range: impl RangeBounds<usize>) -> Bytes {
        let part = bytes.slice(range);
        if self.is_reached() && self.is_small(part.len()) { self.copy(&part) } else { part }
    }

    /// Bytes of frames that readers pin now.
    pub fn pinned(&self) -> usize {
        self.0.account.pinned()
    }

    /// Number of copies made since the lender was made.
    pub fn copied(&self) -> u64 {
        self.0.copied.load(Relaxed)
    }

    /// Returns whether the next frame would be copied.
    fn is_reached(&self) -> bool {
        self.0.account.is_full_for(self.0.frame_size)
    }

    fn is_small(&self, len: usize) -> bool {
        self.0.frame_size > CopyBreak::BOUND * len.max(CACHE_LINE)
    }

    fn copy(&self, bytes: &[u8]) -> Bytes {
        self.0.copied.fetch_add(1, Relaxed);
        Bytes::copy_from_slice(bytes)
    }
}
