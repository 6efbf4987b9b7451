//! The other end of the link: it acts as the card and the cable.

use crate::port::PortCounters;
use crate::port::posted::Posted;
use crate::ring::Borrower;
use crate::sync::Doorbell;
use std::sync::Arc;

/// The device at the other end of a [`MemPort`](super::MemPort). Move it to the thread that plays the network.
#[derive(Debug)]
pub struct MemDevice {
    /// Empty frames to receive into.
    filling: Borrower<Posted>,
    /// Frames to send.
    sending: Borrower<Posted>,
    /// Number of frames sent and not yet given back: the first of `sending`.
    sent: usize,
    coalesce: usize,
    /// Wakes the port's worker.
    bell: Arc<Doorbell>,
    /// The port's counters. The device counts events that the port cannot see.
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

    /// Delivers up to `n` frames to the port. It takes that many posted frames and calls `write` for the room of each,
    /// which returns the number of bytes written. Then it hands the frames over. Returns the number of frames
    /// delivered. It is less than `n` if too few frames are posted, as on a paused link.
    ///
    /// The room holds old content of earlier uses of the frame. The port's worker gets the first bytes of it, as many
    /// as `write` returns, and no more than the room. Bytes that `write` counts and did not write are old content.
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

    /// As [`MemDevice::deliver`], on a link that cannot be paused: packets that find no posted frame are dropped and
    /// counted, as by a card. Returns the number of frames delivered.
    pub fn deliver_or_drop(&mut self, n: usize, write: impl FnMut(&mut [u8]) -> usize) -> usize {
        let delivered = self.deliver(n, write);
        self.counters.rx_no_frame.add((n - delivered) as u64);
        delivered
    }

    /// Sends up to `n` of the frames that the port transmitted. `read` gets the bytes of each. Returns the number of
    /// frames sent.
    ///
    /// Completes earlier frames if enough have gathered or there is nothing to send.
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

    /// Number of frames sent and not yet completed.
    pub fn pending(&self) -> usize {
        self.sent
    }
}

/// Writes a received packet into a posted frame. The device has all the room behind the frame's start.
#[inline]
fn receive(posted: &mut Posted, write: &mut impl FnMut(&mut [u8]) -> usize) {
    let frame = posted.frame();
    // `put` of the whole tailroom and `trim` to fewer bytes cannot fail.
    let _ = frame.put(frame.tailroom());
    let len = write(frame.data_mut()).min(frame.len());
    let _ = frame.trim(len);
}
