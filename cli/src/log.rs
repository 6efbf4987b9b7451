//! Lines on standard error: with the level in front where that is the journal (sd-daemon(3)), with time and level where they are
//! asked for. None waits for a reader while packets pass.

use netmem::system::stderr;
use std::fmt::Display;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::SystemTime;
use std::{env, fs};

/// Whether lines begin with time and level.
static TIMES: AtomicBool = AtomicBool::new(false);

/// How much a line matters, by syslog's numbers.
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

/// From now on lines begin with their time and level, but for those to the journal.
pub fn with_times() {
    TIMES.store(true, Relaxed);
}

/// Opens standard error once more, so that no line waits for its reader. To be called before any thread gives up the right to open files.
pub fn prepare() {
    stderr::prepare();
}

/// From now on a line that cannot be written now is left out: packets pass, and signals are to be answered.
pub fn never_wait() {
    stderr::may_wait(false);
}

/// From now on lines wait for who reads them, for some seconds all together.
pub fn may_wait() {
    stderr::may_wait(true);
}

/// Says a line. Where it cannot be written it is left out, and how many were is said once it can again.
pub fn say(level: Level, line: impl Display) {
    // Nothing to be done about a reader that is gone.
    let _ = stderr::say(whole(level, line).as_bytes(), left_out);
}

/// Says how many lines were left out, where that was not said yet and can be now.
pub fn catch_up() {
    stderr::catch_up(left_out);
}

/// As [`catch_up`], for the last time: waits for a reader, for some seconds.
pub fn finish() {
    stderr::finish(left_out);
}

/// The line with its end, and what stands in front of it.
fn whole(level: Level, line: impl Display) -> String {
    if is_journal() {
        format!("<{}>{line}\n", level as u8)
    } else if TIMES.load(Relaxed) {
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        format!("{time} {} {line}\n", level.name())
    } else {
        format!("{line}\n")
    }
}

/// The line about so many that were left out.
fn left_out(lines: u64) -> String {
    let lines = if lines == 1 { "one line is".to_owned() } else { format!("{lines} lines are") };
    whole(Level::Warning, format_args!("netmem: {lines} left out here: standard error was not read"))
}

/// Whether standard error is the journal's: it says which socket is, by device and inode.
fn is_journal() -> bool {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    *JOURNAL.get_or_init(|| {
        let stderr = fs::metadata("/proc/self/fd/2").map(|meta| format!("{}:{}", meta.dev(), meta.ino()));
        env::var("JOURNAL_STREAM").is_ok_and(|said| stderr.is_ok_and(|stderr| said == stderr))
    })
}
