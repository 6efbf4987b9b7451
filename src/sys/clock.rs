//! The time-stamp counter, and the number of its ticks in a nanosecond.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The start of the clocks that replace the counter under Miri, or on a machine without a time-stamp counter.
#[cfg(not(all(target_arch = "x86_64", not(miri))))]
static START: OnceLock<Instant> = OnceLock::new();

/// Reads the time-stamp counter.
///
/// # Cost
/// About 8 ns on a virtual machine. It is not serialising, so measured times must be well above that.
#[inline]
pub fn ticks() -> u64 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: RDTSC exists on every x86-64 CPU and has no precondition in user mode.
    unsafe {
        core::arch::x86_64::_rdtsc()
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    {
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Nanoseconds of the system's monotonic clock. It is the same for all processes of one machine, and differs between
/// machines.
///
/// # Cost
/// No system call if the kernel maps its clock into the process: about 25 ns.
#[inline]
pub fn monotonic_ns() -> u64 {
    #[cfg(miri)]
    return START.get_or_init(Instant::now).elapsed().as_nanos() as u64;
    #[cfg(not(miri))]
    {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        // Neither is negative: the clock begins at boot.
        (now.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec as u64)
    }
}

/// The time that all threads of this process have been on cores, in the kernel too.
pub fn process_cpu_time() -> Duration {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    // It is not negative.
    spent.try_into().unwrap_or_default()
}

/// Ticks of [`ticks`] per nanosecond, measured once per process against the monotonic clock.
///
/// The pair (counter, clock) is read several times, and the tightest reading is kept at both ends. So a pause of the
/// machine between the two reads does not distort the rate.
pub fn ticks_per_ns() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        let (t0, c0) = tight_pair();
        while t0.elapsed() < Duration::from_millis(20) {
            std::hint::spin_loop();
        }
        let (t1, c1) = tight_pair();
        let ns = t1.duration_since(t0).as_nanos() as f64;
        (c1.wrapping_sub(c0)) as f64 / ns
    })
}

/// The reading, out of several, whose two clocks were read closest together.
fn tight_pair() -> (Instant, u64) {
    let mut best = (Instant::now(), ticks(), u64::MAX);
    for _ in 0..32 {
        let before = ticks();
        let now = Instant::now();
        let width = ticks().wrapping_sub(before);
        if width < best.2 {
            best = (now, before.wrapping_add(width / 2), width);
        }
    }
    (best.0, best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_monotonic_clock_is_the_standard_library_s() {
        let (before, began) = (monotonic_ns(), Instant::now());
        while began.elapsed() < Duration::from_millis(2) {}
        let passed = monotonic_ns() - before;
        assert!(passed >= 2_000_000, "{passed}");
    }

    #[test]
    fn ticks_run_forward_and_have_a_rate() {
        let a = ticks();
        let b = ticks();
        assert!(b >= a);
        assert!(ticks_per_ns() > 0.1 && ticks_per_ns() < 10.0);
    }
}
