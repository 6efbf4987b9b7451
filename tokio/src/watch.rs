//! A port's descriptors as one descriptor, which a runtime may watch for any time.

use netmem::Port;
use netmem::system::event::Watch;
use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, Sleep, sleep};

/// The first pause for events that wake nobody, and the longest.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);
/// The longest pause with a device that wakes. Nothing wakes the task when its interface is removed: an AF_XDP socket
/// that has lost it is never readable again (xsk_poll). Nothing wakes it when another program takes the redirect
/// program off the interface either. A port checks for both once a second.
const LOOK: Duration = Duration::from_secs(1);

/// Wakes the task of a port. A port's socket may be replaced after a while. The new one is then watched in place of the
/// first. The first is gone with its last descriptor, which is the port's.
#[derive(Debug)]
pub struct PortWatch {
    watch: AsyncFd<Watched>,
    /// The last pause in which no event came; zero after a pause that was followed by work.
    pause: Duration,
    /// Ends the current pause.
    timer: Pin<Box<Sleep>>,
    /// The port is armed, and a pause has begun.
    is_armed: bool,
}

#[derive(Debug)]
struct Watched(Watch);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A pause that ends when this is dropped, also if the future that holds it is dropped.
struct Waiting<'a>(&'a mut PortWatch, &'a mut dyn Port);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

impl PortWatch {
    pub fn new() -> io::Result<PortWatch> {
        #[allow(
            deprecated,
            reason = "for what gives another descriptor each time, or one that it does not own: this owns one"
        )]
        let watch = AsyncFd::with_interest(Watched(Watch::new()?), Interest::READABLE)?;
        let timer = Box::pin(sleep(Duration::ZERO));
        Ok(PortWatch { watch, pause: Duration::ZERO, timer, is_armed: false })
    }

    /// Records that there was work: pauses are short again.
    pub fn worked(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// Waits until there may be work, for a port that has none just now.
    pub async fn wait(&mut self, port: &mut dyn Port) {
        let waiting = Waiting(self, port);
        poll_fn(|context| waiting.0.poll_wait(waiting.1, context)).await;
    }

    /// Waits until the device may have sent frames, for a call that receives none. Received frames that wait would end
    /// each [`PortWatch::wait`] at once.
    pub async fn wait_to_send(&mut self, port: &mut dyn Port) {
        if !self.is_armed && self.begin(port) {
            return sleep(self.longer_pause()).await;
        }
        self.wait(port).await;
    }

    /// As [`PortWatch::wait`], for a task that calls it again. Between two calls that return Pending, the port stays
    /// armed.
    pub fn poll_wait(&mut self, port: &mut dyn Port, context: &mut Context<'_>) -> Poll<()> {
        if !self.is_armed && self.begin(port) {
            return Poll::Ready(());
        }
        // Readable, in error, or too late: each is a reason to check.
        if self.watch.poll_read_ready(context).is_pending() {
            ready!(self.timer.as_mut().poll(context));
        }
        self.end(port);
        Poll::Ready(())
    }

    /// Begins a pause. Returns true if there is work at once.
    fn begin(&mut self, port: &mut dyn Port) -> bool {
        // Cleared before the check: a later event makes the descriptor readable again, which wakes the task.
        let _ = self.watch.try_io(Interest::READABLE, |watched| -> io::Result<()> {
            watched.0.clear();
            Err(ErrorKind::WouldBlock.into())
        });
        self.is_armed = true;
        if port.arm() {
            self.end(port);
            return true;
        }
        let fd = port.wakeup_fd();
        fd.iter().for_each(|fd| self.watch.get_ref().0.add(*fd));
        let is_woken = fd.is_some() && port.rx_posted() > 0 && port.tx_posted() == 0;
        let pause =
            if is_woken && port.state() == netmem::PortState::Up { LOOK } else { self.longer_pause() };
        self.timer.as_mut().reset(Instant::now() + pause);
        false
    }

    fn longer_pause(&mut self) -> Duration {
        self.pause = (2 * self.pause).clamp(SHORTEST, LONGEST);
        self.pause
    }

    /// Ends the current pause, if there is one.
    pub fn end(&mut self, port: &mut dyn Port) {
        if std::mem::take(&mut self.is_armed) {
            port.disarm();
        }
    }
}
