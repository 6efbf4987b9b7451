//! COLD: the end of a link. The device that is dropped leaves its end of the transmit ring to the port, which takes the
//! frames back that were not sent. If the port was dropped first, the device counts them.

use super::MemPort;
use crate::ring::Borrower;
use crate::sync::shim::{AtomicBool, Mutex, lock};
use std::mem;
use std::sync::atomic::Ordering::{Acquire, Release};

/// Which end of a link was dropped, shared by both ends.
#[derive(Debug)]
pub(super) struct LinkEnd<T> {
    /// The device was dropped while there was a port.
    is_device_gone: AtomicBool,
    dropped: Mutex<Dropped<T>>,
}

#[derive(Debug)]
enum Dropped<T> {
    Neither,
    /// The device, which left its end of the transmit ring.
    Device(Borrower<T>),
    /// The port, which may have taken that end.
    Port,
}

impl<T> LinkEnd<T> {
    pub(super) fn new() -> LinkEnd<T> {
        LinkEnd { is_device_gone: AtomicBool::new(false), dropped: Mutex::new(Dropped::Neither) }
    }

    /// Returns whether the device was dropped. Frames that it delivered before are found by a later look at their ring.
    #[inline]
    pub(super) fn is_device_gone(&self) -> bool {
        // Acquire: pairs with the Release in `leave`.
        self.is_device_gone.load(Acquire)
    }

    /// Leaves the device's end of the transmit ring to the port. Returns the number of frames in it that will not be sent,
    /// if there is no port that would count them.
    #[cold]
    pub(super) fn leave(&self, mut sending: Borrower<T>) -> usize {
        let mut dropped = lock(&self.dropped);
        if matches!(*dropped, Dropped::Port) {
            return give_back_all(&mut sending);
        }
        *dropped = Dropped::Device(sending);
        drop(dropped);
        // Release: pairs with the Acquire in `is_device_gone`. A thread that sees it finds the frames that were delivered.
        self.is_device_gone.store(true, Release);
        0
    }

    /// Gives the port the frames back that a dropped device had not sent. Returns their number.
    #[cold]
    pub(super) fn take_back(&self) -> usize {
        self.replace(Dropped::Neither)
    }

    /// As [`LinkEnd::take_back`], for a port that is dropped.
    #[cold]
    pub(super) fn close(&self) -> usize {
        self.replace(Dropped::Port)
    }

    fn replace(&self, by: Dropped<T>) -> usize {
        let before = mem::replace(&mut *lock(&self.dropped), by);
        if let Dropped::Device(mut sending) = before { give_back_all(&mut sending) } else { 0 }
    }
}

fn give_back_all<T>(sending: &mut Borrower<T>) -> usize {
    let unsent = sending.ready(usize::MAX);
    sending.give_back(unsent);
    unsent
}

impl Drop for MemPort {
    /// Counts the frames that were transmitted and not completed. They are freed with the ring.
    #[cold]
    fn drop(&mut self) {
        let unsent = self.end.close();
        // With none, the device may be there. It is then the one that writes this counter.
        if unsent > 0 {
            self.counters.tx_lost.add(unsent as u64);
        }
        self.counters.completed.add(self.tx.inside() as u64);
    }
}
