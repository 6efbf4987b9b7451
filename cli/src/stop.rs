//! Ctrl-C and SIGTERM: the first of them asks a command to end as if its time were up, and Ctrl-C behind it ends it at once. A second SIGTERM
//! does not: timeout(1) sends two, one to the process and one to its group, some microseconds apart. SIGHUP asks for the configuration
//! to be read again, SIGUSR1 for what is recorded to be written.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::flag;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// The flag that the first of these signals sets, one for the process as they are.
static ASKED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Whether one of them has come since [`on_signal`].
pub fn is_asked() -> bool {
    ASKED.get().is_some_and(|asked| asked.load(Relaxed))
}

/// A flag that the first of these signals sets.
///
/// # Errors
/// [`Failure::Input`] when the system takes no handler.
pub fn on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::clone(ASKED.get_or_init(Arc::default));
    let failed = |signal| move |error| Failure::input(format!("cannot handle signal {signal}: {error}"));
    // Handlers run in the order of their registration: this one finds the flag set by an earlier signal only.
    flag::register_conditional_default(SIGINT, Arc::clone(&stop)).map_err(failed(SIGINT))?;
    for signal in [SIGINT, SIGTERM] {
        flag::register(signal, Arc::clone(&stop)).map_err(failed(signal))?;
    }
    Ok(stop)
}

/// Has SIGINT and SIGTERM end the process at once while the flag is set: where an answer is waited for, and there is nothing to
/// put in order.
///
/// # Errors
/// [`Failure::Input`] when the system takes no handler.
pub fn at_once_while(waiting: &Arc<AtomicBool>) -> Result<(), Failure> {
    for signal in [SIGINT, SIGTERM] {
        flag::register_conditional_default(signal, Arc::clone(waiting))
            .map_err(|error| Failure::input(format!("cannot handle signal {signal}: {error}")))?;
    }
    Ok(())
}

/// Has a file that reaches the process's limit (`ulimit -f`) be an error of the write, in place of the process's end.
///
/// # Errors
/// [`Failure::Input`] when the system takes no handler.
pub fn outlive_file_limits() -> Result<(), Failure> {
    flag::register(SIGXFSZ, Arc::default())
        .map(drop)
        .map_err(|error| Failure::input(format!("cannot handle signal {SIGXFSZ}: {error}")))
}

/// What a running command is asked for by a signal; None where the signal keeps its default, which ends the process.
#[derive(Debug, Default)]
pub struct Asked {
    /// Set by SIGHUP: the configuration is to be read again.
    pub reload: Option<Arc<AtomicBool>>,
    /// Set by SIGUSR1: what is recorded is to be written.
    pub recording: Option<Arc<AtomicBool>>,
}

impl Asked {
    /// Takes these signals from now on, each if the command has an answer to it.
    ///
    /// # Errors
    /// [`Failure::Input`] when the system takes no handler.
    pub fn of(reload: bool, recording: bool) -> Result<Asked, Failure> {
        Ok(Asked {
            reload: reload.then(|| flag_of(SIGHUP)).transpose()?,
            recording: recording.then(|| flag_of(SIGUSR1)).transpose()?,
        })
    }
}

/// A flag that this signal sets from now on.
fn flag_of(signal: i32) -> Result<Arc<AtomicBool>, Failure> {
    let came = Arc::new(AtomicBool::new(false));
    flag::register(signal, Arc::clone(&came))
        .map_err(|error| Failure::input(format!("cannot handle signal {signal}: {error}")))?;
    Ok(came)
}
