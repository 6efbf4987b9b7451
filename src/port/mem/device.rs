//! The other end of the link: it acts as the card and the cable.

use super::end::LinkEnd;
use crate::port::PortCounters;
use crate::port::posted::Posted;
use crate::ring::Borrower;
use crate::sync::Doorbell;
use std::sync::Arc;

/// The device at the other end of a [`MemPort`](super::MemPort). Move it to the thread that plays the network.
///
/// When it is dropped, the port is down for good ([`Port::is_failed`](crate::port::Port::is_failed)), and a worker that
/// sleeps on the port wakes. Frames that it had delivered are still received. All frames that it had to send come back by
/// [`Complete::complete`](crate::port::Complete::complete), and those that it had not sent count in
/// [`PortCounters::tx_lost`]. Empty frames that it had stay posted until the port is dropped.
#[derive(Debug)]
pub struct MemDevice {
    /// Empty frames to receive into.
    filling: Borrower<Posted>,
    /// Frames to send. None once the device is being dropped.
    sending: Option<Borrower<Posted>>,
    /// Number of frames sent and not yet given back: the first of `sending`.
    sent: usize,
    coalesce: usize,
    /// Wakes the port's worker.
    bell: Arc<Doorbell>,
    /// The port's counters. The device counts events that the port cannot see.
    counters: Arc<PortCounters>,
    /// Where it leaves its end of the transmit ring.
    end: Arc<LinkEnd<Posted>>,
}

impl MemDevice {
    pub(super) fn new(
        (filling, sending): (Borrower<Posted>, Borrower<Posted>),
        coalesce: usize,
        bell: Arc<Doorbell>,
        counters: Arc<PortCounters>,
        end: Arc<LinkEnd<Posted>>,
    ) -> Self {
        MemDevice { filling, sending: Some(sending), sent: 0, coalesce, bell, counters, end }
    }

    /// Delivers up to `n` frames to the port. It takes that many posted frames and calls `write` for the room of each,
    /// which returns the number of bytes written. Then it hands the frames over. Returns the number of frames
    /// delivered. It is less than `n` if too few frames are posted, as on a paused link.
    ///
    /// The room holds old content of earlier uses of the frame. The port's worker gets the first bytes of it, as many
    /// as `write` returns, and no more than the room. Bytes that `write` counts and did not write are old content. If
    /// `write` panics, none of these frames is delivered, and they stay posted.
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
    /// Completes earlier frames if enough have gathered or there is nothing to send. If `read` panics, the frame that it
    /// got is not sent.
    pub fn collect(&mut self, n: usize, mut read: impl FnMut(&[u8])) -> usize {
        let Some(sending) = &mut self.sending else { return 0 };
        let n = sending.ready(self.sent.saturating_add(n)) - self.sent;
        for _ in 0..n {
            sending.item(self.sent, |posted| read(posted.frame().data()));
            self.sent += 1;
        }
        if self.sent > 0 && (n == 0 || self.sent >= self.coalesce) {
            sending.give_back(std::mem::take(&mut self.sent));
            self.bell.ring();
        }
        n
    }

    /// Number of frames sent and not yet completed.
    pub fn pending(&self) -> usize {
        self.sent
    }
}

impl Drop for MemDevice {
    #[cold]
    fn drop(&mut self) {
        let Some(mut sending) = self.sending.take() else { return };
        sending.give_back(self.sent);
        let unsent = self.end.leave(sending);
        // With none, the port may be there. It is then the one that writes this counter.
        if unsent > 0 {
            self.counters.tx_lost.add(unsent as u64);
        }
        self.bell.ring();
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
