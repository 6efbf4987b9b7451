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
use tokio::runtime::{Handle, Id};
use tokio::time::{Instant, Sleep, sleep};

/// The first pause for events that wake no task, and the longest.
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
    /// The runtime whose events end a pause: the one that polled last.
    runtime: Id,
    /// The descriptor, registered with that runtime. None if it could not be registered: then only time ends a pause, and
    /// the next pause tries again.
    watch: Option<AsyncFd<Watched>>,
    /// The last pause in which no event came; zero after a pause that was followed by work.
    pause: Duration,
    /// Ends the current pause.
    timer: Pin<Box<Sleep>>,
    waiting: Waiting,
    /// The last pause did not begin, since the port reported work. No work was done since then.
    was_ready: bool,
    /// The last transmission left frames for which the device had no room, and no pause has begun since. A task that
    /// still wants to send them transmits them again after the pause. Frames that it gave up shorten no later pause.
    has_unsent: bool,
    /// The pool had too few frames for the last refill, and frames that are elsewhere may return to it.
    is_short: bool,
}

/// What the task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// It does not wait.
    No,
    /// The device or the timer; the port is armed.
    Armed,
    /// The timer alone.
    Timer,
}

#[derive(Debug)]
struct Watched(Watch);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A pause that ends when this is dropped, also if the future that holds it is dropped.
struct EndsPause<'a>(&'a mut PortWatch, &'a mut dyn Port);

impl Drop for EndsPause<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

/// Registers a descriptor with this runtime.
fn register() -> io::Result<AsyncFd<Watched>> {
    #[allow(
        deprecated,
        reason = "for what gives another descriptor each time, or one that it does not own: this owns one"
    )]
    AsyncFd::with_interest(Watched(Watch::new()?), Interest::READABLE)
}

impl PortWatch {
    /// Makes the watch of one port.
    ///
    /// # Errors
    /// Returns the error of epoll_create(2).
    pub fn new() -> io::Result<PortWatch> {
        Ok(PortWatch {
            watch: Some(register()?),
            runtime: Handle::current().id(),
            pause: Duration::ZERO,
            timer: Box::pin(sleep(Duration::ZERO)),
            waiting: Waiting::No,
            was_ready: false,
            has_unsent: false,
            is_short: false,
        })
    }

    /// Records that there was work: pauses are short again.
    pub fn worked(&mut self) {
        self.pause = Duration::ZERO;
        self.was_ready = false;
    }

    /// Records whether the last transmission left frames for which the device had no room.
    pub fn set_unsent(&mut self, has_unsent: bool) {
        self.has_unsent = has_unsent;
    }

    /// Records whether the last refill wanted more frames than the pool had.
    pub fn set_short(&mut self, is_short: bool) {
        self.is_short = is_short;
    }

    /// Shortens a pause that [`PortWatch::poll_wait`] has begun. Its task then claims what was transmitted meanwhile:
    /// completions wake no task. The timer still wakes that task.
    pub fn look_soon(&mut self) {
        let soon = Instant::now() + SHORTEST;
        if self.waiting != Waiting::No && self.timer.deadline() > soon {
            self.pause = Duration::ZERO;
            self.timer.as_mut().reset(soon);
        }
    }

    /// Waits until there may be work, for a port that has none just now. Ends a pause that a poll has begun: it may be for
    /// another event, and longer.
    pub async fn wait(&mut self, port: &mut dyn Port) {
        self.end(port);
        let pause = EndsPause(self, port);
        poll_fn(|context| pause.0.poll_wait(pause.1, context)).await;
    }

    /// Waits until the device may have sent frames or changed its state, for a call that receives none. Received frames
    /// that wait would end each [`PortWatch::wait`] at once.
    pub async fn wait_to_send(&mut self, port: &mut dyn Port) {
        self.was_ready = true;
        self.wait(port).await;
    }

