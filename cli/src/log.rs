//! Lines on standard error. If it is the journal, a line begins with its level (sd-daemon(3)). On request it begins
//! with time and level. No line waits for a reader during a run.

use netmem::system::stderr;
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;
use std::{env, fs};

/// True if lines begin with time and level.
static TIMES: AtomicBool = AtomicBool::new(false);

/// The level of a line, with syslog's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Error = 3,
    Warning = 4,
    Info = 6,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Error => "error",
            Level::Warning => "warning",
            Level::Info => "info",
        }
    }
}

/// Makes lines begin with their time and level from now on, except for lines to the journal.
pub fn with_times() {
    TIMES.store(true, Relaxed);
}

/// Returns whether the lines are a log: the journal, or lines with their times.
pub fn is_log() -> bool {
    is_journal() || TIMES.load(Relaxed)
}

/// Opens standard error a second time, so that no line waits for its reader. Call this before any thread drops the
/// permission to open files.
pub fn prepare() {
    stderr::prepare();
}

/// From now on a line that cannot be written at once is left out: packets pass, and signals must be answered.
pub fn never_wait() {
    stderr::may_wait(false);
}

/// From now on lines wait for the reader, for some seconds in the whole run.
pub fn may_wait() {
    stderr::may_wait(true);
}

/// Prints a line. If it cannot be written it is left out. The number of lines left out is printed when that is
/// possible again.
pub fn say(level: Level, line: impl Display) {
    // The line is counted, and nothing else could report the error.
    let _ = stderr::say(whole(level, line).as_bytes(), left_out);
}

/// Prints the number of lines left out, if it was not printed yet and can be written now.
pub fn catch_up() {
    stderr::catch_up(left_out);
}

/// As [`catch_up`], for the last time: waits for a reader, for some seconds.
pub fn finish() {
    stderr::finish(left_out);
}

/// Returns the line with its prefix and its newline.
fn whole(level: Level, line: impl Display) -> String {
    if is_journal() {
        format!("<{}>{line}\n", level as u8)
    } else if TIMES.load(Relaxed) {
        let (time, line) = (humantime::format_rfc3339_millis(SystemTime::now()), line.to_string());
        // A line about an error begins with that word already.
        let line = line.strip_prefix("error: ").unwrap_or(&line);
        format!("{time} {} {line}\n", level.name())
    } else {
        format!("{line}\n")
    }
}

/// Returns the line about this many lines left out.
fn left_out(lines: u64) -> String {
    let lines = if lines == 1 { "one line is".to_owned() } else { format!("{lines} lines are") };
    whole(
        Level::Warning,
        format_args!("netmem: {lines} left out here: standard error was not read, or its disk was full"),
    )
}

/// Returns true if standard error is the journal's socket, which the environment names by device and inode.
fn is_journal() -> bool {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    *JOURNAL.get_or_init(|| {
        let stderr = fs::metadata("/proc/self/fd/2").map(|meta| format!("{}:{}", meta.dev(), meta.ino()));
        env::var("JOURNAL_STREAM").is_ok_and(|said| stderr.is_ok_and(|stderr| said == stderr))
    })
}
