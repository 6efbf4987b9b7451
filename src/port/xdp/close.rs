//! Takes a port down and frees its frames. COLD.

use super::absence::Presence;
use super::again::{BUSY_PAUSE, while_refused};
use super::held::Held;
use super::take::HeldRules;
use super::{Queues, XdpPort};
use crate::pool::{Batch, Frame, FrameState};
use crate::sync::Steps;
use crate::sys::errno::Errno;
use crate::sys::xdp::{Wake, bind_for_a_moment};
use std::iter::from_fn;
use std::slice;
use std::thread;
use std::time::{Duration, Instant};

/// How long close waits for the kernel to complete the frames to be sent, and then for a driver to give up its buffers.
const PATIENCE: Duration = Duration::from_secs(1);

/// What happened to the frames that the kernel held when a port was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Closed {
    /// Frames that were freed to their pools.
    pub freed: usize,
    /// Frames that stay posted for good, because nothing proves that the device is done with them. They include those
    /// of interfaces that were removed before.
    pub stranded: usize,
}

/// The outcome for the frames that the kernel held when its socket was released.
pub(super) struct Released {
    /// Frames posted for reception that belong to the process again, for the caller to free.
    pub(super) filled: Held,
    /// Frames posted for transmission that the kernel had completed, or taken before the driver gave up its buffers.
    completed: usize,
    /// Frames posted for transmission that it never took.
    pub(super) unsent: u64,
}

impl XdpPort {
    /// Takes the port down. The frames that the kernel holds are freed if that is safe (see [the module](super)).
    ///
    /// Dropping the port does the same. A second call does nothing and returns zeros. Waits up to a second for frames
    /// that are being sent, and in zero-copy mode up to another second for the driver.
    #[cold]
    pub fn close(&mut self) -> Closed {
        if self.birthplace.is_elsewhere() {
            self.abandon();
            return Closed::default();
        }
        let mut filled = self.umem.nothing_held();
        if let Some(queues) = self.queues.take().or_else(|| self.stopped.take()) {
            let released = self.release(queues, PATIENCE);
            filled = released.filled;
            self.counters.completed.add(released.completed as u64 + released.unsent);
            self.counters.tx_lost.add(released.unsent);
        } else if let Presence::Gone(_) = self.presence {
            // Counted as if `complete` had given them back.
            self.counters.completed.add(self.sent.count() as u64);
        }
        let mut sent = std::mem::replace(&mut self.sent, self.umem.nothing_held());
        self.taking.iter_mut().for_each(HeldRules::end);
        self.presence = Presence::Here;
        self.down.get_or_insert_with(|| "closed".into());
        // Last: to free a frame may run the caller's code, which may panic.
        let freed = free_all(from_fn(|| filled.claim_any()).chain(from_fn(|| sent.claim_any())));
        Closed { freed, stranded: std::mem::take(&mut self.stranded) }
    }

    /// In a child of the process that opened the port, forgets the parent's resources. The rings are not mapped here,
    /// and the program's map is shared by both. Posted frames stay posted. Returns 0, as every call of such a port
    /// does.
    #[cold]
    #[inline(never)]
    pub(super) fn abandon(&mut self) -> usize {
        // The addresses where rings were mapped are a hole, or mapped to something else by now, and must not be
        // unmapped.
        std::mem::forget((self.queues.take(), self.stopped.take(), self.binding.take()));
        0
    }

    /// Takes the socket and the program away. Frames posted for transmission that belong to the process again stay in
    /// `sent`. Frames that the kernel may still use are stranded.
    ///
    /// Packets that were received and not taken are lost, and counted.
    pub(super) fn release(&mut self, mut queues: Queues, patience: Duration) -> Released {
        self.publish_statistics();
        self.published.take();
        let mut ours = self.umem.nothing_held();
        let mut completed = self.finish_sending(&mut queues, &mut ours, patience);
        let addresses = queues.tx.unsent_addresses().unwrap_or_default();
        self.counters.rx_dropped.add(queues.rx.unread());
        if let Some(binding) = self.binding.take() {
            self.umem.unbind(self.queue, binding, queues);
        }
        let (mut filled, mut unsent) = (self.umem.nothing_held(), 0);
        let given_up = self.zero_copy && self.is_given_up(patience);
        if !self.zero_copy || given_up {
            std::mem::swap(&mut filled, &mut self.filled);
            // A packet of which the kernel has taken a part is stranded.
            let sent = &mut self.sent;
            let mut claim = |addr| sent.claim(addr, 0).or_else(|| sent.claim_part(addr).flatten());
            for frame in addresses.into_iter().filter_map(&mut claim) {
                ours.post(frame);
                unsent += 1;
            }
        }
        if given_up {
            for frame in from_fn(|| self.sent.claim_any()) {
                ours.post(frame);
                completed += 1;
            }
        }
        self.stranded += self.filled.count() + self.sent.count();
        self.counters.tx_stranded.add(self.sent.count() as u64);
        if let Some(gather) = &mut self.gather {
            gather.forget_spare();
        }
        self.filled = self.umem.nothing_held();
        self.sent = ours;
        Released { filled, completed, unsent }
    }

    /// Returns whether the device uses none of the frames that it had in zero-copy mode, which is asked for that long.
    fn is_given_up(&self, patience: Duration) -> bool {
        let tries = (patience.as_millis() / BUSY_PAUSE.as_millis()) as u32;
        let (interface, queue) = (self.netdev.index(), self.queue);
        let bind = || while_refused(Errno::BUSY, tries, || bind_for_a_moment(interface, queue));
        self.netdev.in_its_namespace(bind).is_ok_and(|bound| bound.is_ok())
    }

    /// Sends and completes until nothing is in flight, nothing more can be sent, or the time is up. Moves the completed
    /// frames to `ours`. Returns their number.
    fn finish_sending(&mut self, queues: &mut Queues, ours: &mut Held, patience: Duration) -> usize {
        let until = Instant::now() + patience;
        let mut completed = 0;
        while self.sent.count() > 0 {
            let Some(binding) = &self.binding else { break };
            let stuck = matches!(binding.socket.wake_tx(), Wake::Down(_));
            let mut frames = Batch::new();
            // A fault ends nothing that is not ending already. Frames that it hides stay in `sent`.
            let _ = queues.complete.burst(&mut self.sent, &mut frames);
            let none = frames.is_empty();
            completed += frames.len();
            for frame in frames.drain() {
                ours.post(frame);
            }
            let unsent = queues.tx.unsent().map_or(0, |n| n as usize);
            if none && (stuck && self.sent.count() <= unsent || Instant::now() >= until) {
                break;
            }
            thread::yield_now();
        }
        completed
    }
}

/// Counts the frames back and frees them, all of them also if the caller's code panics meanwhile. Returns their number.
pub(super) fn free_all(frames: impl Iterator<Item = Frame>) -> usize {
    let (mut steps, mut freed) = (Steps::new(), 0);
    for frame in frames {
        FrameState::Posted.leave(None, slice::from_ref(&frame));
        FrameState::Posted.take_back(None, slice::from_ref(&frame));
        steps.run(|| drop(frame));
        freed += 1;
    }
    steps.end();
    freed
}

impl Drop for XdpPort {
    fn drop(&mut self) {
        self.close();
    }
}
