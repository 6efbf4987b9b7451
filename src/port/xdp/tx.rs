//! HOT: frames for the kernel to send.

use super::held::Held;
use super::{Fault, XdpPort, set_aside};
use crate::pool::{Batch, Frame, Place};
use crate::port::Tx;
use crate::ring::Corrupt;
use crate::ring::cursor::Producer;
use crate::sync::Worker;
use crate::sys::xdp::{Descriptor, Ring, SharedIndex};

/// Bytes of an Ethernet header. The kernel discards an empty descriptor without ever completing it, and no
/// driver takes less than a header.
const ETHERNET_HEADER: usize = 14;

/// Our end of the TX ring.
#[derive(Debug)]
pub(super) struct TxQueue {
    producer: Producer<SharedIndex>,
    ring: Ring<Descriptor>,
}

impl TxQueue {
    pub(super) fn new(ring: Ring<Descriptor>) -> TxQueue {
        TxQueue { producer: Producer::new(ring.producer(), ring.consumer(), ring.size()), ring }
    }

    /// Posts frames from the front of `frames`, all of which it [`carries`], while there is
    /// room; returns how many and their bytes.
    #[inline]
    pub(super) fn burst(
        &mut self,
        w: &Worker,
        sent: &mut Held,
        frames: &mut Batch,
    ) -> Result<(usize, u64), Corrupt> {
        let n = self.producer.room(frames.len() as u32)?;
        Place::Posted.enter_batch(w, frames, n as usize);
        let mut bytes = 0;
        for (i, frame) in (0..n).zip(frames.hand_over(Place::Posted, w, n as usize)) {
            let (off, len) = (frame.off() as u64, frame.len() as u32);
            bytes += u64::from(len);
            self.ring
                .write(self.producer.slot(i), Descriptor { addr: sent.post(frame) + off, len, options: 0 });
        }
        self.producer.publish(n);
        Ok((n as usize, bytes))
    }

    /// Frames that the kernel has not taken out of the ring yet.
    #[inline]
    pub(super) fn unsent(&mut self) -> Result<u32, Corrupt> {
        // To want all the room there can be makes the cursor look at the kernel's index.
        self.producer.room(self.ring.size()).map(|room| self.ring.size() - room)
    }

    /// Whether the kernel sends only when it is told to.
    #[inline]
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }

    /// The addresses that the kernel has not taken out of the ring. For teardown.
    #[cold]
    pub(super) fn unsent_addresses(&mut self) -> Result<Vec<u64>, Corrupt> {
        let unsent = self.unsent()?;
        // The slots just before the next free one.
        Ok((1..=unsent).map(|back| self.ring.read(self.producer.slot(back.wrapping_neg())).addr).collect())
    }
}

/// Whether the kernel would send this frame: it lies in the UMEM, all in its first chunk, complete, and is no shorter than a header.
#[inline]
fn carries(sent: &Held, frame: &Frame) -> bool {
    sent.takes(frame) && sent.reaches(frame) && frame.len() >= ETHERNET_HEADER
}

impl Tx for XdpPort {
    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        if self.link_down {
            return 0;
        }
        let Some(queues) = &mut self.queues else { return 0 };
        if !frames.iter().all(|frame| carries(&self.sent, frame)) {
            return self.tx_without_unsendable(w, frames);
        }
        match queues.tx.burst(w, &mut self.sent, frames) {
            Ok((n, bytes)) => {
                self.counters.tx.add(n as u64);
                self.counters.tx_bytes.add(bytes);
                n
            }
            Err(corrupt) => {
                self.fault(&Fault::Corrupt("TX", corrupt));
                0
            }
        }
    }

    fn tx_posted(&self) -> usize {
        self.sent.count()
    }

    #[cold]
    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        set_aside(frames, |frame| carries(&self.sent, frame))
    }
}

impl XdpPort {
    /// Sends the frames that can be sent; the others stay, behind those for which there is no room.
    #[cold]
    #[inline(never)]
    fn tx_without_unsendable(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        let mut stay = self.take_unsendable(frames);
        let foreign = stay.iter().filter(|frame| !self.sent.takes(frame)).count();
        self.counters.foreign.add(foreign as u64);
        self.counters.tx_invalid.add((stay.len() - foreign) as u64);
        let n = self.tx(w, frames);
        frames.append(&mut stay);
        n
    }
}
