//! Ports whose device copies: a file, a socket, a character device.
//!
//! ```text
//!   fill ──► filled (a stack of empty frames) ── Device::receive: bytes come in ──► rx
//!   tx   ── Device::send: bytes go out ──► sent (a stack of full frames) ─────────► complete
//! ```
//! Such a device keeps no frame: a frame is posted while it lies in one of the two stacks, and the copy is made inside
//! [`Rx::rx`](super::Rx::rx) and [`Tx::tx`](super::Tx::tx), once, a burst at a time. [`PortCounters::copied`] counts it. What is received goes into
//! the frames that were posted last, those that a burst has room for, in the order in which they were posted.

mod complete;
mod fill;
mod rx_buffers;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

use super::{Port, PortCounters, PortState, Wake};
use crate::limits::FRAMES_MAX;
use crate::pool::{Frame, Place};
use crate::stats::Writer;
use crate::sync::Steps;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use rx_buffers::{RxBuffer, RxBuffers};

/// A device that moves bytes in and out by copying them.
pub trait Device: Send {
    /// The kind of port: `pcap`.
    fn kind(&self) -> &'static str;

    /// Receives into `rooms`, which are empty, from the first on; returns how many got data.
    ///
    /// What does not fit a room is dropped and counted here, never cut.
    fn receive(&mut self, rooms: &mut RxBuffers<'_>, counters: &Writer<PortCounters>) -> usize;

    /// Sends `frames` from the first on; returns how many were taken. One that is taken and refused by what lies
    /// behind counts in [`PortCounters::tx_invalid`].
    fn send(&mut self, frames: &[Frame], counters: &Writer<PortCounters>) -> usize;

    /// Whether [`Device::send`] hears what is left to be done to a frame: see [`Tx::carries_offloads`](super::Tx::carries_offloads).
    fn carries_offloads(&self) -> bool {
        false
    }

    /// As [`Rx::keep_offloads`](super::Rx::keep_offloads).
    fn keep_offloads(&mut self, keep: bool) -> bool {
        let _ = keep;
        false
    }

    /// A poll round ends: what was put off is done now.
    fn end_round(&mut self, _counters: &Writer<PortCounters>) {}

    /// The port goes: what was put off is done now, for the last time.
    fn close(&mut self, _counters: &Writer<PortCounters>) {}

    /// Adds what others have counted for it since the last time. Called where the counters are asked for, and once more
    /// before the device goes.
    fn publish(&self, _counters: &Writer<PortCounters>) {}

    /// Frames that wait to be received: see [`Rx::rx_pending`](super::Rx::rx_pending).
    fn rx_pending(&mut self, _counters: &Writer<PortCounters>) -> Option<usize> {
        None
    }

    /// Whether something can be received, asked before its worker sleeps.
    fn is_readable(&mut self, _counters: &Writer<PortCounters>) -> bool {
        false
    }

    /// The descriptor that becomes readable by what comes; None where there is none.
    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Whether a later [`Device::send`] may take what this one did not.
    ///
    /// By default while it carries frames: what lies behind may be full for a moment, with nothing in flight here.
    fn can_retry_tx(&self) -> bool {
        self.state() == PortState::Up
    }

    /// Whether nothing will be received any more: see [`Rx::rx_finished`](super::Rx::rx_finished).
    fn rx_finished(&self) -> bool {
        false
    }

    /// Whether it carries frames.
    fn state(&self) -> PortState;
}

/// A port over a [`Device`].
///
/// Dropped with frames inside, it sends them home.
#[derive(Debug)]
pub struct CopyingPort<D: Device> {
    name: String,
    device: D,
    /// Frames in each of the two stacks at most.
    size: usize,
    /// Empty frames, posted; the next to receive into is the last.
    filled: Vec<Frame>,
    /// Sent frames, posted until they are completed.
    sent: Vec<Frame>,
    counters: Writer<PortCounters>,
}

impl<D: Device> CopyingPort<D> {
    /// A port called `name` that has at most `size` frames posted in each direction. No pool has more than 4,194,304 frames, so
    /// room is made for no more.
    #[cold]
    pub fn new(name: String, device: D, size: usize) -> CopyingPort<D> {
        let stack = || Vec::with_capacity(size.min(FRAMES_MAX));
        CopyingPort { name, device, size, filled: stack(), sent: stack(), counters: Writer::default() }
    }

    /// What is behind it.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// What is behind it, to be set up.
    #[cfg(feature = "af-packet")]
    pub(super) fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }
}

impl<D: Device> Drop for CopyingPort<D> {
    fn drop(&mut self) {
        let mut steps = Steps::new();
        steps.run(|| self.device.close(&self.counters));
        steps.run(|| self.device.publish(&self.counters));
        // As `complete` would have given them back.
        self.counters.completed.add(self.sent.len() as u64);
        // Owned again, and then dropped with the stacks.
        for stack in [&self.filled, &self.sent] {
            Place::Posted.leave(None, stack);
            Place::Posted.take_back(None, stack);
        }
        steps.end();
    }
}

impl<D: Device> Wake for CopyingPort<D> {
    #[inline]
    fn kick(&mut self) {
        self.device.end_round(&self.counters);
    }

    fn arm(&mut self) -> bool {
        self.device.is_readable(&self.counters) || !self.sent.is_empty()
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        self.device.wakeup_fd()
    }
}

impl<D: Device> Port for CopyingPort<D> {
    fn name(&self) -> &str {
        &self.name
    }

    fn kind(&self) -> &'static str {
        self.device.kind()
    }

    fn state(&self) -> PortState {
        self.device.state()
    }

    fn counters(&self) -> Arc<PortCounters> {
        self.device.publish(&self.counters);
        self.counters.reader()
    }
}
