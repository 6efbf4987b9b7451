//! The broker's process. It is forked, has no name for its socket, and ends with the process that it serves.

use super::ask::{current, set};
use super::carry_out::serve;
use super::channel::Channel;
use super::leftovers::Leftovers;
use super::setup::Setup;
use rustix::process::{Pid, WaitOptions, waitpid};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};
use std::{fs, io, thread};

/// Signals that are meant for the served process, and that all processes of a terminal's foreground or of a service
/// get. A service's watchdog sends SIGABRT; abort(3) still ends the broker.
const OF_THE_OTHER: [libc::c_int; 7] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGABRT, libc::SIGUSR1, libc::SIGPIPE];

/// The timeout of its end.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Why no broker was started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// It has to be forked before any other thread exists.
    #[error("the process has {0} threads already")]
    Threads(usize),
    /// This process has a broker already.
    #[error("the process has a broker already")]
    Twice,
    /// The process could not be forked.
    #[error("fork: {0}")]
    Fork(io::Error),
    /// A system call failed.
    #[error("{0}: {1}")]
    System(&'static str, io::Error),
}

/// The broker's process. When this is dropped, the broker has ended.
#[derive(Debug)]
pub struct BrokerProcess(Pid);

/// Starts a broker for this process, which must have one thread. From then on the functions of this stage ask it. The
/// broker's process calls `begin` before the first request, to give up what it does not need. If that returns false, it ends
/// at once and serves nothing. It calls `end` when the other process has ended.
///
/// # Errors
/// [`BrokerError`]; there is no broker then.
pub fn start(
    setup: &Setup,
    begin: impl FnOnce() -> bool,
    end: impl FnOnce(),
) -> Result<BrokerProcess, BrokerError> {
    // In a root without /proc the number is unknown; the callers of this have a /proc.
    let threads = fs::read_dir("/proc/self/task").map_or(1, Iterator::count);
    if threads != 1 {
        return Err(BrokerError::Threads(threads));
    }
    if current().is_some() {
        return Err(BrokerError::Twice);
    }
    let leftovers = Leftovers::before(&setup.leaves);
    let (ours, its) = Channel::pair().map_err(|errno| BrokerError::System("socketpair", errno.into()))?;
    // SAFETY: this process has one thread, which continues in the child with everything unchanged; the child ends by
    // _exit alone.
    match unsafe { libc::fork() } {
        0 => {
            drop(ours);
            run(|| {
                live(&its, setup, begin, || {
                    end();
                    leftovers.remove();
                })
            })
        }
        child => {
            let failed = || BrokerError::Fork(io::Error::last_os_error());
            let child = if child > 0 { Pid::from_raw(child) } else { None }.ok_or_else(failed)?;
            let process = BrokerProcess(child);
            if set(ours) { Ok(process) } else { Err(BrokerError::Twice) }
        }
    }
}

/// Serves from `begin` to `end`. Returns false if it could not begin: then nothing was served and nothing is ended.
pub(super) fn live(its: &Channel, setup: &Setup, begin: impl FnOnce() -> bool, end: impl FnOnce()) -> bool {
    let has_begun = begin();
    if has_begun {
        serve(its, setup);
        end();
    }
    has_begun
}

/// Runs the broker from its begin to its end. `life` returns false if it failed.
fn run(life: impl FnOnce() -> bool) -> ! {
    for signal in OF_THE_OTHER {
        // SAFETY: to ignore a signal runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    let _ = rustix::thread::set_name(c"netmem-broker");
    // A reader of the other process's output sees its end when that process ends.
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        for descriptor in [0, 1] {
            // SAFETY: no code in this process owns standard input and output; the numbers stay taken.
            unsafe { libc::dup2(nothing.as_raw_fd(), descriptor) };
        }
    }
    let done = catch_unwind(AssertUnwindSafe(life));
    // SAFETY: it ends the process in any state; nothing that the other process has registered for its end runs here.
    unsafe { libc::_exit(i32::from(!done.unwrap_or(false))) }
}

impl Drop for BrokerProcess {
    /// Waits until it has ended, for a few seconds at most.
    fn drop(&mut self) {
        if let Some(broker) = current() {
            broker.close();
        }
        let begun = Instant::now();
        // If other code has waited for it, there is nothing to wait for. A broker that does not end is left alone.
        while matches!(waitpid(Some(self.0), WaitOptions::NOHANG), Ok(None)) && begun.elapsed() < END_TIMEOUT
        {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
