//! The task of a port that many tasks share.

use crate::control::{DriverControl, DriverCounters, Seen};
use crate::port::AsyncPort;
use crate::queue::{Incoming, Outgoing, take_now};
use netmem::stats::Writer;
use netmem::{Batch, Frame, PortState};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, sleep};

/// The driver's shortest and longest pause while received frames wait for a reader and others for the device.
const PAUSES: [Duration; 2] = [Duration::from_millis(1), Duration::from_millis(50)];
/// The time after which the driver looks at the state of a port that has nothing to do, and at the counters that the
/// device keeps.
const LOOK: Duration = Duration::from_secs(1);

/// The task of a shared port, to be spawned: `tokio::spawn(driver.run())`.
#[must_use = "nothing is received or sent unless it runs"]
#[derive(Debug)]
pub struct Driver {
    port: AsyncPort,
    /// Dropped before the queue, so that a task that has room in it sees that the driver has ended.
    seen: watch::Sender<Seen>,
    incoming: mpsc::Sender<Frame>,
    outgoing: mpsc::Receiver<Frame>,
    /// Where a burst is taken from the queue; empty between calls.
    burst: Vec<Frame>,
    received: Batch,
    to_send: Batch,
    /// There may be more to take from the queue: it has senders, or frames of theirs.
    is_open: bool,
    /// Frames wait to be sent, and the port is down.
    is_stuck: bool,
    freed: Writer<DriverCounters>,
    /// When the device's counters were read.
    counted: Instant,
    finish: watch::Sender<()>,
    /// Changes when the driver is asked to finish. The driver has a sender too, so it never closes.
    asked: watch::Receiver<()>,
}

impl AsyncPort {
    /// Gives the port to its own task, the [`Driver`]. Other tasks share it through queues of `depth` frames in each
    /// direction, and see its state by [`Driver::control`].
    ///
    /// A `depth` above [`Semaphore::MAX_PERMITS`](tokio::sync::Semaphore::MAX_PERMITS), tokio's own limit, is that limit.
    ///
    /// # Panics
    /// Panics if `depth` is 0.
    pub fn share(self, depth: usize) -> (Incoming, Outgoing, Driver) {
        assert!(depth > 0, "a shared port with queues of 0 frames");
        let depth = depth.min(Semaphore::MAX_PERMITS);
        let ((incoming, received), (send, outgoing)) = (mpsc::channel(depth), mpsc::channel(depth));
        let (seen, last_seen) = watch::channel(Seen {
            state: self.port().state(),
            is_failed: self.port().is_failed(),
            complaint: self.port().complaint(),
            refuses: false,
        });
        let (finish, asked) = watch::channel(());
        let driver = Driver {
            port: self,
            seen,
            incoming,
            outgoing,
            burst: Vec::new(),
            received: Batch::new(),
            to_send: Batch::new(),
            is_open: true,
            is_stuck: false,
            freed: Writer::default(),
            counted: Instant::now(),
            finish,
            asked,
        };
        (Incoming::new(received), Outgoing::new(send, last_seen), driver)
    }
}

impl Driver {
    /// Returns the port's state and counters, and the request to finish, for tasks that share the port.
    pub fn control(&self) -> DriverControl {
        DriverControl::new(self.seen.subscribe(), self.port.port(), self.freed.reader(), self.finish.clone())
    }

