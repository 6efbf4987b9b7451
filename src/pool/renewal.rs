//! HOT: frames of a pool that are used again without the pool.

use super::colour::Start;
use super::frame::Frame;
use super::frame_table::Homes;
use super::pool::Pool;
use super::shared::Shared;

impl Pool {
    /// What tells this pool's frames and makes them new, for a loop over many: in registers, whatever the loop writes.
    #[inline(always)]
    pub(crate) fn renewal(&self) -> Renewal {
        let Shared { homes, renewable: number, start, .. } = &*self.shared;
        Renewal { homes: *homes, number: *number, start: *start }
    }
}

/// See [`Pool::renewal`].
#[derive(Clone, Copy)]
pub(crate) struct Renewal {
    homes: Homes,
    number: u16,
    start: Start,
}

impl Renewal {
    /// Whether the frame is of this pool, and need not be cleared before its next use.
    #[inline(always)]
    pub(crate) fn owns(self, frame: &Frame) -> bool {
        self.homes.of(frame.id()) == self.number
    }

    /// Makes a frame of this pool as it is when just allocated.
    #[inline(always)]
    pub(crate) fn begin_again(self, frame: &mut Frame) {
        frame.begin_at(self.start.of(frame.id().get()));
    }
}
