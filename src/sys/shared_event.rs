//! Events that another process shares. They are raised without ever waiting.
//!
//! A write(2) to an eventfd(2) waits while its counter is full and the descriptor's file has no `O_NONBLOCK`. Every
//! process that has the descriptor can change both, at any time between a check and the write, so no check helps.
//! pwritev2(2) refuses `RWF_NOWAIT` on an eventfd.
//!
//! The kernel has a method that never waits: it raises an eventfd when an asynchronous request is done (io_submit(2),
//! `IOCB_FLAG_RESFD`). This ignores the file's flags, and leaves a full counter full. So this code submits a request to
//! read no bytes, which is done before the call returns (ADR 0035).

use super::errno::last_errno;
use super::slow_close::{PeerDescriptor, is_event};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// The number of requests that may be done and not collected. This many, and a few more, take one call each; then one
/// more call collects them.
const REQUESTS: usize = 64;
/// `IOCB_CMD_PREAD` of `linux/aio_abi.h`.
const READ: u16 = 0;
/// `IOCB_FLAG_RESFD`: raises an eventfd when the request is done.
const RAISES: u32 = 1;

/// An event (eventfd(2)) that a peer has too. Either side may have made it. Only a [`Ringer`] raises it, and it is
/// never read.
#[derive(Debug)]
pub struct SharedEvent(OwnedFd);

