//! Starts threads. That may fail: the limits of a user or of a control group are an ordinary reason.
//!
//! They leave the requests of signals to the main thread, which acts on them: it has then handled SIGUSR1 before it sees a
//! SIGTERM that was sent after it.

use crate::failure::Failure;
use netmem::system::signal::without_requests;
use std::fs;
use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

/// Starts a thread for `what` in `scope`.
///
/// # Errors
/// [`Failure::NotNow`] with the limit and the remedy if the thread cannot be started.
pub fn start<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    what: &str,
    body: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, Failure> {
    without_requests(|| Builder::new().spawn_scoped(scope, body)).map_err(|error| none(what, &error))
}

/// Starts a thread of this name.
///
/// # Errors
/// The system's error if it cannot be started.
pub fn spawn<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    without_requests(|| Builder::new().name(name.into()).spawn(body))
}

/// Returns the failure that there is no thread for `what`.
#[cold]
pub fn none(what: &str, error: &io::Error) -> Failure {
    let limit = process_limit().map_or_else(String::new, |limit| format!(" ({limit} now)"));
    Failure::not_now(format!(
        "no thread for {what}: {error}: raise the limit of the user's processes{limit} with `ulimit -u`, or pids.max of the \
         control group, or give fewer workers"
    ))
}

/// Returns the maximum number of processes and threads of the user, as the system reports it.
fn process_limit() -> Option<String> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max processes"))?;
    line.split_whitespace().next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_cannot_be_started_is_reported_with_the_limit_and_the_remedy() {
        let failure = none("worker 2", &io::Error::from_raw_os_error(11));
        let [line] = failure.lines() else { panic!("one line") };
        assert!(line.starts_with("no thread for worker 2: ") && line.contains("ulimit -u"), "{line}");
        assert!(line.contains(&format!("({} now)", process_limit().unwrap())), "{line}");
    }
}