    /// Moves frames until one of these ends it, and returns the port, whose [`close`](AsyncPort::close) waits until the
    /// frames that the device was handed are sent:
    /// - [`Incoming`] is dropped, or the port receives nothing more (a file has ended, or the pool is closed), and every
    ///   [`Outgoing`] is dropped and their frames have been handed to the device.
    /// - [`DriverControl::finish`] was called, and the frames that were queued have been handed to the device. The
    ///   driver receives nothing more from then on: packets that come wait in the port that it returns. [`Incoming`]
    ///   still gives what is in its queue. Received frames for which its queue has no room are
    ///   freed.
    /// - The port is down for good ([`Port::is_failed`](netmem::Port::is_failed)), and the reader has room for everything
    ///   that it received. The port that is returned has the reason as its state. A port that still sends, since only the
    ///   file that it receives from is damaged, is instead one that receives nothing more.
    ///
    /// Frames for a port that is down are freed then. [`DriverControl::driver_counters`] has the numbers of freed frames.
    ///
    /// # Cancelling
    /// The port closes on the thread that drops the call, which may wait for it, and frames on their way are freed
    /// uncounted. A frame that a task is queueing at that very moment is freed at the latest with the last [`Outgoing`].
    pub async fn run(mut self) -> AsyncPort {
        let [shortest, longest] = PAUSES;
        let mut pause = shortest;
        while !self.asked.has_changed().is_ok_and(|is_asked| is_asked) {
            consume_budget().await;
            let had_failed = self.seen.borrow().is_failed;
            let moved = self.round();
            let is_read = !self.incoming.is_closed();
            let is_sent = !self.is_open && self.to_send.is_empty();
            if !is_read && (is_sent || self.is_stuck && self.outgoing.is_closed()) {
                break;
            }
            if moved > 0 {
                self.port.worked();
                pause = shortest;
                continue;
            }
            let has_received = !self.received.is_empty();
            if !has_received && self.seen.borrow().is_failed && !self.port.sends_still() {
                if had_failed {
                    break;
                }
                // Packets may have come between the reception of this round and the failure.
                continue;
            }
            if has_received && !is_read {
                // The reader went during the round. The next one frees what it would have read.
                continue;
            }
            let Driver { port, incoming, outgoing, to_send, is_open, asked, .. } = &mut self;
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
                // Nor does it when its state changes.
                () = sleep(LOOK), if has_received && !is_sending => {}
                _ = asked.changed() => break,
            }
        }
        self.finish().await
    }

    /// Sends what was queued, frees what cannot be sent or read, and returns the port.
    async fn finish(mut self) -> AsyncPort {
        self.outgoing.close();
        loop {
            consume_budget().await;
            self.pass_received();
            let mut moved = self.send();
            if self.is_stuck {
                moved += self.free_unsent();
            }
            if !self.is_open && self.to_send.is_empty() {
                self.free_unread();
                return self.port;
            }
            if moved > 0 {
                self.port.worked();
                continue;
            }
            let Driver { port, outgoing, to_send, is_open, .. } = &mut self;
            tokio::select! {
                // A task has room, and has not used it yet.
                frame = outgoing.recv(), if to_send.is_empty() => match frame {
                    Some(frame) => drop(to_send.push(frame)),
                    None => *is_open = false,
                },
                () = port.wait() => {}
            }
        }
    }

    /// Moves all frames that can be moved now. Returns their number.
    fn round(&mut self) -> usize {
        self.receive() + self.send()
    }

    /// Receives frames, and passes them to the reader, or frees them if there is none. Returns their number.
    fn receive(&mut self) -> usize {
        if self.incoming.is_closed() {
            // Received and freed: frames that stayed in the port would end each wait at once.
            self.port.try_receive(&mut self.received);
            return self.free_unread();
        }
        if self.received.is_empty() {
            self.port.try_receive(&mut self.received);
            if self.received.is_empty() && self.port.receives_no_more() {
                // The reader's end: its queue has no sender any more.
                (self.incoming, _) = mpsc::channel(1);
                return 0;
            }
        }
        self.pass_received()
    }

    /// Passes the reader the received frames for which its queue has room. Returns their number.
    fn pass_received(&mut self) -> usize {
        let room = self.received.len().min(self.incoming.capacity());
        match self.incoming.try_reserve_many(room) {
            Ok(room) => room.zip(self.received.drain()).map(|(permit, frame)| permit.send(frame)).count(),
            Err(_) => 0,
        }
    }

    /// Frees the received frames. Returns their number.
    fn free_unread(&mut self) -> usize {
        let unread = self.received.len();
        self.received.free(self.port.worker());
        let mut lost = 0;
        if self.incoming.is_closed() {
            // Frames that were passed while the reader went would stay in its queue for as long as this is its sender.
            lost = self.incoming.max_capacity() - self.incoming.capacity();
            if lost > 0 {
                (self.incoming, _) = mpsc::channel(1);
            }
        }
        self.freed.add(|counters| &counters.unread, (unread + lost) as u64);
        unread
    }

    /// Frees the frames to send. Returns their number.
    fn free_unsent(&mut self) -> usize {
        let unsent = self.to_send.len();
        self.to_send.free(self.port.worker());
        self.freed.add(|counters| &counters.unsent, unsent as u64);
        unsent
    }

    /// Takes queued frames, and gives the device those for which it has room. Frees those that it can never carry.
    /// Returns the number of both.
    fn send(&mut self) -> usize {
        if self.is_open && self.to_send.room() > 0 {
            // With none, there will be none: no task has room either.
            self.is_open = take_now(&mut self.outgoing, &mut self.burst, &mut self.to_send) != Poll::Ready(0);
        }
        let was_up = self.seen.borrow().state == PortState::Up;
        let sent = self.port.try_transmit(&mut self.to_send);
        // Before sent frames are claimed, as in `AsyncPort::transmit`.
        let no_room_comes = sent == 0 && !self.port.port().can_retry_tx();
        self.port.tend();
        self.look(sent);
        // A port that is or was down may take them later.
        let is_up = was_up && self.seen.borrow().state == PortState::Up;
        sent + if no_room_comes && is_up { self.free_unsent() } else { 0 }
    }

    /// Looks at the port, of which the last transmission took `sent` frames.
    fn look(&mut self, sent: usize) {
        let state = self.port.port().state();
        let is_stuck = sent == 0 && !self.to_send.is_empty() && state != PortState::Up;
        self.is_stuck = is_stuck && !self.port.sends_still();
        let is_failed = self.port.look_if_failed();
        let complaint = self.port.port().complaint();
        let now = Seen { state, is_failed, complaint, refuses: self.is_stuck && self.to_send.room() == 0 };
        self.seen.send_if_modified(|seen| {
            *seen != now && {
                *seen = now;
                true
            }
        });
        if self.counted.elapsed() >= LOOK {
            // The port reads its device's.
            drop(self.port.port().counters());
            self.counted = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::port::mem::{MemConfig, MemPort};
    use netmem::{Memory, MemoryConfig, Pool, PoolConfig};

    /// Found in a review: frames that the driver passed while the reader went, on another thread, stayed in the queue while
    /// the driver ran, and were in no counter.
    #[tokio::test]
    async fn a_frame_that_was_passed_while_the_reader_went_is_freed_and_counted() {
        let memory = Memory::new(&MemoryConfig { bytes: 4 << 20, ..Default::default() }).unwrap();
        let mut w = memory.worker().unwrap();
        let pool = Pool::new(&memory, &mut w, &PoolConfig { frames: 64, ..Default::default() }).unwrap();
        let (port, _device) = MemPort::pair("0", &MemConfig::default()).unwrap();
        let passed = pool.alloc(&mut w).unwrap();
        let port = AsyncPort::new(Box::new(port), w, pool.clone()).unwrap();
        let (incoming, _outgoing, mut driver) = port.share(4);
        let room = driver.incoming.clone().try_reserve_owned().unwrap();
        drop(incoming);
        drop(room.send(passed));
        let owned = || pool.ledger().owned;
        assert_eq!(owned(), 1);
        driver.receive();
        assert_eq!((owned(), driver.freed.reader().unread.get()), (0, 1));
        driver.receive();
        assert_eq!(driver.freed.reader().unread.get(), 1);
    }
}
