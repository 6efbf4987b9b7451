//! The end of the process that asks its broker.

use super::channel::{Channel, Message};
use super::request::Request;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The bit of a message's first byte that says that the sender does not wait for an answer.
pub(super) const TOLD: u8 = 2;
/// A request's number, which its answer begins with.
pub(super) type Number = [u8; 4];
/// Maximum number of bytes of an answer behind its number. A verifier's log is cut to that.
const ANSWER_MAX: usize = 4096;
/// The timeout of an answer. To attach a program the broker waits for the kernel's lock of all interfaces, which may
/// take longer: the request then fails, and its answer is discarded when it comes.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// The broker of this process, once it has one.
static BROKER: OnceLock<Broker> = OnceLock::new();

/// Files that were opened before there was a broker.
static READ: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

thread_local! {
    /// A socket of the network namespace in which requests of this thread are carried out; None for the broker's own.
    static PLACE: RefCell<Option<OwnedFd>> = const { RefCell::new(None) };
}

/// The end of a process that asks its broker.
#[derive(Debug)]
pub struct Broker {
    channel: Mutex<Asking>,
    /// Whether this process needs the broker no longer.
    is_over: AtomicBool,
}

/// The process's end of the channel, and the number of the latest request.
#[derive(Debug)]
struct Asking {
    channel: Channel,
    latest: u32,
}

/// The broker's answer if a request fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The kernel's error; `PIPE` if the broker is gone, `TIMEDOUT` if it does not answer in time, `PROTO` if its answer
    /// makes no sense.
    pub errno: Errno,
    /// The number of the step that failed, if there are several.
    pub step: u8,
    /// More about the error.
    pub text: String,
}

/// The broker of this process. None if there is none, so that this process does everything itself.
#[inline]
pub fn current() -> Option<&'static Broker> {
    BROKER.get()
}

