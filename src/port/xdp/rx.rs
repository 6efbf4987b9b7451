//! HOT: frames the kernel has received into.

use super::held::Held;
use super::{Fault, XdpPort};
use crate::pool::Batch;
use crate::port::Rx;
use crate::ring::cursor::Consumer;
use crate::sync::Worker;
use crate::sys::xdp::{Descriptor, Ring, SharedIndex};

/// Our end of the RX ring.
#[derive(Debug)]
pub(super) struct RxQueue {
    consumer: Consumer<SharedIndex>,
    ring: Ring<Descriptor>,
}

impl RxQueue {
    pub(super) fn new(ring: Ring<Descriptor>) -> RxQueue {
        RxQueue { consumer: Consumer::new(ring.consumer(), ring.producer(), ring.size()), ring }
    }

    /// Appends received frames to `frames` while it has room.
    ///
    /// The kernel's address leads behind its headroom, so it is rebased: chunk = address / 2048, offset =
    /// address % 2048. An address whose chunk is not in `filled` is a fault; the frames before it are good.
    #[inline]
    pub(super) fn burst(&mut self, filled: &mut Held, frames: &mut Batch) -> Result<(), Fault> {
        let ready =
            self.consumer.ready(frames.room() as u32).map_err(|corrupt| Fault::Corrupt("RX", corrupt))?;
        for i in 0..ready {
            let descriptor = self.ring.read(self.consumer.slot(i));
            // Options mean that the packet goes on in the next descriptor, which was not asked for.
            let frame =
                if descriptor.options == 0 { filled.claim(descriptor.addr, descriptor.len) } else { None };
            let Some(frame) = frame else {
                self.consumer.release(i);
                return Err(Fault::Descriptor("RX", descriptor));
            };
            // There is room: no more were asked for.
            let _ = frames.push(frame);
        }
        self.consumer.release(ready);
        Ok(())
    }

    /// Packets that are there and have not been taken. For teardown.
    #[cold]
    pub(super) fn unread(&mut self) -> u64 {
        self.consumer.ready(self.ring.size()).unwrap_or(0).into()
    }

    /// Whether there is a frame to be taken, or an index that makes no sense and is found out by taking.
    pub(super) fn is_ready(&mut self) -> bool {
        self.consumer.ready(1) != Ok(0)
    }
}

impl Rx for XdpPort {
    #[inline]
    fn rx(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        let Some(queues) = &mut self.queues else { return 0 };
        let (before, held) = (frames.len(), self.filled.count());
        let done = queues.rx.burst(&mut self.filled, frames);
        if frames.len() > before {
            self.filled.taken_back(held, w, frames, before);
        }
        let received = &frames[before..];
        if !received.is_empty() {
            self.counters.rx.add(received.len() as u64);
            self.counters.rx_bytes.add(received.iter().map(|frame| frame.len() as u64).sum());
        }
        let n = received.len();
        if let Err(fault) = done {
            self.fault(&fault);
        }
        n
    }
}