impl SharedEvent {
    /// Makes a new event, to be given to a peer.
    ///
    /// # Errors
    /// The error of eventfd(2): the process or the system is out of descriptors.
    #[cold]
    pub fn new() -> io::Result<SharedEvent> {
        Ok(SharedEvent(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Wraps an event that a peer made. If the descriptor is something else, such as memory or a file, it comes back.
    /// Without /proc, no descriptor is known to be an event.
    #[cold]
    pub fn of_peer(descriptor: impl Into<PeerDescriptor>) -> Result<SharedEvent, PeerDescriptor> {
        let descriptor = descriptor.into();
        if is_event(&descriptor) { Ok(SharedEvent(descriptor.into_known())) } else { Err(descriptor) }
    }
}

impl AsFd for SharedEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// `struct iocb` of `linux/aio_abi.h`. The order of the two words behind `data` depends on the byte order; both are 0
/// here.
#[repr(C)]
#[derive(Debug, Default)]
struct Request {
    data: u64,
    key: u32,
    rw_flags: u32,
    operation: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event: u32,
}

/// `struct io_event` of the same header: of a request that is done. Its contents are not used here.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Done([u64; 4]);

/// Raises events that are shared. It has its own context of asynchronous requests (io_setup(2)).
#[derive(Debug)]
pub struct Ringer {
    /// The context's number, which the kernel chose.
    context: libc::c_ulong,
    /// An empty file, which the requests read.
    file: OwnedFd,
    /// Why the last event was not raised.
    failure: Option<Errno>,
}

impl Ringer {
    /// Makes the context.
    ///
    /// # Errors
    /// The error of io_setup(2): `EAGAIN` if the system has no more contexts (`fs.aio-max-nr`), `ENOSYS` or `EPERM` if
    /// the kernel or a filter allows none at all. Or the process is out of descriptors.
    #[cold]
    pub fn new() -> Result<Ringer, Errno> {
        let file = memfd_create("netmem-bell", MemfdFlags::CLOEXEC)?;
        let mut context: libc::c_ulong = 0;
        // SAFETY: the kernel reads and writes that word, which must be 0, and keeps no pointer to it.
        let failed = unsafe { libc::syscall(libc::SYS_io_setup, REQUESTS, &raw mut context) } < 0;
        if failed {
            Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::NOSYS))
        } else {
            Ok(Ringer { context, file, failure: None })
        }
    }

    /// Raises `event`, once or again. An event whose counter is full is raised already. Returns false if it is not raised:
    /// the kernel has no memory for it now, or does not allow it ([`Ringer::failure`]).
    ///
    /// # Cost
    /// One system call that never waits, and occasionally a second one.
    #[cold]
    #[inline(never)]
    pub fn raise(&mut self, event: &SharedEvent) -> bool {
        let raised = self.submit(event);
        let raised = raised.or_else(|errno| if self.clear() { self.submit(event) } else { Err(errno) });
        self.failure = raised.err();
        raised.is_ok()
    }

    /// The error of io_submit(2) for the last event, if it was not raised. `AGAIN` passes.
    pub fn failure(&self) -> Option<Errno> {
        self.failure
    }

    /// Takes the context away, so that nothing is raised any more.
    #[cfg(test)]
    pub(crate) fn destroy(&mut self) {
        // SAFETY: as in the drop, which then destroys nothing.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
        self.context = 0;
    }

    fn submit(&self, event: &SharedEvent) -> Result<(), Errno> {
        let mut request = Request {
            operation: READ,
            file: self.file.as_raw_fd() as u32,
            flags: RAISES,
            event: event.0.as_raw_fd() as u32,
            ..Request::default()
        };
        let requests = [&raw mut request];
        let (n, list): (libc::c_long, _) = (1, requests.as_ptr());
        // SAFETY: one request, laid out as the kernel requires. The kernel copies it and writes its key. It names no
        // buffer, because nothing is read. It is done when the call returns, and nothing of it is kept.
        let submitted = unsafe { libc::syscall(libc::SYS_io_submit, self.context, n, list) };
        if submitted == 1 { Ok(()) } else { Err(last_errno()) }
    }

    /// Collects the requests that are done, which makes room for others.
    fn clear(&self) -> bool {
        let mut done = [Done::default(); REQUESTS];
        let (least, most): (libc::c_long, _) = (0, REQUESTS as libc::c_long);
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let (into, until) = (done.as_mut_ptr(), &raw const now);
        // SAFETY: the kernel writes at most that many of them, reads the time, and keeps no pointer.
        unsafe { libc::syscall(libc::SYS_io_getevents, self.context, least, most, into, until) > 0 }
    }
}

impl Drop for Ringer {
    fn drop(&mut self) {
        // SAFETY: the context is ours, and no request of it is in flight. In a child of fork(2) there is no context of
        // that number.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// The operations of a hostile peer on an event that it shares.
#[cfg(test)]
pub(crate) mod hostile {
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::io::{read, write};
    use std::os::fd::AsFd;

    /// The largest value that a write can leave in an eventfd.
    pub const FULL: u64 = u64::MAX - 1;

    /// Drains its counter, which is 0 then. Returns 0 if it was 0.
    pub fn drain(event: &impl AsFd) -> u64 {
        let mut counter = [0; 8];
        fcntl_setfl(event, OFlags::NONBLOCK).unwrap();
        read(event, &mut counter).map_or(0, |_| u64::from_ne_bytes(counter))
    }

    /// Makes it an event that waits, with a full counter.
    pub fn fill(event: &impl AsFd) {
        while write(event, &FULL.to_ne_bytes()).is_err() {
            drain(event);
        }
        fcntl_setfl(event, OFlags::empty()).unwrap();
    }
}

#[cfg(test)]
mod tests {
    use super::hostile::{FULL, drain, fill};
    use super::*;
    use crate::sys::event::{Watch, sleep_until_readable};
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::AtomicU64;
    use std::sync::atomic::Ordering::Relaxed;
    use std::time::{Duration, Instant};

    /// Long enough that a test that waits for it in vain is seen to hang.
    const LONG: Duration = Duration::from_secs(60);
    #[test]
    fn each_raise_counts_one_however_many_there_are_and_a_watch_sees_it() {
        let (mut ringer, event) = (Ringer::new().unwrap(), SharedEvent::new().unwrap());
        let watch = Watch::new().unwrap();
        watch.add(event.as_fd()).unwrap();
        for _ in 0..2 {
            assert!(!sleep_until_readable(&[watch.as_fd()], Duration::ZERO));
            assert!(ringer.raise(&event));
            assert!(sleep_until_readable(&[watch.as_fd()], LONG));
            watch.clear();
        }
        let more = 50 * REQUESTS as u64;
        assert!((0..more).all(|_| ringer.raise(&event)));
        assert_eq!(drain(&event), 2 + more);
    }

    #[test]
    fn an_event_that_is_full_and_waits_is_raised_at_once_and_stays_full() {
        let (mut ringer, event) = (Ringer::new().unwrap(), SharedEvent::new().unwrap());
        fill(&event);
        assert!((0..3 * REQUESTS).all(|_| ringer.raise(&event)));
        assert!(drain(&event) >= FULL);
        assert!(ringer.raise(&event));
        assert_eq!(drain(&event), 1);
    }

    #[test]
    fn a_peer_that_fills_an_event_up_while_it_is_raised_stops_nobody() {
        let (mut ringer, event) = (Ringer::new().unwrap(), SharedEvent::new().unwrap());
        let (raised, over) = (&AtomicU64::new(0), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Relaxed) {
                    assert!(ringer.raise(&event));
                    raised.fetch_add(1, Relaxed);
                }
            });
            let until = Instant::now() + LONG;
            for round in 0..500 {
                drain(&event);
                fill(&event);
                let before = raised.load(Relaxed);
                while raised.load(Relaxed) < before + 2 && Instant::now() < until {
                    std::hint::spin_loop();
                }
                if Instant::now() >= until {
                    over.store(true, Relaxed);
                    drain(&event);
                    panic!("it waits in round {round}");
                }
            }
            over.store(true, Relaxed);
        });
    }

    #[test]
    fn nothing_but_an_event_is_taken_for_one() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let (socket, peer) = std::os::unix::net::UnixStream::pair().unwrap();
        let file = std::env::temp_dir().join(format!("anon_inode:[eventfd]{}", std::process::id()));
        let opened = std::fs::File::create(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        let watch = Watch::new().unwrap().as_fd().try_clone_to_owned().unwrap();
        for other in [reader, writer, socket.into(), peer.into(), opened.into(), watch] {
            assert!(SharedEvent::of_peer(other).is_err());
        }
        assert!(SharedEvent::of_peer(eventfd(0, EventfdFlags::empty()).unwrap()).is_ok());
    }
}
