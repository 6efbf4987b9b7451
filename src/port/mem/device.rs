//! The wire's side: what a card and the cable do.

use crate::port::PortCounters;
use crate::port::posted::Posted;
use crate::ring::Borrower;
use crate::sync::Doorbell;
use std::sync::Arc;

/// The device at the other end of a [`MemPort`](super::MemPort); move it to the thread that plays the network.
#[derive(Debug)]
pub struct MemDevice {
    /// Empty frames to receive into.
    filling: Borrower<Posted>,
    /// Frames to send.
    sending: Borrower<Posted>,
    /// Frames sent and not yet given back: the first of `sending`.
    sent: usize,
    coalesce: usize,
    /// Wakes the port's worker.
    bell: Arc<Doorbell>,
    /// The port's: the device counts what the port cannot see.
    counters: Arc<PortCounters>,
}

impl MemDevice {
    pub(super) fn new(
        filling: Borrower<Posted>,
        sending: Borrower<Posted>,
        coalesce: usize,
        bell: Arc<Doorbell>,
        counters: Arc<PortCounters>,
    ) -> Self {
        MemDevice { filling, sending, sent: 0, coalesce, bell, counters }
    }

    /// Delivers up to `n` frames to the port: takes that many posted frames, has `write` fill the room of each
    /// (it returns the bytes written), and hands them over. Returns how many were delivered: fewer when too few are
    /// posted, as a paused link would.
    ///
    /// The room holds what earlier uses of the frame left there. Of it the port's worker gets the first bytes, as many as
    /// `write` says: those that it says and did not write are old ones.
    pub fn deliver(&mut self, n: usize, mut write: impl FnMut(&mut [u8]) -> usize) -> usize {
        let n = self.filling.ready(n);
        for i in 0..n {
            self.filling.item(i, |posted| receive(posted, &mut write));
        }
        self.filling.give_back(n);
        if n > 0 {
            self.bell.ring();
        }
        n
    }

    /// As [`MemDevice::deliver`] on a link that cannot be paused: what finds no posted frame is dropped and
    /// counted, as the card would. Returns how many were delivered.
    pub fn deliver_or_drop(&mut self, n: usize, write: impl FnMut(&mut [u8]) -> usize) -> usize {
        let delivered = self.deliver(n, write);
        self.counters.rx_no_frame.add((n - delivered) as u64);
        delivered
    }

    /// Sends up to `n` of the frames that the port transmitted: `read` sees each one's bytes. Returns how many.
    ///
    /// Completes earlier ones, when enough have gathered or there is nothing to send.
    pub fn collect(&mut self, n: usize, mut read: impl FnMut(&[u8])) -> usize {
        let n = self.sending.ready(self.sent.saturating_add(n)) - self.sent;
        for i in self.sent..self.sent + n {
            self.sending.item(i, |posted| read(posted.frame().data()));
        }
        self.sent += n;
        if self.sent > 0 && (n == 0 || self.sent >= self.coalesce) {
            self.sending.give_back(std::mem::take(&mut self.sent));
            self.bell.ring();
        }
        n
    }

    /// Frames sent and not yet completed.
    pub fn pending(&self) -> usize {
        self.sent
    }
}

/// Writes a received packet into a posted frame: all of the room behind its start is the device's.
#[inline]
fn receive(posted: &mut Posted, write: &mut impl FnMut(&mut [u8]) -> usize) {
    let frame = posted.frame();
    // `put` by the room there is and `trim` to fewer cannot fail.
    let _ = frame.put(frame.tailroom());
    let len = write(frame.data_mut()).min(frame.len());
    let _ = frame.trim(len);
}
