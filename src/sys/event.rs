//! Events that one thread raises and another sleeps for, and a watch over them and over sockets.

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The number of times in a row that a watch is read to clear it. It is enough for all watched descriptors, and it is
/// bounded even if peers continue to ring.
const LOOKS: usize = 16;

/// An event that is raised or not (eventfd(2)). Its descriptor is readable while it is raised. It stays in this
/// process; an event that another process has too is a `SharedEvent`.
#[derive(Debug)]
pub struct Event(OwnedFd);

impl Event {
    /// Makes an event that is not raised.
    ///
    /// # Errors
    /// The error of eventfd(2): the process or the system is out of descriptors.
    pub fn new() -> io::Result<Event> {
        Ok(Event(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Raises the event, once or again.
    pub fn raise(&self) {
        // This fails only if the event was raised 2^64 - 2 times already, and the event is raised then.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Clears the event. Returns true if it was raised.
    pub fn clear(&self) -> bool {
        // This fails only if the event was not raised.
        rustix::io::read(&self.0, &mut [0; size_of::<u64>()]).is_ok()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Several descriptors as one: readable if anything has happened to one of them since the watch was last cleared
/// (epoll(7), edge-triggered). Incoming data is never read through it.
#[derive(Debug)]
pub struct Watch(OwnedFd);

impl Watch {
    /// Makes a watch of no descriptors.
    ///
    /// # Errors
    /// The error of epoll_create(2).
    #[cold]
    pub fn new() -> io::Result<Watch> {
        Ok(Watch(epoll::create(epoll::CreateFlags::CLOEXEC)?))
    }

    /// Adds `descriptor`, once or again. It leaves the watch when its last copy in any process is closed. So a peer that
    /// has a copy can raise an event in the watch until [`Watch::remove`], or until the watch is closed.
    ///
    /// # Errors
    /// The error of epoll_ctl(2): `PERM` for a descriptor that cannot be watched, for example of a file. `NOSPC` or
    /// `NOMEM` if the system has no room for more.
    #[cold]
    pub fn add(&self, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
        match epoll::add(&self.0, descriptor, epoll::EventData::new_u64(0), flags) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Removes `descriptor`: events on it cost nothing again.
    #[cold]
    pub fn remove(&self, descriptor: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.0, descriptor);
    }

    /// Clears the watch.
    pub fn clear(&self) {
        let nothing = epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
        let mut happened = [nothing; 16];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        for _ in 0..LOOKS {
            if epoll::wait(&self.0, &mut happened[..], Some(&now)) != Ok(happened.len()) {
                break;
            }
        }
    }
}

impl AsFd for Watch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Returns whether the descriptor has something to read, without waiting. One in error has nothing.
///
/// # Cost
/// One system call, poll(2).
pub fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut one = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut one, Some(&now)) == Ok(1) && one[0].revents().contains(PollFlags::IN)
}

/// Sleeps until one of the descriptors is readable or broken, a signal comes, or the time is up. Returns false only if
/// the time is up.
///
/// # Cost
/// One system call, poll(2), and memory for the list.
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

    /// Long enough that a test that waits for it in vain is seen to hang.
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
    fn a_watch_sees_each_raise_once_and_takes_nothing_down() {
        let (watch, event) = (Watch::new().unwrap(), Event::new().unwrap());
        watch.add(event.as_fd()).unwrap();
        watch.add(event.as_fd()).unwrap();
        for _ in 0..2 {
            assert!(!sleep_until_readable(&[watch.as_fd()], Duration::ZERO));
            event.raise();
            assert!(sleep_until_readable(&[watch.as_fd()], LONG));
            watch.clear();
        }
        assert!(event.clear());
    }

    /// Seen: such a descriptor counted as watched.
    #[test]
    fn what_cannot_be_watched_is_an_error() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let refused = Watch::new().unwrap().add(file.as_fd()).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(Errno::PERM.raw_os_error()));
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
