//! Taking a port down, and bringing its frames home. COLD.

use super::{Queues, XdpPort};
use crate::pool::{Batch, Frame, Place};
use crate::sys::xdp::Wake;
use std::iter::from_fn;
use std::thread;
use std::time::{Duration, Instant};

/// How long close waits for the kernel to complete what it was given to send.
const PATIENCE: Duration = Duration::from_secs(1);

/// What became of the frames that the kernel held when a port was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Frames that went home.
    pub home: usize,
    /// Frames that stay posted for good, because nothing proves that the device is done with them.
    pub stranded: usize,
}

impl XdpPort {
    /// Takes the port down; what the kernel holds goes home where that is safe (see [the module](super)).
    ///
    /// Dropping the port does the same. A second call does nothing and returns zeros. Waits up to a second for
    /// frames that are being sent.
    #[cold]
    pub fn close(&mut self) -> Closed {
        let Some(mut queues) = self.queues.take().or_else(|| self.stopped.take()) else {
            return Closed::default();
        };
        self.publish_statistics();
        let mut home = self.finish_sending(&mut queues);
        let unsent = queues.tx.unsent_addresses().unwrap_or_default();
        if let Some(binding) = self.binding.take() {
            self.umem.unbind(self.queue, binding, queues);
        }
        if !self.zero_copy {
            home += go_home(from_fn(|| self.filled.claim_any()));
            home += go_home(unsent.into_iter().filter_map(|addr| self.sent.claim(addr, 0)));
        }
        self.down.get_or_insert_with(|| "closed".into());
        Closed { home, stranded: self.filled.count() + self.sent.count() }
    }

    /// Sends and completes until nothing is in flight, nothing more can be sent, or patience ends; returns how
    /// many frames went home.
    fn finish_sending(&mut self, queues: &mut Queues) -> usize {
        let until = Instant::now() + PATIENCE;
        let mut home = 0;
        while self.sent.count() > 0 && Instant::now() < until {
            let Some(binding) = &self.binding else { break };
            let stuck = matches!(binding.socket.wake_tx(), Wake::Down(_));
            let mut frames = Batch::new();
            // A fault ends nothing that is not ending already: what it hides stays in `sent`.
            let _ = queues.complete.burst(&mut self.sent, &mut frames);
            self.counters.completed.add(frames.len() as u64);
            home += frames.len();
            Place::Posted.leave(None, &frames);
            let unsent = queues.tx.unsent().map_or(0, |n| n as usize);
            if stuck && frames.is_empty() && self.sent.count() <= unsent {
                break;
            }
            thread::yield_now();
        }
        home
    }
}

/// Counts the frames back and drops them; returns how many.
fn go_home(frames: impl Iterator<Item = Frame>) -> usize {
    frames.inspect(|frame| Place::Posted.leave(None, std::slice::from_ref(frame))).count()
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        self.close();
    }
}
