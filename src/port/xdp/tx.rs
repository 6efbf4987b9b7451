//! HOT: frames for the kernel to send.

use super::held::Held;
use super::{Fault, XdpPort, set_aside};
use crate::pool::{Batch, Frame, FrameState};
use crate::port::Tx;
use crate::ring::Corrupt;
use crate::ring::cursor::Producer;
use crate::sync::Worker;
use crate::sys::xdp::{Descriptor, Ring, SharedIndex};
use std::time::{Duration, Instant};

/// Maximum number of chunks that the kernel takes for one packet: the smallest configurable MAX_SKB_FRAGS, and the
/// packet's beginning.
pub(super) const CHUNKS_MAX: usize = 17;

/// Bytes of an Ethernet header. The kernel discards an empty descriptor without ever completing it, and no
/// driver takes less than a header.
const ETHERNET_HEADER: usize = 14;

/// The time between two questions for the MTU because of packets that are longer: a sender of such packets must not make
/// a system call of each burst.
const MTU_PAUSE: Duration = Duration::from_millis(100);

/// The port's end of the TX ring.
#[derive(Debug)]
pub(super) struct TxQueue {
    producer: Producer<SharedIndex>,
    ring: Ring<Descriptor>,
}

impl TxQueue {
    pub(super) fn new(ring: Ring<Descriptor>) -> TxQueue {
        TxQueue { producer: Producer::new(ring.producer(), ring.consumer(), ring.size()), ring }
    }

    /// Posts frames from the front of `frames`, all of which it carries in one descriptor each ([`is_usual`]), while
    /// there is room. Returns the number of frames and of their bytes.
    #[inline]
    pub(super) fn burst(
        &mut self,
        w: &Worker,
        sent: &mut Held,
        frames: &mut Batch,
    ) -> Result<(usize, u64), Corrupt> {
        let n = self.producer.room(frames.len() as u32)?;
        FrameState::Posted.enter_batch(w, frames, n as usize);
        let mut bytes = 0;
        for (i, frame) in (0..n).zip(frames.hand_over(FrameState::Posted, w, n as usize)) {
            let (off, len) = (frame.off() as u64, frame.len() as u32);
            bytes += u64::from(len);
            self.ring
                .write(self.producer.slot(i), Descriptor { addr: sent.post(frame) + off, len, options: 0 });
        }
        self.producer.publish(n);
        Ok((n as usize, bytes))
    }

    /// As [`TxQueue::burst`], for frames of which some need a descriptor for each chunk that they lie in. A frame is
    /// posted completely or not at all.
    #[cold]
    pub(super) fn burst_long(
        &mut self,
        w: &Worker,
        sent: &mut Held,
        frames: &mut Batch,
    ) -> Result<(usize, u64), Corrupt> {
        let room = self.producer.room(self.ring.size())?;
        let (mut slots, mut n) = (0, 0);
        for frame in frames.iter() {
            let more = sent.chunks_of(frame).count() as u32;
            if slots + more > room {
                break;
            }
            (slots, n) = (slots + more, n + 1);
        }
        FrameState::Posted.enter_batch(w, frames, n);
        let (mut slot, mut bytes) = (0, 0);
        for frame in frames.hand_over(FrameState::Posted, w, n) {
            let mut rest = frame.len() as u64;
            bytes += rest;
            let (addr, parts) = sent.post_long(frame);
            for (off, len) in parts {
                rest -= u64::from(len);
                let options = if rest > 0 { Descriptor::CONTINUED } else { 0 };
                self.ring.write(self.producer.slot(slot), Descriptor { addr: addr + off, len, options });
                slot += 1;
            }
        }
        self.producer.publish(slot);
        Ok((n, bytes))
    }

    /// Number of slots of the ring.
    pub(super) fn size(&self) -> u32 {
        self.ring.size()
    }

    /// Number of descriptors that the kernel has not taken out of the ring yet.
    #[inline]
    pub(super) fn unsent(&mut self) -> Result<u32, Corrupt> {
        // Asking for the maximum room makes the cursor read the kernel's index.
        self.producer.room(self.ring.size()).map(|room| self.ring.size() - room)
    }

