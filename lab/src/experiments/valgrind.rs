//! This program, run again under valgrind: what is counted there repeats exactly.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// This program, if it was called in a way that can be repeated, and if there is a valgrind.
///
/// # Errors
/// Why not, with the remedy.
pub(super) fn program() -> Result<PathBuf, String> {
    if !is_run(env::args()) {
        return Err("they need the netmem program, called as `netmem lab run`".to_owned());
    }
    let mut valgrind = Command::new("valgrind");
    match valgrind.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => env::current_exe().map_err(|error| error.to_string()),
        _ => Err("valgrind is not installed (on Debian: apt-get install valgrind)".to_owned()),
    }
}

/// Whether these are the arguments of a run, or of a turn of one in a process of its own.
fn is_run(arguments: impl Iterator<Item = String>) -> bool {
    let called: Vec<String> = arguments.skip(1).take(2).collect();
    called == ["lab", "run"] || called == ["lab", "turn"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_in_a_process_of_its_own_may_be_started_again_under_valgrind() {
        let called = |words: &str| is_run(words.split(' ').map(str::to_owned));
        assert!(called("netmem lab run page-bulk --quick") && called("netmem lab turn"));
        assert!(!called("netmem lab report") && !called("netmem"));
    }

    #[test]
    fn a_program_that_was_called_otherwise_is_not_started_again() {
        assert!(program().unwrap_err().contains("netmem lab run"));
    }
}
