//! Tries again what the kernel refuses while it has not freed the memory or the queue of a closed socket. COLD.
//!
//! The kernel frees both from a work queue, a moment after the socket that had them is closed. A program that is started
//! again must not fail because of its own predecessor.

use crate::sys::errno::Errno;
use crate::sys::xdp::SocketError;
use std::thread;
use std::time::Duration;

/// Number of tries for a busy queue, and the wait before each: 5 s. The kernel frees a queue under the lock of all network
/// configuration, which a machine that takes many interfaces away holds for seconds.
pub(super) const BUSY_TRIES: u32 = 500;
pub(super) const BUSY_PAUSE: Duration = Duration::from_millis(10);
/// Number of further tries for a queue that no socket has: 60 s.
const FREED_TRIES: u32 = 6_000;

/// Tries again while the kernel refuses with `errno`, that many times.
pub(super) fn while_refused(
    errno: Errno,
    tries: u32,
    attempt: impl Fn() -> Result<(), SocketError>,
) -> Result<(), SocketError> {
    for _ in 0..tries {
        match attempt() {
            Err(error) if error.errno == errno => thread::sleep(BUSY_PAUSE),
            done => return done,
        }
    }
    attempt()
}

/// Tries `bind` again while the queue is busy, that many times. If no other socket can have the queue then, the kernel
/// has not freed it yet, and this goes on for a minute.
pub(super) fn bind_when_free(
    tries: u32,
    is_held: impl FnOnce() -> bool,
    bind: impl Fn() -> Result<(), SocketError>,
) -> Result<(), SocketError> {
    let done = while_refused(Errno::BUSY, tries, &bind);
    let is_busy = done.as_ref().is_err_and(|error| error.errno == Errno::BUSY);
    if is_busy && tries > 0 && !is_held() { while_refused(Errno::BUSY, FREED_TRIES, bind) } else { done }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::xdp::SocketStep;
    use std::cell::Cell;

    /// Seen: on a machine that took many interfaces away, a program that was started again was told to stop the program
    /// that had the queue, and there was none.
    #[test]
    fn a_queue_that_no_socket_has_is_waited_for_longer_than_one_that_another_program_has() {
        let bind = |is_held: bool, tries, busy| {
            let (mut asked, tried) = (0, Cell::new(0));
            let refuses = || {
                tried.set(tried.get() + 1);
                let errno = Errno::BUSY;
                if tried.get() <= busy { Err(SocketError { step: SocketStep::Bind, errno }) } else { Ok(()) }
            };
            let done = bind_when_free(
                tries,
                || {
                    asked += 1;
                    is_held
                },
                refuses,
            );
            (done.is_ok(), tried.get(), asked)
        };
        assert_eq!(bind(false, 2, 5), (true, 6, 1));
        assert_eq!(bind(true, 2, 5), (false, 3, 1));
        assert_eq!(bind(true, 2, 1), (true, 2, 0));
        assert_eq!(bind(false, 0, 1), (false, 1, 0), "the queue of a port that is polled is not waited for");
    }
}
