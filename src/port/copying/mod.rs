//! This module has the ports whose device copies: a file, a socket, a character device.
//!
//! ```text
//!   fill ──► filled (a stack of empty frames) ── Device::receive: bytes come in ──► rx
//!   tx   ── Device::send: bytes go out ──► sent (a stack of full frames) ─────────► complete
//! ```
//! Such a device keeps no frame. A frame is posted while it lies in one of two stacks. The copy is made once, a burst
//! at a time, inside [`Rx::rx`](super::Rx::rx) and [`Tx::tx`](super::Tx::tx), and [`PortCounters::copied`] counts it.
//! Received bytes go into the frames that were posted last, as many as a burst has room for, in the order in which they
//! were posted.

mod complete;
mod fill;
mod rx_buffers;
mod rx;
#[cfg(test)]
mod tests;
mod tx;

use super::{Port, PortCounters, PortState, Wake};
use crate::limits::FRAMES_MAX;
use crate::pool::{Frame, FrameState};
use crate::stats::Writer;
use crate::sync::Steps;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

pub use rx_buffers::{RxBuffer, RxBuffers};

/// A device that moves bytes in and out by copying them.
pub trait Device: Send {
    /// The kind of port, such as `pcap`.
    fn kind(&self) -> &'static str;

    /// Receives into `rooms`, which are empty, from the first on. Returns how many got a packet. What is put into the others
    /// is dropped: they are empty again at the next call, also if this one panics. One that got a packet and has no data is
    /// received as an empty packet, which a capture or a socket may have.
    ///
    /// More than there are `rooms` violates the protocol: nothing is received, what is in the buffers counts in
    /// [`PortCounters::rx_dropped`], and the port is down for good.
    ///
    /// A packet that does not fit into a buffer is dropped and counted here, never truncated.
    fn receive(&mut self, rooms: &mut RxBuffers<'_>, counters: &Writer<PortCounters>) -> usize;

    /// Sends `frames` from the first on. Returns how many were taken. A frame that is taken and then refused by the
    /// file or socket counts in [`PortCounters::tx_invalid`].
    ///
    /// More than there are `frames` violates the protocol: none counts as taken, and the port is down for good.
    fn send(&mut self, frames: &[Frame], counters: &Writer<PortCounters>) -> usize;

    /// Returns whether [`Device::send`] handles the open offload work of a frame: see
    /// [`Tx::carries_offloads`](super::Tx::carries_offloads).
    fn carries_offloads(&self) -> bool {
        false
    }

    /// As [`Rx::keep_offloads`](super::Rx::keep_offloads).
    fn keep_offloads(&mut self, keep: bool) -> bool {
        let _ = keep;
        false
    }

    /// Ends a poll round: does the work that was put off.
    fn end_round(&mut self, _counters: &Writer<PortCounters>) {}

    /// Closes the port: does the work that was put off, for the last time.
    fn close(&mut self, _counters: &Writer<PortCounters>) {}

    /// Adds the counts that others (such as the kernel) have made for the device since the last call. It is called when
    /// the counters are read, and once more before the device is dropped.
    fn publish(&self, _counters: &Writer<PortCounters>) {}

    /// Frames that wait to be received: see [`Rx::rx_pending`](super::Rx::rx_pending).
    fn rx_pending(&mut self, _counters: &Writer<PortCounters>) -> Option<usize> {
        None
    }

    /// Returns whether anything can be received. The worker asks before it sleeps.
    fn is_readable(&mut self, _counters: &Writer<PortCounters>) -> bool {
        false
    }

    /// The descriptor that becomes readable when frames arrive; None if there is none.
    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns whether a later [`Device::send`] may take frames that this one did not.
    ///
    /// The default is true while the device carries frames: the file or socket may be full for a moment, with nothing
    /// in flight here.
    fn can_retry_tx(&self) -> bool {
        self.state() == PortState::Up
    }

    /// Returns whether nothing will be received any more: see [`Rx::rx_finished`](super::Rx::rx_finished).
    fn rx_finished(&self) -> bool {
        false
    }

    /// The state of the device: whether it carries frames.
    fn state(&self) -> PortState;

    /// Returns whether the device is down for good: see [`Port::is_failed`].
    fn is_failed(&self) -> bool {
        false
    }

    /// What the user of the port should know and is no failure: see [`Port::notice`].
    fn notice(&self) -> Option<String> {
        None
    }
}

/// A port over a [`Device`].
///
/// If it is dropped with frames inside, they are freed.
#[derive(Debug)]
pub struct CopyingPort<D: Device> {
    name: String,
    device: D,
    /// Maximum number of frames in each of the two stacks.
    size: usize,
    /// Empty posted frames; the last one is received into next.
    filled: Vec<Frame>,
    /// Sent frames, which stay posted until they are completed.
    sent: Vec<Frame>,
    counters: Writer<PortCounters>,
    /// The reason why the port is down for good: its device violated the protocol.
    violation: Option<String>,
}

impl<D: Device> CopyingPort<D> {
    /// Makes a port called `name`, which begins with the device's kind, as in `pcap:0`, with at most `size` frames posted in
    /// each direction. No pool has more than 4,194,304 frames, so no more room is made.
    #[cold]
    pub fn new(name: String, device: D, size: usize) -> CopyingPort<D> {
        let stack = || Vec::with_capacity(size.min(FRAMES_MAX));
        let counters = Writer::default();
        CopyingPort { name, device, size, filled: stack(), sent: stack(), counters, violation: None }
    }

    /// The device of the port. A `Box<dyn Port>` does not give it back: a program that boxes the port, for a forwarder, shares
    /// with its device before that what it needs later, such as an `Arc` of atomics.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device of the port, for calls of its own between those of the port. A device that is exchanged for another
    /// leaves as it is: only the one that is in the port at its end is closed.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Takes the port down for good: its device returned `said` from `call`, more than it was given.
    #[cold]
    #[inline(never)]
    fn take_down(&mut self, call: &str, said: usize, given: &str) {
        let kind = self.device.kind();
        self.counters.bad_descriptor.add(1);
        self.violation = Some(format!(
            "its device {kind} returned {said} from {call}, which had {given}: correct the device, and open the port again"
        ));
    }
}

impl<D: Device> Drop for CopyingPort<D> {
    fn drop(&mut self) {
        let mut steps = Steps::new();
        steps.run(|| self.device.close(&self.counters));
        steps.run(|| self.device.publish(&self.counters));
        // Counted as if `complete` had given them back.
        self.counters.completed.add(self.sent.len() as u64);
        // Claimed, then dropped with the stacks.
        for stack in [&self.filled, &self.sent] {
            FrameState::Posted.leave(None, stack);
            FrameState::Posted.take_back(None, stack);
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
        self.violation.is_none() && self.device.is_readable(&self.counters) || !self.sent.is_empty()
    }

    fn wakeup_fd(&self) -> Option<BorrowedFd<'_>> {
        if self.violation.is_some() { None } else { self.device.wakeup_fd() }
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
        self.violation.clone().map_or_else(|| self.device.state(), PortState::Down)
    }

    fn is_failed(&self) -> bool {
        self.violation.is_some() || self.device.is_failed()
    }

    fn notice(&self) -> Option<String> {
        self.device.notice()
    }

    fn counters(&self) -> Arc<PortCounters> {
        self.device.publish(&self.counters);
        self.counters.reader()
    }
}
