//! A port that many tasks share, through a task of its own and two queues of frames.

use crate::port::AsyncPort;
use netmem::{Batch, Frame};
use std::fmt;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::task::coop::consume_budget;
use tokio::time::sleep;

/// The driver's shortest and longest pause while received frames wait for a reader and others for the device.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];

/// Frames that a shared port has received.
///
/// If no task takes them, the queue fills, the driver receives no more, and the device drops and counts
/// (`rx_ring_full`, `rx_no_frame`). When this is dropped, frames that come are freed.
pub struct Incoming {
    frames: mpsc::Receiver<Frame>,
}

/// The transmit queue of a shared port; a clone for each task.
///
/// While the port is down, the queue fills, and the driver takes up to 64 frames out of it. They are sent if the port
/// comes up again.
#[derive(Clone)]
pub struct Outgoing {
    frames: mpsc::Sender<Frame>,
    refuses: watch::Receiver<bool>,
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
    /// There are still senders, or frames of theirs.
    is_open: bool,
    /// Frames wait to be sent, and the port is down.
    is_stuck: bool,
    /// Moreover there is no room for another frame, so a full queue stays full until the port is up.
    refuses: watch::Sender<bool>,
}

impl AsyncPort {
    /// Gives the port to its own task, the [`Driver`]. Other tasks share it through queues of `depth` frames in each
    /// direction.
    ///
    /// # Panics
    /// Panics if `depth` is 0.
    pub fn share(self, depth: usize) -> (Incoming, Outgoing, Driver) {
        let ((incoming, received), (send, outgoing)) = (mpsc::channel(depth), mpsc::channel(depth));
        let (refuses, does_refuse) = watch::channel(false);
        let driver = Driver {
            port: self,
            incoming,
            outgoing,
            received: Batch::new(),
            to_send: Batch::new(),
            is_open: true,
            is_stuck: false,
            refuses,
        };
        (Incoming { frames: received }, Outgoing { frames: send, refuses: does_refuse }, driver)
    }
}

impl Incoming {
    /// Waits for the next frame. Returns None after the driver has ended, or the port will receive nothing more
    /// ([`Rx::rx_finished`](netmem::Rx::rx_finished)), and all frames were taken.
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

    /// Waits until there is room for a frame. Returns a function that transmits the frame without waiting. Returns None
    /// if the driver has ended, or if the port is down and everything before it is full.
    ///
    /// # Cancelling
    /// The room goes to another task.
    pub async fn room(&self) -> Option<impl FnOnce(Frame)> {
        let mut refuses = self.refuses.clone();
        let permit = tokio::select! {
            biased;
            permit = self.frames.reserve() => permit.ok()?,
            _ = refuses.wait_for(|refuses| *refuses) => return None,
        };
        Some(move |frame| permit.send(frame))
    }

    /// Returns whether the driver has ended: nothing will be transmitted any more.
    pub fn is_closed(&self) -> bool {
        self.frames.is_closed()
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
    /// Moves frames until [`Incoming`] is dropped, or the port receives nothing more, and every [`Outgoing`] is dropped
    /// and their frames have been handed to the device. Frames for a port that is down are freed then. Returns the port,
    /// whose [`close`](AsyncPort::close) waits until these frames are sent.
    ///
    /// # Cancelling
    /// The port closes on the thread that drops the call, which may wait for it, and frames on their way are freed.
    pub async fn run(mut self) -> AsyncPort {
        let [shortest, longest] = PAUSES;
        let mut pause = shortest;
        loop {
            consume_budget().await;
            let moved = self.round();
            let is_read = !self.incoming.is_closed();
            let is_sent = !self.is_open && self.to_send.is_empty();
            if !is_read && (is_sent || self.is_stuck && self.outgoing.is_closed()) {
                self.to_send.free(self.port.worker());
                return self.port;
            }
            if moved > 0 {
                self.port.worked();
                pause = shortest;
                continue;
            }
            let has_received = !self.received.is_empty();
            if has_received && !is_read {
                // The reader went during the round. The next one frees what it would have read.
                continue;
            }
            let Driver { port, incoming, outgoing, to_send, is_open, .. } = &mut self;
            let is_sending = !to_send.is_empty() || port.is_sending();
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
                // The device does not wake the task when it has room, or has sent.
                () = sleep(pause), if has_received && is_sending => pause = longest.min(2 * pause),
            }
        }
    }

    /// Moves all frames that can be moved now. Returns their number.
    fn round(&mut self) -> usize {
        let received = self.pass_received();
        while self.to_send.room() > 0
            && let Ok(frame) = self.outgoing.try_recv()
        {
            drop(self.to_send.push(frame));
        }
        // In this order: what is queued before the last sender goes is still taken.
        self.is_open = !(self.outgoing.is_closed() && self.outgoing.is_empty());
        let sent = self.port.try_transmit(&mut self.to_send);
        self.is_stuck = sent == 0 && !self.to_send.is_empty() && self.port.is_down();
        let refuses = self.is_stuck && self.to_send.room() == 0;
        self.refuses.send_if_modified(|known| std::mem::replace(known, refuses) != refuses);
        self.port.tend();
        received + sent
    }

    /// Receives frames, and passes them to the reader, or frees them if there is none. Returns their number.
    fn pass_received(&mut self) -> usize {
        if self.incoming.is_closed() {
            // Received and freed: frames that stayed in the port would end each wait at once.
            let unread = self.port.try_receive(&mut self.received);
            self.received.free(self.port.worker());
            return unread;
        }
        if self.received.is_empty() {
            self.port.try_receive(&mut self.received);
            if self.received.is_empty() && self.port.port().rx_finished() {
                // The reader's end: its queue has no sender any more.
                (self.incoming, _) = mpsc::channel(1);
                return 0;
            }
        }
        let room = self.received.len().min(self.incoming.capacity());
        match self.incoming.try_reserve_many(room) {
            Ok(room) => room.zip(self.received.drain()).map(|(permit, frame)| permit.send(frame)).count(),
            Err(_) => 0,
        }
    }
}
