//! HOT: reuses frames of a pool without the pool.

use super::colour::Start;
use super::frame::Frame;
use super::frame_table::PoolNumbers;
use super::pool::Pool;
use super::shared::Shared;
use std::sync::atomic::Ordering::Relaxed;

impl Pool {
    /// Copies the state that recognises and resets this pool's frames, for a loop over many frames. The copy stays in
    /// registers, whatever the loop writes.
    #[inline(always)]
    pub(crate) fn renewal(&self) -> Renewal {
        let Shared { pool_numbers, renewable: number, start, .. } = &*self.shared;
        Renewal { pool_numbers: *pool_numbers, number: number.load(Relaxed), start: *start }
    }
}

impl Shared {
    /// Whether a frame of the pool may be used again without passing it.
    #[cold]
    pub(super) fn is_renewable(&self) -> bool {
        self.renewable.load(Relaxed) != 0
    }
}

/// See [`Pool::renewal`].
#[derive(Clone, Copy)]
pub(crate) struct Renewal {
    pool_numbers: PoolNumbers,
    number: u16,
    start: Start,
}

impl Renewal {
    /// Whether the frame belongs to this pool, and need not pass it before its next use.
    #[inline(always)]
    pub(crate) fn owns(self, frame: &Frame) -> bool {
        self.pool_numbers.of(frame.id()) == self.number
    }

    /// Resets a frame of this pool to the state of a newly allocated frame.
    #[inline(always)]
    pub(crate) fn begin_again(self, frame: &mut Frame) {
        frame.begin_at(self.start.of(frame.id().get()));
    }
}
