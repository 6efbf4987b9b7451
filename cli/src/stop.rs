//! Ctrl-C and SIGTERM: the first asks a command to end as if its time were up, the second ends it at once. SIGHUP asks for
//! the configuration to be read again.

use crate::failure::Failure;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// A flag that the first of these signals sets.
///
/// # Errors
/// [`Failure::Input`] when the system takes no handler.
pub fn on_signal() -> Result<Arc<AtomicBool>, Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        // Handlers run in the order of their registration: this one finds the flag set by an earlier signal
        // only.
        flag::register_conditional_default(signal, Arc::clone(&stop))
            .and_then(|_| flag::register(signal, Arc::clone(&stop)))
            .map_err(|error| Failure::input(format!("cannot handle signal {signal}: {error}")))?;
    }
    Ok(stop)
}

/// A flag that SIGHUP sets from now on.
///
/// # Errors
/// [`Failure::Input`] when the system takes no handler.
pub fn on_hangup() -> Result<Arc<AtomicBool>, Failure> {
    let hung_up = Arc::new(AtomicBool::new(false));
    flag::register(SIGHUP, Arc::clone(&hung_up))
        .map_err(|error| Failure::input(format!("cannot handle signal {SIGHUP}: {error}")))?;
    Ok(hung_up)
}
