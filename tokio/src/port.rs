//! A port with async calls.

use crate::watch::PortWatch;
use netmem::{Batch, Pool, Port, PortState, Worker};
use std::io;
use std::panic::resume_unwind;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::task::coop::{consume_budget, poll_proceed};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

/// A port, the worker for its calls, and the pool that it receives into. See [the crate](crate).
///
/// Dropped, it closes the port on this thread: an AF_XDP port waits for up to two seconds for its device. In a runtime,
/// end it by [`AsyncPort::close`].
#[derive(Debug)]
pub struct AsyncPort {
    watch: PortWatch,
    port: PortBox,
    pool: Pool,
    worker: Worker,
    /// Maximum number of frames posted for reception.
    posted_max: usize,
    /// The port was down for good when it was asked last.
    has_failed: bool,
}

/// A port whose Debug output is its name.
struct PortBox(Box<dyn Port>);

impl std::fmt::Debug for PortBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl AsyncPort {
    /// Wraps an open port. `worker` should be the owner of `pool`. Any other worker will do, also one of another memory, but
    /// then each call that allocates takes the pool's lock. The port may be used in another runtime than this one.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::InvalidInput`] if the port cannot receive into the pool's frames
    /// ([`Fill::can_refill_from`](netmem::Fill::can_refill_from)), or the error of epoll_create(2).
    ///
    /// # Panics
    /// Panics outside of a tokio runtime with I/O and time (`enable_all`).
    pub fn new(port: Box<dyn Port>, worker: Worker, pool: Pool) -> io::Result<AsyncPort> {
        if !port.can_refill_from(&pool) {
            let (port, pool) = (port.name(), pool.name());
            let refused = format!(
                "{port} cannot receive into the frames of pool {pool:?}, which lie in another memory or are too small: give \
                 the pool that the port was opened with"
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, refused));
        }
        let (watch, port) = (PortWatch::new()?, PortBox(port));
        Ok(AsyncPort { watch, port, pool, worker, posted_max: usize::MAX, has_failed: false })
    }

    /// Sets the maximum number of frames posted for reception. The rest of the pool is for transmission. By default as
    /// many as the port's ring has slots.
    ///
    /// Frames that are posted already stay posted. With 0, no more are posted: the port receives into those that are, and
    /// then nothing.
    pub fn set_posted_max(&mut self, frames: usize) {
        self.posted_max = frames;
    }

    /// The maximum number of frames posted for reception.
    pub fn posted_max(&self) -> usize {
        self.posted_max
    }

    /// Waits until frames have been received, and appends them to `frames`. Returns their number. Returns 0 at once if
    /// `frames` has no room, or if nothing more is to be received: the port has [finished](netmem::Rx::rx_finished), is down
    /// for good ([`Port::is_failed`](netmem::Port::is_failed)), or its pool is closed
    /// ([`Pool::is_closed`](netmem::Pool::is_closed)) and no packet waits. A call that waits when its pool is closed
    /// returns within a second. So a loop ends where the call returns 0. A port that is down for good and still receives,
    /// as one of files whose disk is full, gets no more frames to receive into. A loop that only receives and transmits
    /// must free the frames that [`AsyncPort::transmit`] leaves, or wait until the port is [up](AsyncPort::up). Otherwise
    /// `frames` is full at last, and the call returns 0 too.
    ///
    /// # Cancelling
    /// A call that does not return has received nothing.
    pub async fn receive(&mut self, frames: &mut Batch) -> usize {
        loop {
            consume_budget().await;
            if let Some(received) = self.receive_now(frames) {
                return received;
            }
            self.wait().await;
        }
    }

    /// As [`AsyncPort::receive`], for a task that calls it again when it is woken. Only the last task that called is
    /// woken.
    ///
    /// ```
    /// use netmem::Batch;
    /// use netmem_tokio::AsyncPort;
    /// use std::future::poll_fn;
    ///
    /// async fn receive(port: &mut AsyncPort, frames: &mut Batch) -> usize {
    ///     poll_fn(|context| port.poll_receive(context, frames)).await
    /// }
    /// ```
    pub fn poll_receive(&mut self, context: &mut Context<'_>, frames: &mut Batch) -> Poll<usize> {
        self.watch.end(&mut *self.port.0);
        loop {
            ready!(poll_proceed(context)).made_progress();
            if let Some(received) = self.receive_now(frames) {
                return Poll::Ready(received);
            }
            ready!(self.watch.poll_wait(&mut *self.port.0, context));
        }
    }

    /// Receives waiting frames. Returns None if the task must wait.
    fn receive_now(&mut self, frames: &mut Batch) -> Option<usize> {
        self.tend();
        let mut received = self.try_receive(frames);
        if self.look_if_failed() && received == 0 {
            // Packets may have come between that look and the failure.
            received = self.try_receive(frames);
        }
        let is_done = received > 0 || frames.room() == 0 || self.has_failed || self.receives_no_more();
        is_done.then(|| {
            self.watch.worked();
            received
        })
    }

    /// Transmits all of `frames`, waiting for room. Returns their number. Frames that the port can never carry are
    /// freed, and the port counts them (`wrong_memory`, `tx_invalid`, `tx_too_long`). If the port is down, the call returns at
    /// once, and all frames that it did not take stay in `frames`. Free them, or wait until it is
    /// [up](AsyncPort::up).
    ///
    /// The frames are given to the device. [`AsyncPort::drained`] waits until it has sent them.
    ///
    /// # Cancelling
    /// Frames that were not given to the device yet are still in `frames`.
    pub async fn transmit(&mut self, frames: &mut Batch) -> usize {
        let mut taken = 0;
        loop {
            consume_budget().await;
            let now = self.try_transmit(frames);
            taken += now;
            // Before sent frames are claimed: a port whose last ones are claimed has room, and nothing in it.
            let is_down = self.is_down() && !self.sends_still();
            let no_room_comes = now == 0 && (!self.port.0.can_retry_tx() || is_down);
            let is_done = frames.is_empty() || no_room_comes;
            self.tend();
            if is_done {
                self.watch.worked();
                return taken;
            }
            if now == 0 {
                self.watch.wait_to_send(&mut *self.port.0).await;
            } else {
                self.watch.worked();
            }
        }
    }

    /// Waits until the device has sent all frames that it was given, and its peer has read its copies of them
    /// ([`Tx::tx_unread`](netmem::Tx::tx_unread)). A device that is down, and a peer that does not read, may keep them
    /// forever: bound the call by `tokio::time::timeout`.
    ///
    /// # Cancelling
    /// Nothing is lost.
    pub async fn drained(&mut self) {
        loop {
            consume_budget().await;
            self.tend();
            if self.port.0.tx_posted() == 0 && self.port.0.tx_unread() == 0 {
                return self.watch.worked();
            }
            // Nothing wakes the task when the peer reads.
            self.watch.set_unsent(true);
            self.watch.wait_to_send(&mut *self.port.0).await;
        }
    }

    /// Waits until the port is up ([`Port::state`](netmem::Port::state)), for a task that has frames which
    /// [`AsyncPort::transmit`] left. Returns true at once if it is, and false if it is down for good
    /// ([`Port::is_failed`](netmem::Port::is_failed)).
    ///
    /// # Cancelling
    /// Nothing is lost.
    #[must_use = "false: the port is down for good"]
    pub async fn up(&mut self) -> bool {
        loop {
            consume_budget().await;
            self.tend();
            let is_up = !self.is_down();
            if is_up || self.port.0.is_failed() {
                self.watch.worked();
                return is_up;
            }
            self.watch.wait_to_send(&mut *self.port.0).await;
        }
    }

    /// Waits until everything is sent ([`AsyncPort::drained`]), for at most `at_most`, and closes the port on a thread for
    /// blocking work. Returns whether everything was sent.
    ///
    /// # Panics
    /// Panics if the port panics.
    ///
    /// # Cancelling
    /// The port closes all the same, on the thread that drops the call if it has not begun to close.
    pub async fn close(mut self, at_most: Duration) -> bool {
        let is_sent = timeout(at_most, self.drained()).await.is_ok();
        let parts = self.into_parts();
        if let Err(error) = spawn_blocking(move || drop(parts)).await
            && let Ok(panic) = error.try_into_panic()
        {
            resume_unwind(panic);
        }
        is_sent
    }

    /// Allocates up to `count` empty frames of the pool, and appends them to `frames` while there is room. Returns
    /// their number: 0 forever if the port's ring has slots for all frames of the pool, since then all are posted for
    /// reception. Make the pool larger than the ring, or set [`AsyncPort::set_posted_max`].
    pub fn alloc_burst(&mut self, frames: &mut Batch, count: usize) -> usize {
        self.pool.alloc_burst(&mut self.worker, frames, count)
    }

    /// The port, for its state and its counters.
    pub fn port(&self) -> &dyn Port {
        &*self.port.0
    }

    /// The port, for calls that change it. It is not armed: a task that waits in [`AsyncPort::poll_receive`] is woken, and
    /// arms it again.
    pub fn port_mut(&mut self) -> &mut dyn Port {
        self.watch.interrupt(&mut *self.port.0);
        &mut *self.port.0
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The worker, for allocating and freeing.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// Returns the port and the worker.
    pub fn into_parts(mut self) -> (Box<dyn Port>, Worker) {
        self.watch.end(&mut *self.port.0);
        (self.port.0, self.worker)
    }

    /// Returns whether nothing is received after the packets that wait: the port has finished, or the pool that it receives
    /// into is closed.
    pub(crate) fn receives_no_more(&self) -> bool {
        let port = &*self.port.0;
        port.rx_finished() || port.own_pool().unwrap_or(&self.pool).is_closed()
    }

    /// Appends received frames, without waiting.
    pub(crate) fn try_receive(&mut self, frames: &mut Batch) -> usize {
        self.port.0.rx(&mut self.worker, frames)
    }

    /// Gives the device the frames for which it has room, and wakes it. Returns their number. Frames that it can never
    /// carry are freed, and the port counts them. Frames without room are still in `frames`, and all others if the port
    /// is down.
    ///
    /// While the device has frames to send, a task that waits in [`AsyncPort::poll_receive`] looks for those that it has
    /// sent: first after a millisecond, then after pauses of up to 50. Frames that stayed without room wake it once, as
    /// soon: call this with them again.
    pub fn transmit_now(&mut self, frames: &mut Batch) -> usize {
        let taken = self.try_transmit(frames);
        self.tend();
        if !frames.is_empty() || self.port.0.tx_posted() > 0 {
            self.watch.look_soon();
        }
        taken
    }

    /// Gives the device the frames for which it has room. Frames that it can never carry are freed, and the port counts
    /// them.
    pub(crate) fn try_transmit(&mut self, frames: &mut Batch) -> usize {
        let taken = self.port.0.tx(&mut self.worker, frames);
        if !frames.is_empty() {
            self.port.0.take_unsendable(frames).free(&mut self.worker);
        }
        self.watch.set_unsent(!frames.is_empty());
        taken
    }

    /// Frees sent frames, posts empty frames, and wakes the device if it asked for that.
    pub(crate) fn tend(&mut self) {
        let mut sent = Batch::new();
        loop {
            // Not the port's own number: with one that is too high, this loop might not end.
            self.port.0.complete(&mut self.worker, &mut sent);
            if sent.is_empty() {
                break;
            }
            sent.free(&mut self.worker);
        }
        let port = &mut *self.port.0;
        if !self.has_failed {
            port.refill_to(&mut self.worker, &self.pool, self.posted_max);
        }
        // If all frames of the pool are posted, none can return.
        let lacks_frames = !self.has_failed && port.lacks_frames(self.posted_max.min(self.pool.frames()));
        self.watch.set_short(lacks_frames);
        port.kick();
    }

    /// Looks whether the port is down for good. From then on it is not refilled: one that still receives, as from a file
    /// while the disk is full, would not come to its end.
    pub(crate) fn look_if_failed(&mut self) -> bool {
        self.has_failed = self.port.0.is_failed();
        self.has_failed
    }

    /// Returns whether the port is down.
    pub(crate) fn is_down(&self) -> bool {
        matches!(self.port.0.state(), PortState::Down(_))
    }

    /// Returns whether a port that is down for good still sends: only what it receives from has failed, as a file that is
    /// damaged.
    pub(crate) fn sends_still(&self) -> bool {
        let port = &*self.port.0;
        port.is_failed() && port.rx_finished() && port.can_retry_tx()
    }

    /// Returns whether the device has frames to send, whose completion wakes no task.
    pub(crate) fn is_sending(&self) -> bool {
        self.port.0.tx_posted() > 0
    }

    pub(crate) fn worked(&mut self) {
        self.watch.worked();
    }

    /// Waits until there may be work.
    pub(crate) async fn wait(&mut self) {
        self.watch.wait(&mut *self.port.0).await;
    }
}
