//! The deferred work of the kernel on a core: the time of its thread `ksoftirqd/N`.
//!
//! Source: Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

/// The thread of one core.
#[derive(Debug)]
pub(in crate::experiments) struct Ksoftirqd {
    schedstat: File,
}

impl Ksoftirqd {
    /// Opens the thread of `core`. Returns None if the kernel does not show it.
    pub(in crate::experiments) fn of(core: usize) -> Option<Ksoftirqd> {
        let name = format!("ksoftirqd/{core}");
        let is_it = |path: &std::path::Path| {
            fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim_end() == name)
        };
        let folder =
            fs::read_dir("/proc").ok()?.flatten().map(|entry| entry.path()).find(|path| is_it(path))?;
        Some(Ksoftirqd { schedstat: File::open(folder.join("schedstat")).ok()? })
    }

    /// Returns the nanoseconds for which it has run.
    pub(in crate::experiments) fn ns(&self) -> u64 {
        let mut room = [0; 64];
        let len = self.schedstat.read_at(&mut room, 0).unwrap_or(0);
        let digits = room[..len].iter().take_while(|byte| byte.is_ascii_digit());
        digits.fold(0, |ns: u64, digit| ns.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netmem::system::cpu;
    use std::fs;

    #[test]
    fn the_time_of_a_core_is_that_which_the_kernel_shows_for_its_thread() {
        let core = cpu::allowed().unwrap()[0];
        let Some(thread) = Ksoftirqd::of(core) else {
            // A PID namespace of a container does not have the threads of the kernel.
            let has_kernel = fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd");
            let may_skip = std::env::var_os("NETMEM_NO_SKIP").is_none() || !has_kernel;
            assert!(may_skip, "/proc has no ksoftirqd/{core}");
            eprintln!("SKIPPED: a container may not show the threads of the kernel");
            return;
        };
        let (before, after) = (thread.ns(), thread.ns());
        assert!(0 < before && before <= after, "{before} {after}");
        assert!(Ksoftirqd::of(usize::MAX).is_none());
    }
}
