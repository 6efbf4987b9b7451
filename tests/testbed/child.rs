//! Children that do not outlive the test that started them.

use rustix::process::{Signal, set_parent_process_death_signal};
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Makes the kernel kill the child when the thread that starts it ends, also if no destructor runs, for example if the
/// test run is killed.
pub fn tie(command: &mut Command) {
    let prepare = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec it makes one system call, and neither allocates nor takes a lock.
    unsafe { command.pre_exec(prepare) };
}
