//! A port that many tasks share, through a task of its own and two queues of frames.

use crate::port::AsyncPort;
use netmem::{Batch, Frame};
use std::fmt;
use std::time::Duration;
use tokio::sync::mpsc::{self, error::TryRecvError};
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

/// The driver's pause while received frames wait for a reader and others for the device.
const PAUSE: Duration = Duration::from_millis(1);

/// Frames that a shared port has received.
///
/// If no task takes them, the queue fills, the driver receives no more, and the device drops and counts
/// (`rx_ring_full`, `rx_no_frame`). When this is dropped, frames that come are freed.
pub struct Incoming {
    frames: mpsc::Receiver<Frame>,
}

/// The transmit queue of a shared port; a clone for each task.
#[derive(Clone)]
pub struct Outgoing {
    frames: mpsc::Sender<Frame>,
}

/// The task of a shared port, to be spawned: `tokio::spawn(driver.run())`.
#[must_use = "nothing is received or sent unless it runs"]
#[derive(Debug)]
pub struct Driver {
    port: AsyncPort,
    incoming: mpsc::Sender<Frame>,
    outgoing: mpsc::Receiver<Frame>,
    received: Batch,
    to_send: Batch,
    /// There are still senders.
    is_open: bool,
}

impl AsyncPort {
    /// Gives the port to its own task, the [`Driver`]. Other tasks share it through queues of `depth` frames in each
    /// direction.
    ///
    /// # Panics
    /// Panics if `depth` is 0.
    pub fn share(self, depth: usize) -> (Incoming, Outgoing, Driver) {
        let ((incoming, received), (send, outgoing)) = (mpsc::channel(depth), mpsc::channel(depth));
        let (to_send, in_hand) = (Batch::new(), Batch::new());
        let driver = Driver { port: self, incoming, outgoing, received: in_hand, to_send, is_open: true };
        (Incoming { frames: received }, Outgoing { frames: send }, driver)
    }
}

impl Incoming {
    /// Waits for the next frame. Returns None after the driver has ended and all frames were taken.
    ///
    /// # Cancelling
    /// A call that does not return has taken no frame.
    pub async fn receive(&mut self) -> Option<Frame> {
        self.frames.recv().await
    }
}

impl Outgoing {
    /// Transmits a frame, waiting for room in the queue.
    ///
    /// # Errors
    /// Returns the frame if the driver has ended.
    ///
    /// # Cancelling
    /// A frame that was not queued yet is freed to its pool unsent. To avoid that loss, wait in [`Outgoing::room`]
    /// first.
    pub async fn transmit(&self, frame: Frame) -> Result<(), Frame> {
        self.frames.send(frame).await.map_err(|refused| refused.0)
    }

    /// Waits until there is room for a frame. Returns a function that transmits the frame without waiting, or None if
    /// the driver has ended.
    ///
    /// # Cancelling
    /// The room goes to another task.
    pub async fn room(&self) -> Option<impl FnOnce(Frame)> {
        let permit = self.frames.reserve().await.ok()?;
        Some(move |frame| permit.send(frame))
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

impl Driver {
    /// Moves frames until [`Incoming`] and every [`Outgoing`] are dropped and their frames have been handed to the
    /// device. Returns the port.
    ///
    /// # Cancelling
    /// The port closes, and frames on their way are freed.
    pub async fn run(mut self) -> AsyncPort {
        loop {
            consume_budget().await;
            let moved = self.round();
            let is_read = !self.incoming.is_closed();
            if !is_read && !self.is_open && self.to_send.is_empty() {
                return self.port;
            }
            if moved > 0 {
                self.port.worked();
                continue;
            }
            let has_received = !self.received.is_empty();
            let Driver { port, incoming, outgoing, to_send, is_open, .. } = &mut self;
            tokio::select! {
                frame = outgoing.recv(), if *is_open && to_send.is_empty() => match frame {
                    // It is empty, so there is room.
                    Some(frame) => drop(to_send.push(frame)),
                    None => *is_open = false,
                },
                // There is room, or no receiver: the next round finds out.
                _ = incoming.reserve(), if has_received && is_read => {}
                () = incoming.closed(), if is_read => {}
                () = port.wait(), if !has_received => {}
                // The device does not wake the task when it has room.
                () = sleep(PAUSE), if has_received && !to_send.is_empty() => {}
            }
        }
    }

    /// Moves all frames that can be moved now. Returns their number.
    fn round(&mut self) -> usize {
        let mut unread = 0;
        if self.incoming.is_closed() {
            // Received and freed: frames that stayed in the port would end each wait at once.
            unread = self.port.try_receive(&mut self.received);
            self.received.free(self.port.worker());
        } else if self.received.is_empty() {
            self.port.try_receive(&mut self.received);
        }
        let room = self.received.len().min(self.incoming.capacity());
        let handed = match self.incoming.try_reserve_many(room) {
            Ok(room) => room.zip(self.received.drain()).map(|(permit, frame)| permit.send(frame)).count(),
            Err(_) => 0,
        };
        while self.is_open && self.to_send.room() > 0 {
            match self.outgoing.try_recv() {
                Ok(frame) => drop(self.to_send.push(frame)),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => self.is_open = false,
            }
        }
        let sent = self.port.try_transmit(&mut self.to_send);
        self.port.tend();
        handed + sent + unread
    }
}
