//! The CPU time of processes: of all their threads together, up to the present.

use rustix::process::{Pid, getpid};
use std::io;
use std::process::Child;

/// The CPU-time clock of a process.
#[derive(Debug, Clone, Copy)]
pub struct CpuClock(libc::clockid_t);

impl CpuClock {
    /// Returns the clock of a child.
    ///
    /// # Errors
    /// The error of `clock_getcpuclockid(3)`.
    pub fn of(child: &Child) -> io::Result<CpuClock> {
        CpuClock::of_process(Pid::from_child(child))
    }

    fn of_process(process: Pid) -> io::Result<CpuClock> {
        let mut clock = 0;
        // SAFETY: it writes a clock's number, to one that lives over the call.
        let done = unsafe { libc::clock_getcpuclockid(process.as_raw_nonzero().get(), &raw mut clock) };
        if done == 0 { Ok(CpuClock(clock)) } else { Err(io::Error::from_raw_os_error(done)) }
    }

    /// Returns the clock of this process.
    ///
    /// # Errors
    /// As [`CpuClock::of`].
    pub fn of_this() -> io::Result<CpuClock> {
        CpuClock::of_process(getpid())
    }

    /// Returns nanoseconds, or 0 if the process is gone.
    pub fn ns(self) -> u64 {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: it writes a time, to one that lives over the call.
        let done = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        if done == 0 { time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64 } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_works_has_had_a_core_and_one_that_is_gone_has_none() {
        let own = CpuClock::of_this().unwrap();
        let before = own.ns();
        while own.ns() < before + 1_000_000 {}
        let mut child = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let clock = CpuClock::of(&child).unwrap();
        while clock.ns() == 0 {}
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(clock.ns(), 0);
    }
}
