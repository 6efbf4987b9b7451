//! Signals that are sent to the process, kept away from threads.
//!
//! The kernel gives such a signal to any thread that does not block it, and of two signals each to another one. The handler
//! of the first may then run after that of the second, for as long as its thread gets no core. A thread that handles all of
//! them has run the handler of the first before it sees the second.

use std::ptr;

/// The signals by which a user, a terminal or a service asks a process for something.
const REQUESTS: [libc::c_int; 5] = [libc::SIGHUP, libc::SIGINT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2];

/// Runs `start`, which starts threads. They and the threads that they start block SIGHUP, SIGINT, SIGTERM, SIGUSR1 and
/// SIGUSR2 for good. The calling thread blocks them until `start` returns.
pub fn without_requests<T>(start: impl FnOnce() -> T) -> T {
    // Miri has no signals.
    let _before = (!cfg!(miri)).then(|| Mask::block(&REQUESTS));
    start()
}

/// The signals that this thread blocked before. It blocks only these again when this is dropped.
struct Mask(libc::sigset_t);

impl Mask {
    /// Blocks these signals too.
    fn block(signals: &[libc::c_int]) -> Mask {
        // SAFETY: a set of bits, for which zeros are valid.
        let (mut blocked, mut before) = unsafe { std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>() };
        // SAFETY: both sets live here, and to block a signal runs no code.
        unsafe {
            libc::sigemptyset(&raw mut blocked);
            for signal in signals {
                libc::sigaddset(&raw mut blocked, *signal);
            }
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
        }
        Mask(before)
    }
}

impl Drop for Mask {
    fn drop(&mut self) {
        // SAFETY: the set lives here. A signal that came meanwhile is handled now.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::{fs, thread};

    /// The signals that this thread blocks, as bits.
    fn blocked() -> u64 {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap();
        u64::from_str_radix(blocked.trim(), 16).unwrap()
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no signals")]
    fn a_thread_that_is_started_without_requests_blocks_them_and_the_one_that_started_it_does_not() {
        let requests: u64 = REQUESTS.iter().map(|signal| 1 << (signal - 1)).sum();
        let before = blocked();
        assert_eq!(before & requests, 0);
        let started =
            without_requests(|| thread::spawn(|| (blocked(), thread::spawn(blocked).join().unwrap())));
        assert_eq!(blocked(), before);
        assert_eq!(started.join().unwrap(), (before | requests, before | requests));
        let panicked = catch_unwind(AssertUnwindSafe(|| without_requests(|| panic!("planted"))));
        assert_eq!((panicked.is_err(), blocked()), (true, before));
        // One that was blocked before stays so.
        let nested = without_requests(|| (without_requests(|| ()), blocked()).1);
        assert_eq!(nested, before | requests);
    }
}
