//! The process: its start, and its memory as the kernel shows it in /proc.

use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Returns the time since 1970 of the first call, which the program makes when it starts.
pub fn started() -> Duration {
    static STARTED: OnceLock<Duration> = OnceLock::new();
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    *STARTED.get_or_init(now)
}

/// Returns the bytes of this process in memory. Returns None if /proc does not tell.
pub fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_stays_and_the_process_has_memory() {
        let first = started();
        assert!(first > Duration::from_secs(1_000_000_000) && first == started(), "{first:?}");
        assert!(resident_bytes().expect("/proc") > 1 << 20);
    }
}
