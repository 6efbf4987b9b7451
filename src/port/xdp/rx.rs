//! HOT: frames the kernel has received into.

use super::gather::Limits;
use super::held::Held;
use super::{Fault, XdpPort};
use crate::pool::{Batch, Frame};
use crate::port::Rx;
use crate::ring::cursor::Consumer;
use crate::sync::Worker;
use crate::sys::xdp::{Descriptor, Ring, SharedIndex};
use crate::wire::offload::complete_checksum;

/// The next entry in the ring, behind those that were taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Unknown, or none.
    Any,
    /// A packet that continues in several descriptors, is longer than its link's packets, or is to be cut.
    Long,
}

/// The port's end of the RX ring.
#[derive(Debug)]
pub(super) struct RxQueue {
    consumer: Consumer<SharedIndex>,
    ring: Ring<Descriptor>,
}

impl RxQueue {
    pub(super) fn new(ring: Ring<Descriptor>) -> RxQueue {
        RxQueue { consumer: Consumer::new(ring.consumer(), ring.producer(), ring.size()), ring }
    }

    /// Appends received frames to `frames` while it has room. With `limits`, frames that are longer or to be cut are
    /// not among them.
    ///
    /// The kernel's address points behind its headroom, so it is rebased: chunk = address / 2048, offset = address %
    /// 2048. An address whose chunk is not in `filled` is a fault. The frames before it are valid.
    #[inline]
    pub(super) fn burst(
        &mut self,
        filled: &mut Held,
        frames: &mut Batch,
        limits: Option<Limits>,
    ) -> Result<Next, Fault> {
        let never_cut = limits.map_or(usize::MAX, Limits::never_cut);
        let ready = self.ready(frames.room() as u32)?;
        for i in 0..ready {
            let descriptor = self.read(i);
            let frame =
                if descriptor.options == 0 { filled.claim(descriptor.addr, descriptor.len) } else { None };
            let Some(frame) = frame else {
                self.release(i);
                return match descriptor.options {
                    Descriptor::CONTINUED => Ok(Next::Long),
                    _ => Err(Fault::Descriptor("RX", descriptor)),
                };
            };
            if frame.len() > never_cut && is_long(&frame, limits) {
                filled.post(frame);
                self.release(i);
                return Ok(Next::Long);
            }
            // There is room: no more frames were requested.
            let _ = frames.push(frame);
        }
        self.release(ready);
        Ok(Next::Any)
    }

    /// Number of descriptors that can be read, at most `most`.
    #[inline]
    pub(super) fn ready(&mut self, most: u32) -> Result<u32, Fault> {
        self.consumer.ready(most.min(self.ring.size())).map_err(|corrupt| Fault::Corrupt("RX", corrupt))
    }

    /// The descriptor at `i` of those that can be read.
    #[inline]
    pub(super) fn read(&self, i: u32) -> Descriptor {
        self.ring.read(self.consumer.slot(i))
    }

    /// Gives the first `n` of them back to the kernel.
    #[inline]
    pub(super) fn release(&mut self, n: u32) {
        self.consumer.release(n);
    }

    /// Number of slots of the ring.
    pub(super) fn size(&self) -> u32 {
        self.ring.size()
    }

    /// Number of packets that are there and have not been taken. For teardown.
    #[cold]
    pub(super) fn unread(&mut self) -> u64 {
        self.consumer.ready(self.ring.size()).unwrap_or(0).into()
    }

    /// Returns whether there is a frame to take, or an invalid index, which taking detects.
    pub(super) fn is_ready(&mut self) -> bool {
        self.consumer.ready(1) != Ok(0)
    }
}

/// Returns whether a frame is longer than its link's packets, or is to be cut.
#[cold]
#[inline(never)]
fn is_long(frame: &Frame, limits: Option<Limits>) -> bool {
    limits.is_some_and(|limits| limits.is_long(frame.data()))
}

impl XdpPort {
    /// Counts the frames that the caller gets. Returns their number.
    #[inline]
    pub(super) fn count_received(&self, received: &[Frame]) -> usize {
        if !received.is_empty() {
            self.counters.rx.add(received.len() as u64);
            self.counters.rx_bytes.add(received.iter().map(|frame| frame.len() as u64).sum());
        }
        received.len()
    }

    /// Takes a packet of several descriptors, one that is longer than its link's packets, or one that is to be cut.
    #[cold]
    #[inline(never)]
    fn receive_long(&mut self, w: &Worker, frames: &mut Batch) -> usize {
        match self.gather(w, frames) {
            Ok(n) => {
                self.return_spare();
                n
            }
            Err(fault) => {
                self.fault(&fault);
                0
            }
        }
    }

    /// Completes the checksums that senders left to a card, for the frames from `first` on.
    #[inline(never)]
    fn finish_checksums(&self, frames: &mut Batch, first: usize) {
        let finished = (first..frames.len()).filter(|&at| complete_checksum(frames.data_mut(at))).count();
        if finished > 0 {
            self.counters.csum_completed.add(finished as u64);
        }
    }
}

impl Rx for XdpPort {
    #[inline]
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        if self.gather.as_ref().is_some_and(|gather| gather.is_waiting()) {
            let n = self.hand_out(w, frames);
            self.return_spare();
            return n;
        }
        let Some(queues) = &mut self.queues else { return 0 };
        let (before, held) = (frames.len(), self.filled.count());
        let gather = self.gather.as_ref().filter(|_| self.may_be_unfinished);
        let limits = gather.map(|gather| gather.limits());
        let done = queues.rx.burst(&mut self.filled, frames, limits);
        if frames.len() > before {
            self.filled.taken_back(held, w, frames, before);
        }
        if self.may_be_unfinished {
            self.finish_checksums(frames, before);
        }
        let n = self.count_received(&frames[before..]);
        match done {
            Ok(Next::Any) => n,
            Ok(Next::Long) => n + self.receive_long(w, frames),
            Err(fault) => {
                self.fault(&fault);
                n
            }
        }
    }
}
