//! A port whose calls wait.

use crate::watch::PortWatch;
use netmem::{Batch, Pool, Port, Worker};
use std::io;
use std::task::{Context, Poll, ready};
use tokio::task::coop::{consume_budget, poll_proceed};

/// A port, the worker at whose caches its calls are, and the pool that it receives into. See [the crate](crate).
#[derive(Debug)]
pub struct AsyncPort {
    watch: PortWatch,
    port: PortBox,
    pool: Pool,
    worker: Worker,
    /// Frames posted for reception at most.
    posted_max: usize,
}

/// A port, shown by its name.
struct PortBox(Box<dyn Port>);

impl std::fmt::Debug for PortBox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.name())
    }
}

impl AsyncPort {
    /// Makes one of an open port. `worker` is the owner of `pool`, or another worker of its memory.
    ///
    /// # Errors
    /// What epoll_create(2) says.
    ///
    /// # Panics
    /// Outside of a runtime of tokio with I/O and time (`enable_all`).
    pub fn new(port: Box<dyn Port>, worker: Worker, pool: Pool) -> io::Result<AsyncPort> {
        Ok(AsyncPort { watch: PortWatch::new()?, port: PortBox(port), pool, worker, posted_max: usize::MAX })
    }

    /// Sets how many frames are posted for reception at most: the rest of the pool is for those who send. By default as many as the port's
    /// ring has slots.
    pub fn set_posted_max(&mut self, frames: usize) {
        self.posted_max = frames;
    }

    /// Waits until frames have been received, and appends them to `frames`; returns how many. 0 where there is no room, and where nothing
    /// will be received any more ([`Rx::rx_finished`](netmem::Rx::rx_finished)).
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

    /// As [`AsyncPort::receive`], for a task that asks again when it is woken, which is the last one that asked.
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
        let budget = ready!(poll_proceed(context));
        loop {
            if let Some(received) = self.receive_now(frames) {
                budget.made_progress();
                return Poll::Ready(received);
            }
            ready!(self.watch.poll_wait(&mut *self.port.0, context));
        }
    }

    /// Receives what is there; None where the task is to wait.
    fn receive_now(&mut self, frames: &mut Batch) -> Option<usize> {
        self.tend();
        let received = self.port.0.rx(&mut self.worker, frames);
        let is_done = received > 0 || frames.room() == 0 || self.port.0.rx_finished();
        is_done.then(|| {
            self.watch.worked();
            received
        })
    }

    /// Transmits all of `frames`, waiting for room; returns how many. Frames that the port can never carry are freed, and counted by it
    /// (`foreign`, `tx_invalid`). What is left in `frames` finds no room and none is to come: the port is down.
    ///
    /// They are given to the device; [`AsyncPort::drained`] waits until it has sent them.
    ///
    /// # Cancelling
    /// What was not given to the device yet is still in `frames`.
    pub async fn transmit(&mut self, frames: &mut Batch) -> usize {
        let mut taken = 0;
        loop {
            consume_budget().await;
            let now = self.transmit_now(frames);
            taken += now;
            let is_done = frames.is_empty() || !self.port.0.can_retry_tx();
            if is_done {
                self.watch.worked();
                return taken;
            }
            if now == 0 {
                self.wait().await;
            }
        }
    }

    /// Waits until the device has sent all that it was given.
    pub async fn drained(&mut self) {
        loop {
            consume_budget().await;
            self.tend();
            if self.port.0.tx_posted() == 0 {
                return self.watch.worked();
            }
            self.wait().await;
        }
    }

    /// Allocates empty frames of the pool, up to `count` of them, and appends them to `frames` while there is room; returns how many.
    pub fn alloc_burst(&mut self, frames: &mut Batch, count: usize) -> usize {
        self.pool.alloc_burst(&mut self.worker, frames, count)
    }

    /// The port: its state and its counters.
    pub fn port(&self) -> &dyn Port {
        &*self.port.0
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The worker, to allocate and free by.
    pub fn worker(&mut self) -> &mut Worker {
        &mut self.worker
    }

    /// The port and the worker again.
    pub fn into_parts(mut self) -> (Box<dyn Port>, Worker) {
        self.watch.end(&mut *self.port.0);
        (self.port.0, self.worker)
    }

    /// Appends what was received, without waiting.
    pub(crate) fn try_receive(&mut self, frames: &mut Batch) -> usize {
        self.port.0.rx(&mut self.worker, frames)
    }

    /// Gives the device what it has room for, and wakes it; returns how many frames that is. What it can never carry is freed, and counted by the
    /// port; what found no room is still in `frames`.
    pub fn transmit_now(&mut self, frames: &mut Batch) -> usize {
        let taken = self.try_transmit(frames);
        self.tend();
        taken
    }

    /// Gives the device what it has room for; what it can never carry is freed, and counted by the port.
    pub(crate) fn try_transmit(&mut self, frames: &mut Batch) -> usize {
        let taken = self.port.0.tx(&mut self.worker, frames);
        if !frames.is_empty() {
            self.port.0.take_unsendable(frames).free(&mut self.worker);
        }
        taken
    }

    /// Frees what was sent, posts empty frames, and wakes the device where it asked for that.
    pub(crate) fn tend(&mut self) {
        let mut sent = Batch::new();
        while self.port.0.complete(&mut self.worker, &mut sent) > 0 {
            sent.free(&mut self.worker);
        }
        self.port.0.refill_to(&mut self.worker, &self.pool, self.posted_max);
        self.port.0.kick();
    }

    pub(crate) fn worked(&mut self) {
        self.watch.worked();
    }

    /// Waits until there may be something to do.
    pub(crate) async fn wait(&mut self) {
        self.watch.wait(&mut *self.port.0).await;
    }
}
