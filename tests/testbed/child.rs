//! Children that do not outlive the test that started them.

use rustix::process::{Signal, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Has the child killed when the thread that starts it ends, by whatever end: also one that runs no destructor, as that of a
/// test run that somebody kills.
pub fn tie(command: &mut Command) {
    let prepare = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}
