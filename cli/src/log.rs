//! Lines on standard error: with the level in front where that is the journal (sd-daemon(3)), with time and level where they are
//! asked for.

use std::fmt::Display;
use std::io::{self, Write};
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

/// Says a line.
pub fn say(level: Level, line: impl Display) {
    // Nothing to be done about a reader that is gone.
    let _ = if is_journal() {
        writeln!(io::stderr(), "<{}>{line}", level as u8)
    } else if TIMES.load(Relaxed) {
        let time = humantime::format_rfc3339_millis(SystemTime::now());
        writeln!(io::stderr(), "{time} {} {line}", level.name())
    } else {
        writeln!(io::stderr(), "{line}")
    };
}

/// Whether standard error is the journal's: it says which socket is, by device and inode.
fn is_journal() -> bool {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    *JOURNAL.get_or_init(|| {
        let stderr = fs::metadata("/proc/self/fd/2").map(|meta| format!("{}:{}", meta.dev(), meta.ino()));
        env::var("JOURNAL_STREAM").is_ok_and(|said| stderr.is_ok_and(|stderr| said == stderr))
    })
}
