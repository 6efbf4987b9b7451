//! Taking a port down, and bringing its frames home. COLD.

use super::held::Held;
use super::{Queues, XdpPort};
use crate::pool::{Batch, Desc, Frame, unposted_from_anywhere};
use crate::sys::xdp::Wake;
use std::sync::Arc;
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
    /// Takes the port down; what it holds goes home where that is safe (see the module). Done once, also by Drop.
    ///
    /// Waits up to a second for frames that are being sent.
    #[cold]
    pub fn close(&mut self) -> Closed {
        let Some(binding) = self.binding.take() else { return Closed::default() };
        let mut home = 0;
        let mut unsent = Vec::new();
        self.binding = Some(binding);
        self.publish_statistics();
        let queues = self.queues.take().or_else(|| self.stopped.take());
        if let Some(mut queues) = queues {
            home += self.finish_sending(&mut queues);
            unsent = queues.tx.unsent_addresses().unwrap_or_default();
            self.stopped = Some(queues);
        }
        let Some(binding) = self.binding.take() else { return Closed::default() };
        self.umem.unbind(self.queue, binding.attachment, binding.socket, self.stopped.take());
        if !binding.zero_copy {
            home += bring_home(std::iter::from_fn(|| self.filled.take_any()));
            home += bring_home(unsent.into_iter().filter_map(|addr| self.sent.take(addr, 0)));
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
            let n = self.complete_without_worker(queues);
            home += n;
            let unsent = queues.tx.unsent().map_or(0, |n| n as usize);
            if stuck && n == 0 && self.sent.count() <= unsent {
                break;
            }
            thread::yield_now();
        }
        home
    }

    fn complete_without_worker(&mut self, queues: &mut Queues) -> usize {
        let mut frames = Batch::new();
        // A fault here ends nothing that is not ending: what it hides stays in `sent`.
        let _ = queues.complete.burst(&mut self.sent, &mut frames);
        unposted_from_anywhere(&frames);
        self.counters.completed.add(frames.len() as u64);
        frames.len()
    }
}
