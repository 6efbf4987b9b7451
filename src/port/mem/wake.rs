//! Wake-ups: the device's bell wakes the worker.

use super::MemPort;
use crate::port::Wake;
use std::mem;
use std::os::fd::{AsFd, BorrowedFd};

/// Number of frames of the next burst whose first lines are prefetched at the end of a round.
const NEXT: usize = 24;

impl Wake for MemPort {
    /// The device needs no wake-up: it polls. This prefetches the frames that the next round will receive
    /// first.
    fn kick(&mut self) {
        self.rx.prefetch_frames(NEXT);
    }

    /// Returns true once after the device was dropped, so that the worker looks at the state of the port.
    fn arm(&mut self) -> bool {
        self.bell.arm();
        let is_news = self.end.is_device_gone() && !mem::replace(&mut self.is_end_reported, true);
        is_news || self.rx.has_returned() || self.tx.has_returned()
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }

    fn disarm(&mut self) {
        self.bell.disarm();
    }
}
