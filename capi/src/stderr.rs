//! COLD: descriptor 2, for lines that must not wait: a pipe that no process reads gets full, and a terminal may be stopped.
//!
//! Nothing here takes a lock or memory, so a signal handler and a child of fork(2) may call it whatever was interrupted.
//! `errno` stays as it was.
//!
//! Unsafe code: calls of the C library that read the given bytes and write to no other memory of this process.

use std::ffi::{c_int, c_void};

/// Bytes that a pipe takes whole or not at all (PIPE_BUF).
pub const WHOLE: usize = 4096;

const STDERR: c_int = 2;
const POLLOUT: i16 = 4;
const ENOTSOCK: c_int = 88;
const EOPNOTSUPP: c_int = 95;
/// MSG_DONTWAIT and MSG_NOSIGNAL.
const AT_ONCE: c_int = 0x40 | 0x4000;
const RWF_NOWAIT: c_int = 8;
const SEEK_CUR: c_int = 1;

#[repr(C)]
struct Polled {
    descriptor: c_int,
    events: i16,
    returned: i16,
}

#[repr(C)]
struct Bytes {
    base: *const u8,
    len: usize,
}

unsafe extern "C" {
    fn __errno_location() -> *mut c_int;
    fn poll(polled: *mut Polled, n: u64, milliseconds: c_int) -> c_int;
    fn send(socket: c_int, bytes: *const c_void, len: usize, flags: c_int) -> isize;
    fn lseek(descriptor: c_int, offset: i64, from: c_int) -> i64;
    fn pwritev2(descriptor: c_int, bytes: *const Bytes, n: c_int, offset: i64, flags: c_int) -> isize;
    fn write(descriptor: c_int, bytes: *const u8, len: usize) -> isize;
}

/// Writes bytes to descriptor 2, at most [`WHOLE`], if it takes them without waiting. Returns whether it did.
///
/// A system older than Linux 6.4 can wait if another thread fills a pipe at the same moment, as can a terminal.
pub fn offer(bytes: &[u8]) -> bool {
    // SAFETY: the C library returns the address of the thread's own errno, which is valid while the thread lives.
    let errno = unsafe { __errno_location() };
    // SAFETY: as above.
    let before = unsafe { *errno };
    let is_written = offered(&bytes[..bytes.len().min(WHOLE)], errno);
    // SAFETY: as above.
    unsafe { *errno = before };
    is_written
}

fn offered(bytes: &[u8], errno: *const c_int) -> bool {
    let mut polled = Polled { descriptor: STDERR, events: POLLOUT, returned: 0 };
    // SAFETY: one place, which the call writes. It returns at once.
    let _ = unsafe { poll(&mut polled, 1, 0) };
    // Anything else too is an error: the descriptor is closed, or no process can read the pipe any more, which
    // would raise SIGPIPE.
    if polled.returned != POLLOUT {
        return false;
    }
    // SAFETY: the bytes are readable.
    let sent = unsafe { send(STDERR, bytes.as_ptr().cast(), bytes.len(), AT_ONCE) };
    // SAFETY: the caller's address of errno.
    if sent > 0 || unsafe { *errno } != ENOTSOCK {
        return sent > 0;
    }
    // SAFETY: only asks for the position. A pipe and a terminal have none.
    if unsafe { lseek(STDERR, 0, SEEK_CUR) } < 0 {
        let one = Bytes { base: bytes.as_ptr(), len: bytes.len() };
        // SAFETY: the bytes are readable.
        let written = unsafe { pwritev2(STDERR, &one, 1, -1, RWF_NOWAIT) };
        // SAFETY: as above.
        if written > 0 || unsafe { *errno } != EOPNOTSUPP {
            return written > 0;
        }
    }
    // SAFETY: the bytes are readable.
    unsafe { write(STDERR, bytes.as_ptr(), bytes.len()) > 0 }
}