    /// As [`PortWatch::wait`], for a task that calls it again. Between two calls that return Pending, the port stays
    /// armed.
    pub fn poll_wait(&mut self, port: &mut dyn Port, context: &mut Context<'_>) -> Poll<()> {
        self.follow_runtime(port);
        if self.waiting == Waiting::No && self.begin(port) {
            return Poll::Ready(());
        }
        // Readable, in error, or too late: each is a reason to check.
        let is_armed = self.waiting == Waiting::Armed;
        let watch = self.watch.as_ref().filter(|_| is_armed);
        let is_woken =
            watch.is_some_and(|watch| matches!(watch.poll_read_ready(context), Poll::Ready(Ok(_))));
        if !is_woken {
            ready!(self.timer.as_mut().poll(context));
        }
        self.end(port);
        Poll::Ready(())
    }

    /// Moves to the runtime that polls, if that is another one than before. The one before may have ended, or no thread
    /// may drive it: then neither its events nor its timers would come.
    fn follow_runtime(&mut self, port: &mut dyn Port) {
        let here = Handle::try_current().map(|handle| handle.id());
        if let Ok(here) = here
            && here != self.runtime
        {
            self.end(port);
            self.timer = Box::pin(sleep(Duration::ZERO));
            (self.runtime, self.watch) = (here, None);
        }
    }

    /// Begins a pause. Returns true if there is work at once.
    fn begin(&mut self, port: &mut dyn Port) -> bool {
        if self.watch.is_none() {
            self.watch = register().ok();
        }
        // Cleared before the check: a later event makes the descriptor readable again, which wakes the task.
        let _ = self.watch.as_ref().map(|watch| {
            watch.try_io(Interest::READABLE, |watched| -> io::Result<()> {
                watched.0.clear();
                Err(ErrorKind::WouldBlock.into())
            })
        });
        self.waiting = Waiting::Armed;
        let is_ready = port.arm();
        let was_ready = std::mem::replace(&mut self.was_ready, is_ready);
        if is_ready {
            self.end(port);
            if !was_ready {
                return true;
            }
        }
        // Packets that wait for an empty frame, and packets that are dropped as they are received, are reported again
        // and again. Only time can help.
        let pause = if is_ready || port.rx_posted() == 0 && self.is_short {
            self.end(port);
            self.waiting = Waiting::Timer;
            self.longer_pause()
        } else {
            self.watched_pause(port)
        };
        self.timer.as_mut().reset(Instant::now() + pause);
        false
    }

    /// Watches the descriptor of the port. Returns the longest time to wait for it.
    fn watched_pause(&mut self, port: &dyn Port) -> Duration {
        let fd = port.wakeup_fd();
        let watch = self.watch.as_ref().map(|watch| &watch.get_ref().0);
        let is_watched = fd.zip(watch).is_some_and(|(fd, watch)| watch.add(fd).is_ok());
        let is_woken = is_watched && port.rx_posted() > 0 && port.state() == netmem::PortState::Up;
        // Nothing wakes the task when the device has room, or when a frame returns to the pool.
        let has_unsent = std::mem::take(&mut self.has_unsent);
        let waits_for_more = port.tx_posted() > 0 || has_unsent || self.is_short;
        if is_woken && !waits_for_more { LOOK } else { self.longer_pause() }
    }

    fn longer_pause(&mut self) -> Duration {
        self.pause = (2 * self.pause).clamp(SHORTEST, LONGEST);
        self.pause
    }

    /// Ends a pause that a poll has begun, and wakes its task, which no event wakes any more.
    pub fn interrupt(&mut self, port: &mut dyn Port) {
        if self.waiting != Waiting::No {
            self.end(port);
            self.timer.as_mut().reset(Instant::now());
        }
    }

    /// Ends the current pause, if there is one.
    pub fn end(&mut self, port: &mut dyn Port) {
        if std::mem::replace(&mut self.waiting, Waiting::No) == Waiting::Armed {
            port.disarm();
        }
    }
}
