//! A port's descriptors as one that a runtime may watch for as long as it likes.

use netmem::Port;
use netmem::system::event::Watch;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::time::Duration;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::timeout;

/// The first pause where nobody wakes, and the longest.
const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_millis(50);
/// The longest where the device wakes. Nothing does when its interface goes: a socket of AF_XDP that has lost it is never readable again
/// (xsk_poll). Nor when another program takes ours off it. A port looks for that once a second.
const LOOK: Duration = Duration::from_secs(1);

/// What wakes the task of a port. A port's socket may be another one after a while, which is watched in the place of the first; the
/// first is gone with its last descriptor, and that is the port's.
#[derive(Debug)]
pub struct PortWatch {
    watch: AsyncFd<Watched>,
    /// The last pause where nobody woke; zero after one in which something was done.
    pause: Duration,
}

#[derive(Debug)]
struct Watched(Watch);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// A port that is armed until this is dropped, also where the future that has it is.
struct Armed<'a>(&'a mut dyn Port);

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        self.0.disarm();
    }
}

impl PortWatch {
    pub fn new() -> io::Result<PortWatch> {
        #[allow(
            deprecated,
            reason = "for what gives another descriptor each time, or one that it does not own: this owns one"
        )]
        let watch = AsyncFd::with_interest(Watched(Watch::new()?), Interest::READABLE)?;
        Ok(PortWatch { watch, pause: Duration::ZERO })
    }

    /// Something was done: pauses are short again.
    pub fn worked(&mut self) {
        self.pause = Duration::ZERO;
    }

    /// Waits until there may be something to do, for a port by which nothing could be done just now.
    pub async fn wait(&mut self, port: &mut dyn Port) {
        // Forgotten before the look: what comes after it makes the descriptor readable again, which wakes the task.
        let _ = self.watch.try_io(Interest::READABLE, |watched| -> io::Result<()> {
            watched.0.clear();
            Err(ErrorKind::WouldBlock.into())
        });
        let armed = Armed(port);
        if armed.0.arm() {
            return;
        }
        let fd = armed.0.wakeup_fd();
        fd.iter().for_each(|fd| self.watch.get_ref().0.add(*fd));
        let is_woken = fd.is_some() && armed.0.rx_posted() > 0 && armed.0.tx_posted() == 0;
        let pause = if is_woken && armed.0.state() == netmem::PortState::Up {
            LOOK
        } else {
            self.pause = (2 * self.pause).clamp(SHORTEST, LONGEST);
            self.pause
        };
        // Readable, in error, or too late: each is a reason to look.
        let _ = timeout(pause, self.watch.readable()).await;
    }
}
