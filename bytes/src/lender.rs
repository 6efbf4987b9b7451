//! Who lends frames, and what its readers pin.

use crate::account::{Account, Counted};
use bytes::Bytes;
use netmem::limits::CACHE_LINE;
use netmem::packet::CopyBreak;
use netmem::{Pool, SharedFrame, Worker};
use std::ops::RangeBounds;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Lends frames as [`Bytes`], and bounds what their readers pin; see [the crate](crate). Its clones are one lender.
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
    // Dropped first: what is counted as given back is home.
    frame: SharedFrame,
    _counted: Counted,
}

impl AsRef<[u8]> for LentFrame {
    fn as_ref(&self) -> &[u8] {
        self.frame.data()
    }
}

impl Lender {
    /// One for frames of `pool`, whose readers pin at most `bound` bytes of frames; 0 copies all.
    pub fn new(pool: &Pool, bound: usize) -> Lender {
        let (account, copied) = (Arc::new(Account::new(bound)), AtomicU64::new(0));
        Lender(Arc::new(Terms { frame_size: pool.frame_size(), account, copied }))
    }

    /// The data of a frame or of a piece of one ([`Frame::share`](netmem::Frame::share), [`Fragment::share`](netmem::pool::Fragment::share)), as it is; a
    /// copy of it where the bound is reached, and then the claim is freed. To lend a part, narrow the claim first ([`SharedFrame::pull`],
    /// [`SharedFrame::trim`]).
    ///
    /// Several claims on one frame count as several frames. What is left to be done to the data ([`SharedFrame::offload`]) is not done.
    ///
    /// # Cost
    /// An allocation of the program's own allocator, of about 50 bytes, or of the copy's length.
    pub fn lend(&self, w: &mut Worker, frame: SharedFrame) -> Bytes {
        self.try_lend(frame).unwrap_or_else(|frame| {
            let copy = self.copy(frame.data());
            frame.free(w);
            copy
        })
    }

    /// As [`Lender::lend`], for tasks that have no worker.
    ///
    /// # Errors
    /// The claim again, where the bound is reached.
    pub fn try_lend(&self, frame: SharedFrame) -> Result<Bytes, SharedFrame> {
        let Some(counted) = self.0.account.pin(frame.pinned()) else { return Err(frame) };
        Ok(Bytes::from_owner(LentFrame { frame, _counted: counted }))
    }

    /// A part of what was lent, to be kept when the rest is dropped: shared with it, or, where the bound is reached and the part is small, copied.
    ///
    /// # Panics
    /// Where `range` is not within `bytes`, as [`Bytes::slice`] does.
    pub fn part(&self, bytes: &Bytes, range: impl RangeBounds<usize>) -> Bytes {
        let part = bytes.slice(range);
        if self.is_reached() && self.is_small(part.len()) { self.copy(&part) } else { part }
    }

    /// Bytes of frames that readers pin now.
    pub fn pinned(&self) -> usize {
        self.0.account.pinned()
    }

    /// Copies that were made since the lender was.
    pub fn copied(&self) -> u64 {
        self.0.copied.load(Relaxed)
    }

    /// Whether the next frame would be copied.
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
