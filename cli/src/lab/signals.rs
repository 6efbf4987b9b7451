//! What a run of the lab does about signals beyond [`crate::stop`].

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::{fs, thread};

/// Runs `then`, on a thread of its own, when the first of the handled signals comes. Call this after the functions that
/// handle them.
///
/// # Errors
/// [`Failure::Input`] if the handler cannot be installed.
pub fn when_asked(then: impl FnOnce() + Send + 'static) -> Result<(), Failure> {
    let failed = |error| Failure::input(format!("cannot wait for signals: {error}"));
    let (here, mut there) = UnixStream::pair().map_err(failed)?;
    for signal in
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| *signal != SIGHUP || !ignores_hang_up())
    {
        pipe::register(signal, here.try_clone().map_err(failed)?).map_err(failed)?;
    }
    // The thread ends with the process.
    let waiting = thread::Builder::new().spawn(move || there.read_exact(&mut [0]).map(|()| then()));
    waiting.map(drop).map_err(failed)
}

/// Returns true if SIGHUP was ignored when the process began, as by nohup(1), and has no handler.
pub fn ignores_hang_up() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}
