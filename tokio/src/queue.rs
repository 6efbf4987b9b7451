//! The two queues of a shared port.

use crate::control::{Seen, has_ended};
use netmem::{Batch, Frame};
use std::fmt;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tokio::sync::{mpsc, watch};
use tokio::task::coop::consume_budget;
use tokio::task::unconstrained;

/// Frames that a shared port has received.
///
/// If no task takes them, the queue fills, the driver receives no more, and the device drops and counts
/// (`rx_ring_full`, `rx_no_frame`). When this is dropped, frames that come are freed.
pub struct Incoming {
    frames: mpsc::Receiver<Frame>,
    /// Where a burst is taken from the queue; empty between calls.
    burst: Vec<Frame>,
}

/// The transmit queue of a shared port; a clone for each task.
///
/// While the port is down, the queue fills, and the driver takes up to 64 frames out of it. They are sent if the port
/// comes up again.
#[derive(Clone)]
pub struct Outgoing {
    frames: mpsc::Sender<Frame>,
    seen: watch::Receiver<Seen>,
}

impl Incoming {
    pub(crate) fn new(frames: mpsc::Receiver<Frame>) -> Incoming {
        Incoming { frames, burst: Vec::new() }
    }

    /// Waits for the next frame. Returns None after the driver has ended, or the port will receive nothing more
    /// ([`Rx::rx_finished`](netmem::Rx::rx_finished), or its pool is [closed](netmem::Pool::is_closed)), and all frames were
    /// taken.
    ///
    /// # Cancelling
    /// A call that does not return has taken no frame.
    pub async fn receive(&mut self) -> Option<Frame> {
        self.frames.recv().await
    }

    /// Waits until the queue has frames, and appends as many of them to `frames` as it has room for. Returns their
    /// number. Returns 0 at once if `frames` has no room, and where [`Incoming::receive`] returns None.
    ///
    /// # Cancelling
    /// A call that does not return has taken no frame.
    ///
    /// # Cost
    /// One wait for all frames, and one lock of the queue to make their room free for the driver. The first calls
    /// allocate room for a burst.
    pub async fn receive_burst(&mut self, frames: &mut Batch) -> usize {
        self.frames.recv_many(&mut self.burst, frames.room()).await;
        frames.extend(self.burst.drain(..))
    }

    /// As [`Incoming::receive_burst`], without waiting: returns 0 if the queue is empty. Whether frames may still come
    /// is known to the calls that wait.
    pub fn receive_now(&mut self, frames: &mut Batch) -> usize {
        match take_now(&mut self.frames, &mut self.burst, frames) {
            Poll::Ready(taken) => taken,
            Poll::Pending => 0,
        }
    }
}

/// Takes as many queued frames as `frames` has room for, through the empty `burst`. Returns their number, 0 at the end of
/// the queue, and Pending if it is empty.
pub(crate) fn take_now(
    queue: &mut mpsc::Receiver<Frame>,
    burst: &mut Vec<Frame>,
    frames: &mut Batch,
) -> Poll<usize> {
    // Not `try_recv`, which locks the queue for each frame, and may block the thread until another has queued its.
    let waits = unconstrained(queue.recv_many(burst, frames.room()));
    let polled = pin!(waits).poll(&mut Context::from_waker(Waker::noop()));
    frames.extend(burst.drain(..));
    polled
}

impl Outgoing {
    pub(crate) fn new(frames: mpsc::Sender<Frame>, seen: watch::Receiver<Seen>) -> Outgoing {
        Outgoing { frames, seen }
    }

    /// Transmits a frame, waiting for room in the queue.
    ///
    /// # Errors
    /// Returns the frame if the driver has ended ([`Outgoing::is_closed`]), or if the port is down and everything before it
    /// is full. A task that tries again should pause before it does.
    ///
    /// # Cancelling
    /// A frame that was not queued yet is freed to its pool unsent. To avoid that loss, wait in [`Outgoing::room`]
    /// first.
    pub async fn transmit(&self, frame: Frame) -> Result<(), Frame> {
        match self.room().await {
            Some(transmit) => {
                transmit(frame);
                Ok(())
            }
            None => Err(frame),
        }
    }

    /// Transmits all of `frames`, oldest first, waiting for room in the queue. Returns their number. If the driver has
    /// ended ([`Outgoing::is_closed`]), or if the port is down and everything before it is full, the call returns at once, and
    /// all frames that were not queued stay in `frames`. A task that tries again should pause before it does, or wait
    /// until the port is [up](crate::DriverControl::up).
    ///
    /// Frames of other tasks may come between those of a burst for which the queue has no room at once.
    ///
    /// # Cancelling
    /// Frames that were not queued yet are still in `frames`.
    ///
    /// # Cost
    /// One lock of the queue for all frames that have room, not one for each.
    pub async fn transmit_burst(&self, frames: &mut Batch) -> usize {
        let mut queued = 0;
        while !frames.is_empty() {
            consume_budget().await;
            let room = self.frames.capacity().min(frames.len()).max(1);
            let room = match self.frames.try_reserve_many(room) {
                Ok(room) => Some(room),
                // The queue is full, or another task took room that was counted here.
                Err(_) => self.reserve().await,
            };
            let Some(room) = room else { break };
            queued += room.zip(frames.drain()).map(|(permit, frame)| permit.send(frame)).count();
        }
        queued
    }

    /// Waits until there is room for a frame. Returns a function that transmits the frame without waiting, or frees it if
    /// [`Driver::run`](crate::Driver::run) was cancelled meanwhile. Returns None if the driver has ended, or if the port is
    /// down and everything before it is full.
    ///
    /// # Cancelling
    /// The room goes to another task.
    pub async fn room(&self) -> Option<impl FnOnce(Frame)> {
        let permit = self.reserve().await?.next()?;
        Some(move |frame| {
            // Without a driver, the frame would stay in the queue until the last sender is dropped.
            if !has_ended(&self.seen) {
                permit.send(frame);
            }
        })
    }

    /// Returns whether the driver has ended, or was asked to [finish](crate::DriverControl::finish): nothing more is
    /// queued.
    pub fn is_closed(&self) -> bool {
        self.frames.is_closed()
    }

    /// Waits until there is room for a frame. Returns None if the driver has ended, or if the port is down and
    /// everything before it is full.
    async fn reserve(&self) -> Option<mpsc::PermitIterator<'_, Frame>> {
        let mut seen = self.seen.clone();
        tokio::select! {
            biased;
            room = self.frames.reserve_many(1) => room.ok(),
            _ = seen.wait_for(|seen| seen.refuses) => None,
        }
    }
}

impl fmt::Debug for Incoming {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Incoming").finish_non_exhaustive()
    }
}

impl fmt::Debug for Outgoing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outgoing").finish_non_exhaustive()
    }
}
