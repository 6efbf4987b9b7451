//! Runs this program again under valgrind, whose counts are exactly repeatable.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{env, fs, io, thread};

use super::scratch::Folder;
use super::this_program::ThisProgram;
use crate::system::process;

/// How often the end of the run, or a request to stop, is checked for.
const LOOK: Duration = Duration::from_millis(20);

/// A run of one variant's loop, by the key `body`, that a tool of valgrind counts.
pub(super) struct Counted<'a> {
    pub(super) tool: &'static str,
    pub(super) options: &'a [&'a str],
    pub(super) experiment: &'static str,
    pub(super) set: &'a [(&'static str, u64)],
}

impl Counted<'_> {
    /// Runs it on `core`. Returns what the tool wrote. It ends when `stop` is raised, or with the calling thread.
    ///
    /// # Errors
    /// The reason why there is no result.
    pub(super) fn run(
        &self,
        program: &Path,
        core: Option<usize>,
        stop: &AtomicBool,
    ) -> Result<String, String> {
        let Counted { tool, options, experiment, set } = *self;
        let folder = Folder::new().map_err(|error| format!("no folder for what {tool} counts: {error}"))?;
        let out = folder.path("counts");
        let mut command = Command::new("valgrind");
        command.arg(format!("--tool={tool}")).args(options);
        command.arg(format!("--{tool}-out-file={}", out.display())).arg(program);
        command.args(["lab", "run", experiment]);
        for (key, value) in set.iter().copied().chain([("setups", 1), ("watch", 1)]) {
            command.arg("--set").arg(format!("{key}={value}"));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = match core {
            Some(core) => process::start_on(core, &mut command),
            None => process::start(&mut command),
        };
        let mut child = child.map_err(|error| format!("valgrind cannot be started: {error}"))?;
        match end(&mut child, stop) {
            Ok(Some(status)) if status.success() => {
                fs::read_to_string(&out).map_err(|error| format!("{tool} left no counts: {error}"))
            }
            Ok(Some(status)) => Err(format!("valgrind ended with {status}")),
            Ok(None) => Err("stopped".to_owned()),
            Err(error) => Err(format!("valgrind cannot be waited for: {error}")),
        }
    }
}

/// Waits until `child` has ended. Returns `None` if it was killed because `stop` was raised.
fn end(child: &mut Child, stop: &AtomicBool) -> io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        // Relaxed: the flag is a request and carries no data.
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
            return child.wait().map(|_| None);
        }
        thread::sleep(LOOK);
    }
}

/// Returns this program, if it was called in a way that can be repeated, and if valgrind is installed.
///
/// # Errors
/// The reason why not, with the remedy.
pub(super) fn program() -> Result<PathBuf, String> {
    if !is_run(env::args()) {
        return Err("they need the netmem program, called as `netmem lab run`".to_owned());
    }
    let mut valgrind = Command::new("valgrind");
    match valgrind.arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => {
            ThisProgram::find().map(|program| program.start).map_err(|error| error.to_string())
        }
        _ => Err("valgrind is not installed (on Debian: apt-get install valgrind)".to_owned()),
    }
}

/// Whether these are the arguments of a run, or of a turn of a run in its own process.
fn is_run(arguments: impl Iterator<Item = String>) -> bool {
    let called: Vec<String> = arguments.skip(1).take(2).collect();
    called == ["lab", "run"] || called == ["lab", "turn"]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_program_is_killed_and_one_that_ends_is_reported_with_its_status() {
        let start = |words: [&str; 2]| process::start(Command::new(words[0]).arg(words[1])).unwrap();
        let mut endless = start(["sleep", "1000"]);
        assert_eq!(end(&mut endless, &AtomicBool::new(true)).unwrap(), None);
        assert!(!Path::new(&format!("/proc/{}", endless.id())).exists());
        let ended = end(&mut start(["false", ""]), &AtomicBool::new(false)).unwrap();
        assert_eq!(ended.and_then(|status| status.code()), Some(1));
    }

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
