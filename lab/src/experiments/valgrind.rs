//! This program, run again under valgrind: what is counted there repeats exactly.

use std::env;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// This program, if it was called in a way that can be repeated, and if there is a valgrind.
///
/// # Errors
/// Why not, with the remedy.
pub(super) fn program() -> Result<PathBuf, String> {
    let called: Vec<String> = env::args().skip(1).take(2).collect();
    if called != ["lab", "run"] {
        return Err("they need the netmem program, called as `netmem lab run`".to_owned());
    }
    let mut valgrind = Command::new("valgrind");
    match valgrind.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => env::current_exe().map_err(|error| error.to_string()),
        _ => Err("valgrind is not installed (on Debian: apt-get install valgrind)".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_called_otherwise_is_not_started_again() {
        assert!(program().unwrap_err().contains("netmem lab run"));
    }
}
