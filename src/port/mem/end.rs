//! COLD: the end of the device. It leaves its end of the transmit ring to the port, which gives back the frames inside.

use super::MemPort;
use crate::port::posted::Posted;
use crate::ring::Borrower;
use crate::sync::shim::{AtomicBool, Mutex, lock};
use std::sync::atomic::Ordering::{Acquire, Release};

/// What a device leaves when it is dropped.
#[derive(Debug, Default)]
pub(super) struct DeviceEnd {
    is_left: AtomicBool,
    sending: Mutex<Option<Borrower<Posted>>>,
}

impl DeviceEnd {
    /// Leaves the device's end of the transmit ring. It is not used by the device any more.
    #[cold]
    pub(super) fn leave(&self, sending: Borrower<Posted>) {
        *lock(&self.sending) = Some(sending);
        // Release: pairs with the Acquire in `is_left`. A thread that sees it finds the ring's end, and the frames that were
        // delivered before.
        self.is_left.store(true, Release);
    }

    /// Returns whether the device was dropped.
    #[inline]
    pub(super) fn is_left(&self) -> bool {
        // Acquire: see `leave`.
        self.is_left.load(Acquire)
    }
}

impl MemPort {
    /// Notices that the device was dropped. Gives back the frames that it had not sent, for [`Complete::complete`] to
    /// claim, and counts them as lost. Returns true once.
    ///
    /// [`Complete::complete`]: crate::port::Complete::complete
    #[inline]
    pub(super) fn notice_end(&mut self) -> bool {
        self.device_end.is_left() && self.abandoned.is_none() && self.take_over()
    }

    #[cold]
    fn take_over(&mut self) -> bool {
        self.abandoned = lock(&self.device_end.sending).take();
        let Some(sending) = &mut self.abandoned else { return false };
        let unsent = sending.ready(usize::MAX);
        sending.give_back(unsent);
        self.counters.tx_lost.add(unsent as u64);
        true
    }

    /// Returns whether the port has noticed that it is down for good.
    #[inline]
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.is_some()
    }
}
