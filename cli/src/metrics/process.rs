//! The process: its start, and what it uses.

use netmem::system::clock::process_cpu_time;
use netmem::system::privileges::descriptor_limit;
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Returns the time since 1970 of the first call, which the program makes when it starts.
pub fn started() -> Duration {
    static STARTED: OnceLock<Duration> = OnceLock::new();
    let now = || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    *STARTED.get_or_init(now)
}

/// What this process uses. What /proc does not tell is None.
pub struct Usage {
    pub cpu: Duration,
    pub open_descriptors: Option<usize>,
    /// None if there is no limit.
    pub max_descriptors: Option<u64>,
    pub resident_bytes: Option<u64>,
}

impl Usage {
    pub fn now() -> Usage {
        // The listing has the descriptor by which it is read.
        let listed = fs::read_dir("/proc/self/fd").ok().map(Iterator::count);
        Usage {
            cpu: process_cpu_time(),
            open_descriptors: listed.map(|count| count.saturating_sub(1)),
            max_descriptors: descriptor_limit(),
            resident_bytes: resident_bytes(),
        }
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_stays_and_the_process_has_memory_descriptors_and_time_on_cores() {
        let first = started();
        assert!(first > Duration::from_secs(1_000_000_000) && first == started(), "{first:?}");
        let usage = Usage::now();
        assert!(usage.resident_bytes.expect("/proc") > 1 << 20);
        assert!(usage.open_descriptors.expect("/proc") >= 3 && !usage.cpu.is_zero());
        assert!(usage.max_descriptors.is_none_or(|most| most >= 3));
    }
}