    /// Returns whether the kernel sends only when it is told to.
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

/// Returns whether the kernel would send this frame by one descriptor. The frame lies in the UMEM, all in its first
/// chunk, is complete, no shorter than a header, and no longer than the interface transmits.
#[inline]
fn is_usual(sent: &Held, frame: &Frame) -> bool {
    let has_length = frame.len() >= ETHERNET_HEADER && !sent.is_beyond_mtu(frame);
    sent.takes(frame) && sent.reaches(frame) && has_length
}

/// The same with at most that many descriptors.
fn carries(sent: &Held, most: usize, frame: &Frame) -> bool {
    let in_several = || is_complete(sent, frame) && sent.chunks_of(frame).count() <= most;
    is_usual(sent, frame) || !sent.is_beyond_mtu(frame) && in_several()
}

/// Returns whether the kernel would send the frame, apart from its length.
fn is_complete(sent: &Held, frame: &Frame) -> bool {
    sent.takes(frame) && !frame.has_offload() && frame.len() >= ETHERNET_HEADER
}

impl Tx for XdpPort {
    #[inline]
    fn tx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        if self.link_down {
            return self.tx_nothing(frames);
        }
        let Some(queues) = &mut self.queues else { return self.tx_nothing(frames) };
        if !frames.iter().all(|frame| is_usual(&self.sent, frame)) {
            return self.tx_unusual(w, frames);
        }
        let posted = queues.tx.burst(w, &mut self.sent, frames);
        self.count_sent(posted)
    }

    fn tx_posted(&self) -> usize {
        self.sent.count()
    }

    #[cold]
    fn take_unsendable(&self, frames: &mut Batch) -> Batch {
        let most = self.chunks_of_a_packet();
        set_aside(frames, |frame| carries(&self.sent, most, frame))
    }

    #[cold]
    fn is_too_long(&self, frame: &Frame) -> bool {
        is_complete(&self.sent, frame) && !carries(&self.sent, self.chunks_of_a_packet(), frame)
    }
}

impl XdpPort {
    /// Counts the posted frames. Returns their number.
    #[inline]
    fn count_sent(&mut self, posted: Result<(usize, u64), Corrupt>) -> usize {
        match posted {
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

    /// Sends the frames that can be sent, also those that lie in several chunks. The others stay, behind those for
    /// which there is no room.
    #[cold]
    #[inline(never)]
    fn tx_unusual(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        // The MTU may have been raised since the last look.
        if frames.iter().any(|frame| self.sent.is_beyond_mtu(frame)) {
            self.follow_mtu_for_long_packet();
        }
        let mut stay = self.pass_over(frames);
        let Some(queues) = &mut self.queues else { return 0 };
        let posted = queues.tx.burst_long(w, &mut self.sent, frames);
        let n = self.count_sent(posted);
        frames.append(&mut stay);
        n
    }

    /// Adopts the interface's MTU for both directions. An interface that is missing is detected elsewhere, and one that
    /// is being renamed is asked again at the next look.
    #[cold]
    pub(super) fn follow_mtu(&mut self) {
        self.mtu_asked = Instant::now();
        let Ok(mtu) = self.netdev.mtu_at_once() else { return };
        self.sent.set_mtu(mtu);
        if let Some(gather) = &mut self.gather {
            gather.follow(mtu, &self.config);
        }
    }

    /// The same because of a packet that is longer than the MTU of the last look, unless that was just before.
    #[cold]
    pub(super) fn follow_mtu_for_long_packet(&mut self) {
        if self.mtu_asked.elapsed() >= MTU_PAUSE {
            self.follow_mtu();
        }
    }

    /// Sends nothing while the interface is down or gone. Frames that can never be sent are counted, and stay behind the
    /// others.
    #[cold]
    #[inline(never)]
    fn tx_nothing(&self, frames: &mut Batch) -> usize {
        let mut stay = self.pass_over(frames);
        frames.append(&mut stay);
        0
    }

    /// Takes the frames that can never be sent out of `frames`, and counts them.
    fn pass_over(&self, frames: &mut Batch) -> Batch {
        let stay = self.take_unsendable(frames);
        let foreign = stay.iter().filter(|frame| !self.sent.takes(frame)).count();
        let long = stay.iter().filter(|frame| self.is_too_long(frame)).count();
        self.counters.wrong_memory.add(foreign as u64);
        self.counters.tx_too_long.add(long as u64);
        self.counters.tx_invalid.add((stay.len() - foreign - long) as u64);
        stay
    }

    /// Maximum number of chunks of a packet that can be sent. While the interface is gone, the next socket decides it, and
    /// no frame that one may carry is refused.
    #[cold]
    fn chunks_of_a_packet(&self) -> usize {
        match (&self.binding, &self.queues) {
            (_, None) => CHUNKS_MAX,
            (Some(binding), Some(queues)) if binding.socket.takes_several() => {
                CHUNKS_MAX.min(queues.tx.size() as usize)
            }
            _ => 1,
        }
    }
}
