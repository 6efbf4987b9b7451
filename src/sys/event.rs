//! Events: something that one thread raises and another sleeps for, beside sockets.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// An event that is raised or not (eventfd(2)); its descriptor is readable while it is raised.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// An event that is not raised.
    ///
    /// # Errors
    /// What eventfd(2) says: the process or the system is out of descriptors.
    pub fn new() -> io::Result<Event> {
        Ok(Event(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Raises it, once or again.
    pub fn raise(&self) {
        // It fails only where it was raised 2^64 - 2 times already, and is raised then.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Takes it down; true if it was raised.
    pub fn clear(&self) -> bool {
        // It fails only where it was not raised.
        rustix::io::read(&self.0, &mut [0; size_of::<u64>()]).is_ok()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Sleeps until one of the descriptors is readable or broken, a signal comes, or the time is up; true in all cases but the
/// last.
///
/// # Cost
/// One system call, poll(2), and room for the list.
pub fn sleep_until_readable(descriptors: &[BorrowedFd<'_>], at_most: Duration) -> bool {
    let at_most = Timespec {
        tv_sec: i64::try_from(at_most.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: at_most.subsec_nanos().into(),
    };
    let each = descriptors.iter().map(|&one| PollFd::from_borrowed_fd(one, PollFlags::IN));
    poll(&mut each.collect::<Vec<_>>(), Some(&at_most)) != Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough that a test which waits for it in vain is seen to hang.
    const LONG: Duration = Duration::from_secs(600);

    #[test]
    fn an_event_stays_raised_until_it_is_cleared() {
        let event = Event::new().unwrap();
        assert!(!event.clear() && !sleep_until_readable(&[event.as_fd()], Duration::ZERO));
        event.raise();
        event.raise();
        assert!(sleep_until_readable(&[event.as_fd()], LONG));
        assert!(event.clear() && !event.clear());
        assert!(!sleep_until_readable(&[event.as_fd()], Duration::ZERO));
    }

    #[test]
    fn a_sleeper_wakes_by_any_of_its_events_and_when_its_time_is_up() {
        let events = [(); 3].map(|()| Event::new().unwrap());
        let all = events.each_ref().map(AsFd::as_fd);
        std::thread::scope(|scope| {
            scope.spawn(|| events[2].raise());
            assert!(sleep_until_readable(&all, LONG));
        });
        assert!(!sleep_until_readable(&[], Duration::from_millis(1)));
    }
}
