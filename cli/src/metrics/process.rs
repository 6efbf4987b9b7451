//! The process, as the kernel shows it in /proc.

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{Duration, SystemTime};

/// Returns the time since 1970 at which this process was started. Returns None if /proc does not tell.
pub fn started() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, in parentheses, may have spaces. The 22nd is the time of the start, in ticks since the boot.
    let ticks: u64 = stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()?;
    let boot = clock_gettime(ClockId::Boottime);
    let since_boot = Duration::new(boot.tv_sec.try_into().ok()?, boot.tv_nsec.try_into().ok()?);
    let age =
        since_boot.saturating_sub(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64));
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?.checked_sub(age)
}

/// Returns the bytes of this process in memory. Returns None if /proc does not tell.
pub fn resident_bytes() -> Option<u64> {
    let pages: u64 = fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_started_before_now_and_has_memory() {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a time");
        let started = started().expect("/proc");
        assert!(started <= now && now - started < Duration::from_secs(86_400), "{started:?} {now:?}");
        assert!(resident_bytes().expect("/proc") > 1 << 20);
    }
}
