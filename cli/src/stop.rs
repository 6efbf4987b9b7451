//! Signals. The first SIGINT (Ctrl-C) or SIGTERM asks a command to end as if its time were up, and a later Ctrl-C
//! ends it at once. A second SIGTERM does not: timeout(1) sends two, one to the process and one to its group, some
//! microseconds apart. SIGHUP asks for a reload of the configuration, and SIGUSR1 for the recording to be written. SIGUSR2
//! asks a run that forwards for nothing, and does not end it.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2, SIGXFSZ};
use signal_hook::flag;
use signal_hook::low_level::emulate_default_handler;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The flag that the first of these signals sets. Signals belong to the process, so there is one flag for it.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The last of these signals that came; 0 before the first.
static SIGNAL: OnceLock<Arc<AtomicUsize>> = OnceLock::new();

/// Set by SIGUSR2, which asks a run that forwards for nothing.
static UNUSED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The line about SIGUSR2.
const NO_MEANING: &str =
    "SIGUSR2 asks for nothing: SIGUSR1 writes the recording, and SIGHUP reads the configuration again";

/// Returns true if one of them has come since [`on_signal`].
pub fn is_asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Relaxed))
}

/// Returns a flag that the first of these signals sets.
///
/// # Errors
/// [`Failure::Input`] if the handler cannot be installed.
pub fn on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::clone(ASKED.get_or_init(Arc::default));
    let failed = |signal| move |error| Failure::input(format!("cannot handle signal {signal}: {error}"));
    // Handlers run in the order of registration: only an earlier signal can have set the flag for this one.
    flag::register_conditional_default(SIGINT, Arc::clone(&stop)).map_err(failed(SIGINT))?;
    for signal in [SIGINT, SIGTERM] {
        register(signal).map_err(failed(signal))?;
    }
    Ok(stop)
}

/// Lets a signal set the flag, and be known as the last one.
fn register(signal: i32) -> io::Result<()> {
    let last = Arc::clone(SIGNAL.get_or_init(Arc::default));
    // First, so that it is known once the flag is set.
    flag::register_usize(signal, last, signal as usize)?;
    flag::register(signal, Arc::clone(ASKED.get_or_init(Arc::default))).map(drop)
}

/// Returns the failure of a command that one of them ended before it had begun.
pub fn ended() -> Failure {
    Failure::Ended(SIGNAL.get().map_or(0, |last| last.load(Relaxed)) as i32)
}

/// Ends the process by the signal, as if it had no handler. Returns if that signal ends no process.
pub fn end_by(signal: i32) {
    let _ = emulate_default_handler(signal);
}

/// Lets SIGINT and SIGTERM end the process at once while the flag is set. Used while an answer is waited for and
/// there is nothing to clean up.
///
/// # Errors
/// [`Failure::Input`] if the handler cannot be installed.
pub fn at_once_while(waiting: &Arc<AtomicBool>) -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(waiting))
            .map_err(|error| Failure::input(format!("cannot handle signal {signal}: {error}")))?;
    }
    Ok(())
}

/// Makes the process's limit of file sizes (`ulimit -f`) an error of the write, instead of the process's end.
///
/// # Errors
/// [`Failure::Input`] if the handler cannot be installed.
pub fn outlive_file_limits() -> Result<(), Failure> {
    flag::register(SIGXFSZ, Arc::default())
        .map(drop)
        .map_err(|error| Failure::input(format!("cannot handle signal {SIGXFSZ}: {error}")))
}

/// Lets SIGHUP do what the first SIGTERM does, for a command that is to end with its terminal.
///
/// # Errors
/// [`Failure::Input`] if the handler cannot be installed.
pub fn on_hang_up() -> Result<(), Failure> {
    register(SIGHUP).map_err(|error| Failure::input(format!("cannot handle signal {SIGHUP}: {error}")))
}

/// The requests that signals make of a running command.
#[derive(Debug, Default)]
pub struct Asked {
    /// Set by SIGHUP: the configuration is to be read again. None if SIGHUP keeps its meaning, the end of the terminal.
    pub reload: Option<Arc<AtomicBool>>,
    /// Set by SIGUSR1: the recording is to be written.
    pub recording: Arc<AtomicBool>,
}

impl Asked {
    /// Handles these signals from now on. A command that has no configuration ends with its terminal, if it has one.
    ///
    /// # Errors
    /// [`Failure::Input`] if the handler cannot be installed.
    pub fn of(has_config: bool) -> Result<Asked, Failure> {
        let handles = has_config || !io::stdin().is_terminal();
        // Not yet set: a command calls this once.
        let _ = UNUSED.set(flag_of(SIGUSR2)?);
        Ok(Asked { reload: handles.then(|| flag_of(SIGHUP)).transpose()?, recording: flag_of(SIGUSR1)? })
    }
}

/// Returns a flag that this signal sets from now on.
fn flag_of(signal: i32) -> Result<Arc<AtomicBool>, Failure> {
    let came = Arc::new(AtomicBool::new(false));
    flag::register(signal, Arc::clone(&came))
        .map_err(|error| Failure::input(format!("cannot handle signal {signal}: {error}")))?;
    Ok(came)
}

/// Returns a line if SIGUSR2 came since the last call.
pub fn look() -> Option<&'static str> {
    UNUSED.get().is_some_and(|unused| unused.swap(false, Relaxed)).then_some(NO_MEANING)
}
