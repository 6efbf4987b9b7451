//! The wire's side: what a card and the cable do.

use crate::port::PortCounters;
use crate::port::posted::Posted;
use crate::ring::{Receiver, Sender};
use std::collections::VecDeque;
use std::sync::Arc;

/// The device at the other side of a [`MemPort`](super::MemPort); moves to whatever thread plays the network.
#[derive(Debug)]
pub struct MemDevice {
    fill: Receiver<Posted>,
    rx: Sender<Posted>,
    tx: Receiver<Posted>,
    complete: Sender<Posted>,
    /// Written and not yet handed over; empty between calls.
    filled: Vec<Posted>,
    /// Sent and not yet completed; never more than the completion ring is long.
    sent: VecDeque<Posted>,
    coalesce: usize,
    /// The port's: the device counts what the port cannot see.
    counters: Arc<PortCounters>,
}

impl MemDevice {
    pub(super) fn new(
        fill: Receiver<Posted>,
        rx: Sender<Posted>,
        tx: Receiver<Posted>,
        complete: Sender<Posted>,
        coalesce: usize,
        counters: Arc<PortCounters>,
    ) -> Self {
        let sent = VecDeque::with_capacity(complete.capacity());
        let filled = Vec::with_capacity(rx.capacity());
        MemDevice { fill, rx, tx, complete, filled, sent, coalesce, counters }
    }

    /// Delivers up to `n` frames to the port: takes that many posted frames, has `write` fill the room of each
    /// (it returns the bytes written), and hands them over. Returns how many were delivered: fewer when the
    /// fill ring is short of frames or the receive ring of places, as a paused link would.
    pub fn deliver(&mut self, n: usize, mut write: impl FnMut(&mut [u8]) -> usize) -> usize {
        let n = self.rx.room(n);
        let Self { fill, filled, .. } = self;
        fill.recv_burst(n, |posted| filled.push(receive(posted, &mut write)));
        self.rx.send_burst(n, &mut self.filled.drain(..))
    }

    /// As [`MemDevice::deliver`] on a link that cannot be paused: what finds no frame or no place is dropped
    /// and counted as the card would. Returns how many were delivered.
    pub fn deliver_or_drop(&mut self, n: usize, write: impl FnMut(&mut [u8]) -> usize) -> usize {
        let delivered = self.deliver(n, write);
        let starved = self.fill.ready(1) == 0;
        let cause = if starved { &self.counters.rx_no_frame } else { &self.counters.rx_ring_full };
        cause.add((n - delivered) as u64);
        delivered
    }

    /// Sends up to `n` of the frames that the port transmitted: `read` sees each one's bytes. Returns how many.
    ///
    /// Completes earlier ones, when enough have gathered or there is nothing to send.
    pub fn collect(&mut self, n: usize, mut read: impl FnMut(&[u8])) -> usize {
        let room = self.complete.capacity() - self.sent.len();
        let Self { tx, sent, .. } = self;
        let collected = tx.recv_burst(n.min(room), |mut posted| {
            read(posted.frame().data());
            sent.push_back(posted);
        });
        if collected == 0 || self.sent.len() >= self.coalesce {
            self.complete_sent();
        }
        collected
    }

    /// Frames that the port transmitted and the device has not completed yet, as far as it has seen.
    pub fn pending(&self) -> usize {
        self.sent.len()
    }

    fn complete_sent(&mut self) {
        let n = self.complete.room(self.sent.len());
        self.complete.send_burst(n, &mut self.sent.drain(..n));
    }
}

/// Writes a received packet into a posted frame: all of the room behind its start is the device's.
#[inline]
fn receive(mut posted: Posted, write: &mut impl FnMut(&mut [u8]) -> usize) -> Posted {
    let frame = posted.frame();
    // `put` by the room there is and `trim` to fewer cannot fail.
    let _ = frame.put(frame.tailroom());
    let len = write(frame.data_mut()).min(frame.len());
    let _ = frame.trim(len);
    posted
}
