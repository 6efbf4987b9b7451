//! HOT: frames the kernel has sent.

use super::held::Held;
use super::{Fault, XdpPort};
use crate::pool::Batch;
use crate::port::Complete;
use crate::ring::cursor::Consumer;
use crate::sync::Worker;
use crate::sys::xdp::{Descriptor, Ring, SharedIndex};

/// The port's end of the COMPLETION ring.
#[derive(Debug)]
pub(super) struct CompletionQueue {
    consumer: Consumer<SharedIndex>,
    ring: Ring<u64>,
}

impl CompletionQueue {
    pub(super) fn new(ring: Ring<u64>) -> CompletionQueue {
        CompletionQueue { consumer: Consumer::new(ring.consumer(), ring.producer(), ring.size()), ring }
    }

    /// Appends sent frames, empty now, to `frames` while it has room. A frame that lies in several chunks is appended
    /// with the last of them.
    ///
    /// An address whose chunk is not in `sent` is a fault. The frames before it are valid.
    #[inline]
    pub(super) fn burst(&mut self, sent: &mut Held, frames: &mut Batch) -> Result<(), Fault> {
        let ready = self
            .consumer
            .ready(frames.room() as u32)
            .map_err(|corrupt| Fault::Corrupt("COMPLETION", corrupt))?;
        for i in 0..ready {
            let addr = self.ring.read(self.consumer.slot(i));
            let claimed = match sent.claim(addr, 0) {
                None => sent.claim_part(addr),
                frame => Some(frame),
            };
            match claimed {
                // There is room: no more frames were requested.
                Some(Some(frame)) => {
                    let _ = frames.push(frame);
                }
                Some(None) => {}
                None => {
                    self.consumer.release(i);
                    return Err(Fault::Descriptor("COMPLETION", Descriptor { addr, len: 0, options: 0 }));
                }
            }
        }
        self.consumer.release(ready);
        Ok(())
    }
}

impl Complete for XdpPort {
    #[inline]
    fn complete(&mut self, w: &mut Worker, frames: &mut Batch) -> usize {
        if self.birthplace.is_elsewhere() {
            return self.abandon();
        }
        if self.sent.count() == 0 {
            return 0;
        }
        let Some(queues) = &mut self.queues else { return self.reclaim(w, frames) };
        let (before, held) = (frames.len(), self.sent.count());
        let done = queues.complete.burst(&mut self.sent, frames);
        let n = frames.len() - before;
        if n > 0 {
            self.sent.taken_back(held, w, frames, before);
            self.counters.completed.add(n as u64);
        }
        if let Err(fault) = done {
            self.fault(&fault);
        }
        n
    }
}
