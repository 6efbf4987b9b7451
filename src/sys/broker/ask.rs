//! The end of the one that asks.

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

/// The bit of a message's first byte that says that nobody waits for the answer.
pub(super) const TOLD: u8 = 2;
/// Bytes of an answer at most. What a verifier says is cut to that.
const ANSWER_MAX: usize = 4096;
/// How long an answer may take: to attach a program waits for the kernel's lock of all interfaces.
const PATIENCE: Duration = Duration::from_secs(10);

/// The broker of this process, once it has one.
static BROKER: OnceLock<Broker> = OnceLock::new();

/// Files that were read without a broker.
static READ: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

thread_local! {
    /// A socket of the network namespace in which requests of this thread are carried out; None for the broker's own.
    static PLACE: RefCell<Option<OwnedFd>> = const { RefCell::new(None) };
}

/// The end of a process that asks its broker.
#[derive(Debug)]
pub struct Broker {
    channel: Mutex<Channel>,
    /// This process wants nothing of it any more.
    is_over: AtomicBool,
}

/// What the broker answers in place of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What the kernel said to it; `PIPE` where it is gone, `PROTO` where its answer makes no sense.
    pub errno: Errno,
    /// The number of the step that failed, where there are several.
    pub step: u8,
    /// More about it.
    pub text: String,
}

/// The broker of this process; None where there is none, so that everything is done here.
#[inline]
pub fn current() -> Option<&'static Broker> {
    BROKER.get()
}

/// Asks the broker, which must be there, and waits for the answer: its bytes, and the descriptors that it brings.
///
/// # Errors
/// [`Refusal`].
#[cold]
pub fn ask(broker: &Broker, request: &Request, descriptors: &[BorrowedFd<'_>]) -> Result<Message, Refusal> {
    PLACE.with_borrow(|place| broker.ask(request, place.as_ref(), descriptors))
}

/// Tells the broker to do something, and waits for no answer: many such requests cost it one turn on a busy machine.
///
/// # Errors
/// What sendmsg(2) says: `PIPE` where it is gone.
#[cold]
pub fn tell(broker: &Broker, request: &Request) -> Result<(), Errno> {
    let mut message = vec![TOLD];
    message.append(&mut request.to_bytes());
    broker.channel.lock().unwrap_or_else(PoisonError::into_inner).send(&message, &[])
}

/// As [`ask`], for what is answered by one descriptor.
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

/// Opens a file for reading, by the broker where there is one. It does not wait for whoever writes into a pipe.
///
/// # Errors
/// What open(2) says; `ACCESS` where the broker was not told of the file.
#[cold]
pub fn open_to_read(path: &Path) -> io::Result<File> {
    match current() {
        None => {
            let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path);
            if file.is_ok() {
                READ.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
            }
            file
        }
        Some(broker) => match ask_for_one(broker, &Request::Read(path.to_owned()), &[]) {
            Ok(file) => Ok(file.into()),
            Err(refusal) => Err(refusal.errno.into()),
        },
    }
}

/// The files that [`open_to_read`] has opened so far: what is read before a broker is started may be read again.
pub fn read_so_far() -> Vec<PathBuf> {
    READ.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Calls `call`; what it asks for is done in the network namespace of `socket`.
///
/// # Errors
/// What dup(2) says.
#[cold]
pub fn at<T>(socket: BorrowedFd<'_>, call: impl FnOnce() -> T) -> Result<T, Errno> {
    /// The place that was there before, put back whatever happens.
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

/// Whether this process had a broker, which has ended and was not to.
#[cold]
pub fn is_gone() -> bool {
    current().is_some_and(Broker::is_gone)
}

/// From now on this process has a broker; false where it had one already.
pub(super) fn set(channel: Channel) -> bool {
    channel.set_patience(PATIENCE).is_ok() && BROKER.set(Broker::new(channel)).is_ok()
}

impl Broker {
    pub(super) fn new(channel: Channel) -> Broker {
        Broker { channel: Mutex::new(channel), is_over: AtomicBool::new(false) }
    }

    /// Closes the socket for both: the broker ends.
    pub(super) fn close(&self) {
        self.is_over.store(true, Relaxed);
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is gone needs no word.
        let _ = rustix::net::shutdown(&channel.0, rustix::net::Shutdown::Both);
    }

    pub(super) fn is_gone(&self) -> bool {
        // While somebody waits for an answer, that one finds out.
        let Ok(channel) = self.channel.try_lock() else { return false };
        let mut ends = [PollFd::new(&channel.0, PollFlags::empty())];
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
        let mut message = vec![u8::from(place.is_some())];
        message.append(&mut request.to_bytes());
        let with: Vec<_> = place.map(AsFd::as_fd).into_iter().chain(descriptors.iter().copied()).collect();
        let channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        let answer = channel.send(&message, &with).and_then(|()| channel.receive(ANSWER_MAX));
        match answer {
            Ok(Some((bytes, brought))) => Refusal::of_answer(bytes, brought),
            Ok(None) => Err(Errno::PIPE.into()),
            Err(errno) => {
                // An answer that is late would be taken for that of the next request.
                let _ = rustix::net::shutdown(&channel.0, rustix::net::Shutdown::Both);
                Err(if errno == Errno::AGAIN { Errno::TIMEDOUT } else { errno }.into())
            }
        }
    }
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
    /// As an answer: a 1, the step, the number of the error, the text.
    pub(super) fn to_answer(&self) -> Vec<u8> {
        let number = self.errno.raw_os_error().to_ne_bytes();
        let mut answer = [&[1, self.step], &number[..], self.text.as_bytes()].concat();
        answer.truncate(ANSWER_MAX);
        answer
    }

    /// What an answer says: a 0 and what was asked for, or a refusal.
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
