//! Standard error without waiting for its reader: a pipe that nobody reads gets full, and a terminal may be stopped by Ctrl-S.
//!
//! The descriptor is inherited, so that other processes have the same open file: O_NONBLOCK on it would be theirs as well. A pipe or a terminal is
//! therefore opened once more, and a socket is sent to with MSG_DONTWAIT. Where the file cannot be opened once more (it may be another user's), it is written
//! to when poll(2) says that there is room, at most PIPE_BUF bytes at a time: a pipe then takes them without waiting, as long as no other process
//! fills it in between.

use super::reopen::reopen_to_write;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{SendFlags, send};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

/// Bytes that a pipe takes whole or not at all (PIPE_BUF).
pub const WHOLE: usize = 4096;
/// How long a caller that may wait sleeps before the next try.
const PAUSE: Duration = Duration::from_millis(5);
/// So many tries are five seconds or more.
const TRIES: u32 = 1000;

/// Standard error of this process.
static STDERR: OnceLock<Mutex<Stream>> = OnceLock::new();
/// Tries that are left to all callers that may wait, together.
static TRIES_LEFT: AtomicU32 = AtomicU32::new(TRIES);
static MAY_WAIT: AtomicBool = AtomicBool::new(true);

/// Opens standard error once more. To be called before anything else of this module, by a thread that may open files.
#[cold]
pub fn prepare() {
    drop(stderr());
}

/// Whether callers that write may wait from now on: in the whole run, all together, for five seconds or a little more.
pub fn may_wait(may: bool) {
    MAY_WAIT.store(may, Relaxed);
}

/// Writes all of this if it can be written now. Where only its first bytes can, the rest is written before what comes next.
///
/// # Errors
/// [`WouldBlock`](ErrorKind::WouldBlock) where it cannot, and none of it is written; what write(2) says.
pub fn offer(bytes: &[u8]) -> io::Result<()> {
    stderr().offer(bytes)
}

/// As [`offer`], but waits as far as may be waited ([`may_wait`]).
///
/// # Errors
/// As there.
pub fn insist(bytes: &[u8]) -> io::Result<()> {
    insist_on(|| offer(bytes))
}

/// Writes a line, with its end, or leaves it out where it cannot be written now: its reader does not read, or its disk is full. `left_out` makes the
/// line that says how many were.
///
/// # Errors
/// What write(2) says. The line is left out, and counted.
pub fn say(line: &[u8], left_out: fn(u64) -> String) -> io::Result<()> {
    say_to(stream(), line, left_out)
}

fn say_to(stream: &Mutex<Stream>, line: &[u8], left_out: fn(u64) -> String) -> io::Result<()> {
    let said = insist_on(|| lock(stream).say(line, left_out));
    if said.is_err() {
        lock(stream).left_out += 1;
    }
    said.or_else(|error| if error.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(error) })
}

/// Says how many lines were left out, if any were, as soon as it can; call it often.
pub fn catch_up(left_out: fn(u64) -> String) {
    // The next call tries again; nothing is to be done about a reader that is gone.
    let _ = stderr().catch_up(left_out);
}

/// As [`catch_up`], but waits as far as may be waited.
pub fn finish(left_out: fn(u64) -> String) {
    // Nothing is to be done about a reader that is gone.
    let _ = insist_on(|| stderr().catch_up(left_out));
}

fn stderr() -> MutexGuard<'static, Stream> {
    lock(stream())
}

fn stream() -> &'static Mutex<Stream> {
    STDERR.get_or_init(|| Mutex::new(Stream::of(io::stderr())))
}

fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tries until it succeeds, or no caller may wait any longer. The stream is not locked meanwhile.
fn insist_on(mut attempt: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match attempt() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let left = TRIES_LEFT.load(Relaxed);
                if left == 0 || !MAY_WAIT.load(Relaxed) {
                    return Err(error);
                }
                // Two who wait at once may take one try together.
                TRIES_LEFT.store(left - 1, Relaxed);
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// What a descriptor is, and so how it is written to without waiting.
#[derive(Debug)]
enum Target {
    /// A write to it does not wait: a file, or a pipe or a terminal that was opened once more.
    File(File),
    Socket(OwnedFd),
    /// One that could not be opened once more.
    Shared(File),
    /// The descriptor is closed.
    None,
    /// The process had no descriptor for it, or the system no room.
    Unusable(Errno),
}

/// A descriptor that is written to without waiting, and what is still to be written.
#[derive(Debug)]
pub struct Stream {
    target: Target,
    /// The rest of what was written in part.
    rest: Vec<u8>,
    /// Lines that could not be written, and of which nothing was said yet.
    left_out: u64,
}

impl Stream {
    /// The file behind this descriptor. If it cannot be had, each write fails and says why. What is written to a closed
    /// descriptor is nowhere.
    #[cold]
    pub fn of(descriptor: impl AsFd) -> Stream {
        let target = Target::of(descriptor).unwrap_or_else(|error| match Errno::from_io_error(&error) {
            Some(Errno::BADF) => Target::None,
            errno => Target::Unusable(errno.unwrap_or(Errno::IO)),
        });
        Stream { target, rest: Vec::new(), left_out: 0 }
    }

    /// As [`offer`].
    ///
    /// # Errors
    /// As there.
    pub fn offer(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.take(bytes)?;
        // What has to wait is the next call's.
        self.write_rest()
            .or_else(|error| if error.kind() == ErrorKind::WouldBlock { Ok(()) } else { Err(error) })
    }

    /// Takes all of this, and writes what can be written now. The rest is written before what comes next.
    ///
    /// # Errors
    /// What write(2) says. None of it is taken.
    fn take(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_rest()?;
        let n = self.target.write(bytes)?;
        self.rest.extend_from_slice(&bytes[n..]);
        Ok(())
    }

    /// Writes a line after the one that says how many were left out, if any were.
    ///
    /// # Errors
    /// What write(2) says. None of the line is written.
    fn say(&mut self, line: &[u8], left_out: fn(u64) -> String) -> io::Result<()> {
        self.catch_up(left_out)?;
        self.take(line)?;
        // The next line has the error, if there still is one.
        let _ = self.write_rest();
        Ok(())
    }

    /// Writes all of this; while that has to wait, `goes_on` says whether to, some hundred times each second.
    ///
    /// # Errors
    /// [`WouldBlock`](ErrorKind::WouldBlock) when it says no; what write(2) says.
    pub fn write_while(&mut self, bytes: &[u8], mut goes_on: impl FnMut() -> bool) -> io::Result<()> {
        self.rest.extend_from_slice(bytes);
        while let Err(error) = self.write_rest() {
            if error.kind() != ErrorKind::WouldBlock || !goes_on() {
                return Err(error);
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    fn write_rest(&mut self) -> io::Result<()> {
        let mut written = 0;
        let done = loop {
            match self.target.write(&self.rest[written..]) {
                _ if written == self.rest.len() => break Ok(()),
                Ok(n) => written += n,
                Err(error) => break Err(error),
            }
        };
        self.rest.drain(..written);
        done
    }

    fn catch_up(&mut self, left_out: fn(u64) -> String) -> io::Result<()> {
        self.write_rest()?;
        if self.left_out > 0 {
            self.take(left_out(self.left_out).as_bytes())?;
            self.left_out = 0;
        }
        self.write_rest()
    }
}

impl Target {
    fn of(descriptor: impl AsFd) -> io::Result<Target> {
        let same = File::from(fcntl_dupfd_cloexec(descriptor.as_fd(), 0)?);
        let kind = same.metadata()?.file_type();
        if kind.is_socket() {
            return Ok(Target::Socket(same.into()));
        }
        if !kind.is_fifo() && !kind.is_char_device() {
            return Ok(Target::File(same));
        }
        Ok(reopen_to_write(descriptor).map_or(Target::Shared(same), Target::File))
    }

    /// Writes what can be written now.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let written = match self {
            Target::File(file) => file.write(bytes),
            Target::Socket(socket) => {
                send(socket, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL).map_err(io::Error::from)
            }
            Target::Shared(file) => {
                let mut asked = [PollFd::new(&*file, PollFlags::OUT)];
                let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
                match poll(&mut asked, Some(&at_once)) {
                    Ok(0) => Err(Errno::AGAIN.into()),
                    Ok(_) => file.write(&bytes[..bytes.len().min(WHOLE)]),
                    Err(errno) => Err(errno.into()),
                }
            }
            Target::None => Ok(bytes.len()),
            Target::Unusable(errno) => Err((*errno).into()),
        };
        match written {
            Err(error) if error.kind() == ErrorKind::Interrupted => Err(Errno::AGAIN.into()),
            // A file that takes nothing would be asked forever.
            Ok(0) => Err(ErrorKind::WriteZero.into()),
            written => written,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::poor::in_poor_process;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    /// As long as a line, since a pipe in which no line has room may have some for less.
    fn notice(lines: u64) -> String {
        format!("{lines:>100} left out\n")
    }

    /// Says lines of 100 bytes until the first is left out; how many were said.
    fn fill(stream: &mut Stream) -> usize {
        let line = [[b'x'; 99].as_slice(), b"\n"].concat();
        (0..100_000).find(|_| stream.offer(&line).is_err()).expect("it gets full")
    }

    /// Seen: a run whose standard error nobody read did not end by SIGTERM.
    #[test]
    fn what_nobody_reads_is_left_out_and_that_is_said_once_it_is_read_again() {
        let (mut from, to) = io::pipe().unwrap();
        let shared = Stream {
            target: Target::Shared(File::from(OwnedFd::from(to.try_clone().unwrap()))),
            ..Stream::of(&to)
        };
        for mut stream in [Stream::of(&to), shared] {
            let said = fill(&mut stream);
            stream.left_out += 3;
            assert_eq!(stream.catch_up(notice).unwrap_err().kind(), ErrorKind::WouldBlock);
            from.read_exact(&mut vec![0; said * 100]).unwrap();
            stream.catch_up(notice).unwrap();
            stream.catch_up(notice).unwrap();
            stream.offer(b"on\n").unwrap();
            let mut text = vec![0; notice(3).len() + 3];
            from.read_exact(&mut text).unwrap();
            assert_eq!(String::from_utf8(text).unwrap(), notice(3) + "on\n");
        }
    }

    /// Found in a review: lines for a log file on a full disk vanished, and the next line did not say so.
    #[test]
    fn lines_that_a_full_disk_does_not_take_are_counted_and_that_is_said_once_there_is_room() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let stream = Mutex::new(Stream::of(&full));
        for _ in 0..3 {
            let error = say_to(&stream, b"lost\n", notice).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::StorageFull);
        }
        let (mut from, to) = io::pipe().unwrap();
        lock(&stream).target = Stream::of(&to).target;
        for line in [b"first\n", b"other\n"] {
            say_to(&stream, line, notice).unwrap();
        }
        drop((stream, to));
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        assert_eq!(text, notice(3) + "first\nother\n");
    }

    #[test]
    fn a_line_that_a_socket_takes_in_part_is_whole_before_the_next() {
        let (mut from, to) = UnixStream::pair().unwrap();
        let mut stream = Stream::of(&to);
        let said = fill(&mut stream);
        let long = vec![b'y'; 1 << 20];
        let taken = (said..).find(|_| {
            from.read_exact(&mut [0; 100]).unwrap();
            stream.offer(&long).is_ok()
        });
        assert!(taken.is_some() && !stream.rest.is_empty());
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            from.read_to_end(&mut all).map(|_| all)
        });
        stream.write_while(b"end", || true).unwrap();
        drop((stream, to));
        let all = reader.join().unwrap().unwrap();
        assert_eq!(all.iter().filter(|&&byte| byte == b'y').count(), long.len());
        assert!(all.ends_with(b"yyend"));
    }

    #[test]
    fn who_may_wait_waits_for_a_reader_and_who_may_not_does_not() {
        let (_from, to) = io::pipe().unwrap();
        let mut stream = Stream::of(&to);
        let mut asked = 0;
        let error = stream.write_while(&vec![0; 1 << 20], || {
            asked += 1;
            asked < 3
        });
        assert_eq!((error.unwrap_err().kind(), asked), (ErrorKind::WouldBlock, 3));
    }

    /// Found in a review: a report was printed nowhere, and the program ended well.
    #[test]
    fn what_a_process_without_descriptors_writes_is_not_lost_in_silence() {
        let test = "what_a_process_without_descriptors_writes_is_not_lost_in_silence";
        in_poor_process(module_path!(), test, || {
            let (_from, to) = io::pipe().unwrap();
            let all: Vec<_> = std::iter::from_fn(|| to.try_clone().ok()).collect();
            let written = Stream::of(&to).write_while(b"report", || false);
            drop(all);
            assert_eq!(Errno::from_io_error(&written.unwrap_err()), Some(Errno::MFILE));
        });
    }

    /// Found in a review: a signal at the wrong moment ended a trace, and made a report fail.
    #[test]
    fn a_signal_while_a_shared_pipe_is_full_is_no_error() {
        extern "C" fn nothing(_: libc::c_int) {}
        let (_from, to) = io::pipe().unwrap();
        fill(&mut Stream::of(&to));
        let mut shared = Target::Shared(File::from(OwnedFd::from(to)));
        // SAFETY: the handler does nothing. No other test handles the signal.
        unsafe { libc::signal(libc::SIGURG, nothing as extern "C" fn(libc::c_int) as usize) };
        let done = AtomicBool::new(false);
        // SAFETY: it returns the number of this thread.
        let writer = unsafe { libc::pthread_self() };
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    // SAFETY: the writer lives until this thread has ended.
                    unsafe { libc::pthread_kill(writer, libc::SIGURG) };
                }
            });
            let failed = (0..50_000)
                .map(|_| shared.write(b"x").unwrap_err())
                .find(|error| error.kind() != ErrorKind::WouldBlock);
            done.store(true, Relaxed);
            assert!(failed.is_none(), "{failed:?}");
        });
    }

    #[test]
    fn who_shares_the_descriptor_still_waits() {
        let (_from, to) = io::pipe().unwrap();
        fill(&mut Stream::of(&to));
        let flags = rustix::fs::fcntl_getfl(&to).unwrap();
        assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
    }
}