/// Sends a request to the broker, which must exist, and waits for the answer: its bytes, and the descriptors that it
/// brings.
///
/// # Errors
/// [`Refusal`].
#[cold]
pub fn ask(broker: &Broker, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Message, Refusal> {
    PLACE.with_borrow(|place| broker.ask(request, place.as_ref(), descriptors))
}

/// Sends a request to the broker, and does not wait for an answer. Many such requests cost it one turn on a busy
/// machine.
///
/// # Errors
/// The error of sendmsg(2): `PIPE` if the broker is gone.
#[cold]
pub fn tell(broker: &Broker, request: &Request) -> Result<(), Errno> {
    broker.channel.lock().unwrap_or_else(PoisonError::into_inner).send(TOLD, request, &[]).map(drop)
}

/// Does the same as [`ask`] for a request whose answer is one descriptor.
///
/// # Errors
/// [`Refusal`].
#[cold]
pub fn ask_for_one(
    broker: &Broker,
    request: &Request,
    descriptors: &[BorrowedFd<'_>],
) -> Result<OwnedFd, Refusal> {
    let (_, brought) = ask(broker, request, descriptors)?;
    brought.into_iter().next().ok_or_else(|| Errno::PROTO.into())
}

/// Opens a file for reading, through the broker if there is one. It does not wait for a writer of a pipe.
///
/// # Errors
/// The error of open(2); `ACCESS` if the broker was not given the file when it was started.
#[cold]
pub fn open_to_read(path: &Path) -> io::Result<File> {
    match current() {
        None => open_here(path).inspect(|_| record(path)),
        Some(broker) => match ask_for_one(broker, &Request::Read(path.to_owned()), &[]) {
            Ok(file) => Ok(file.into()),
            Err(refusal) => Err(refusal.errno.into()),
        },
    }
}

/// Opens a file for reading in this process, and records nothing.
pub(super) fn open_here(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)
}

/// Records that a file was opened. A file that is opened again is recorded once.
fn record(path: &Path) {
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if !read.iter().any(|one| one == path) {
        read.push(path.to_owned());
    }
}

/// The files that [`open_to_read`] has opened so far. Files that are read before a broker is started may be read again.
pub fn read_so_far() -> Vec<PathBuf> {
    READ.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Calls `call`. The broker carries out its requests in the network namespace of `socket`.
///
/// # Errors
/// The error of dup(2).
#[cold]
pub fn at<T>(socket: BorrowedFd<'_>, call: impl FnOnce() -> T) -> Result<T, Errno> {
    /// The previous place, which is restored in any case.
    struct Before(Option<OwnedFd>);
    impl Drop for Before {
        fn drop(&mut self) {
            PLACE.replace(self.0.take());
        }
    }
    let socket = fcntl_dupfd_cloexec(socket, 0)?;
    let _before = Before(PLACE.replace(Some(socket)));
    Ok(call())
}

/// Whether this process had a broker that has ended before its time.
#[cold]
pub fn is_gone() -> bool {
    current().is_some_and(Broker::is_gone)
}

/// Sets the broker of this process. Returns false if it had one already.
pub(super) fn set(channel: Channel) -> bool {
    channel.set_patience(ANSWER_TIMEOUT).is_ok() && BROKER.set(Broker::new(channel)).is_ok()
}

impl Broker {
    pub(super) fn new(channel: Channel) -> Broker {
        Broker { channel: Mutex::new(Asking { channel, latest: 0 }), is_over: AtomicBool::new(false) }
    }

    /// Closes the socket for both ends: the broker ends.
    pub(super) fn close(&self) {
        self.is_over.store(true, Relaxed);
        let asking = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        // A broker that is gone needs no message.
        let _ = rustix::net::shutdown(&asking.channel.0, rustix::net::Shutdown::Both);
    }

    pub(super) fn is_gone(&self) -> bool {
        // While another thread waits for an answer, that thread finds out.
        let Ok(asking) = self.channel.try_lock() else { return false };
        let mut ends = [PollFd::new(&asking.channel.0, PollFlags::empty())];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        let is_closed = poll(&mut ends, Some(&at_once)).is_ok() && ends[0].revents().contains(PollFlags::HUP);
        is_closed && !self.is_over.load(Relaxed)
    }

    pub(super) fn ask(
        &self,
        request: &Request,
        place: Option<&OwnedFd>,
        descriptors: &[BorrowedFd<'_>],
    ) -> Result<Message, Refusal> {
        let with: Vec<_> = place.map(AsFd::as_fd).into_iter().chain(descriptors.iter().copied()).collect();
        let mut asking = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let number = asking.send(u8::from(place.is_some()), request, &with)?;
        let (bytes, brought) = asking.answer_to(number)?;
        Refusal::of_answer(bytes, brought)
    }
}

impl Asking {
    /// Sends a request. Returns its number.
    fn send(&mut self, flags: u8, request: &Request, with: &[BorrowedFd<'_>]) -> Result<Number, Errno> {
        self.latest = self.latest.wrapping_add(1);
        let number = self.latest.to_ne_bytes();
        let message = [&[flags][..], &number, &request.to_bytes()].concat();
        self.channel.send(&message, with).map_err(in_time)?;
        Ok(number)
    }

    /// Waits for the answer to the request of this number. Answers to earlier requests, which come too late, are
    /// discarded with their descriptors.
    fn answer_to(&self, number: Number) -> Result<Message, Errno> {
        loop {
            let answer = self.channel.receive(size_of::<Number>() + ANSWER_MAX).map_err(in_time)?;
            let (mut bytes, brought) = answer.ok_or(Errno::PIPE)?;
            if bytes.starts_with(&number) {
                bytes.drain(..size_of::<Number>());
                return brought.map(|brought| (bytes, brought));
            }
        }
    }
}

/// The error of a call that waited.
fn in_time(errno: Errno) -> Errno {
    if errno == Errno::AGAIN { Errno::TIMEDOUT } else { errno }
}

impl From<Refusal> for Errno {
    fn from(refusal: Refusal) -> Errno {
        refusal.errno
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal { errno, step: 0, text: String::new() }
    }
}

impl Refusal {
    /// The form of an answer: a 1, the step, the number of the error, the text.
    pub(super) fn to_answer(&self) -> Vec<u8> {
        let number = self.errno.raw_os_error().to_ne_bytes();
        let mut answer = [&[1, self.step], &number[..], self.text.as_bytes()].concat();
        answer.truncate(ANSWER_MAX);
        answer
    }

    /// Reads an answer: a 0 and the result, or a refusal.
    fn of_answer(mut bytes: Vec<u8>, brought: Vec<OwnedFd>) -> Result<Message, Refusal> {
        match bytes[..] {
            [0, ..] => {
                bytes.remove(0);
                Ok((bytes, brought))
            }
            [1, step, a, b, c, d, ref text @ ..] => Err(Refusal {
                errno: Errno::from_raw_os_error(i32::from_ne_bytes([a, b, c, d])),
                step,
                text: String::from_utf8_lossy(text).into_owned(),
            }),
            _ => Err(Errno::PROTO.into()),
        }
    }
}
