//! The source of ticks.

use std::sync::OnceLock;

use netmem::system::clock;

/// The waits by which the cost of a wait beyond its time is measured: the shortest, by how much each next one is longer,
/// and the number in each of several samples. With one length, that length's distance to the next reading would count.
const WAIT_TICKS: u64 = 1_000;
const LONGER: u64 = 7;
const WAITS: u64 = 16;
const SAMPLES: u64 = 1_001;

/// The maximum ticks that a pause instruction takes.
const PAUSE_MOST: u64 = 256;

/// A counter that rises at a constant rate.
pub trait Clock {
    /// Returns the current count.
    fn ticks(&self) -> u64;

    /// Returns the ticks in one nanosecond.
    fn ticks_per_ns(&self) -> f64;

    /// Returns the ticks that a loop until a given time takes beyond it: the readings of the clock, and the rest of the
    /// step in which the time is reached.
    fn excess(&self) -> u64 {
        0
    }

    /// Waits for `ticks` without yielding the core. The call takes so long on average, unless it is shorter than the
    /// shortest wait that there is.
    fn wait(&self, ticks: u64) {
        spin(self, ticks.saturating_sub(self.excess()));
    }
}

/// Reads the clock until `ticks` have passed since the first reading.
#[inline(always)]
fn spin(clock: &(impl Clock + ?Sized), ticks: u64) {
    let start = clock.ticks();
    loop {
        let passed = clock.ticks().wrapping_sub(start);
        if passed >= ticks {
            return;
        }
        // A pause may take longer than the time that is left.
        if ticks - passed > PAUSE_MOST {
            std::hint::spin_loop();
        }
    }
}

/// Measures the [excess](Clock::excess) of a clock: the least of several samples, as a pause of the
/// machine only lengthens one. Each measurement averages several waits in a row.
fn measured_excess(clock: &impl Clock) -> u64 {
    let sample = |_| {
        let start = clock.ticks();
        let lengths = (0..WAITS).map(|wait| WAIT_TICKS + LONGER * wait);
        let asked = lengths.inspect(|ticks| spin(clock, *ticks)).sum::<u64>();
        clock.ticks().wrapping_sub(start).saturating_sub(asked) / WAITS
    };
    (0..SAMPLES).map(sample).min().unwrap_or(0)
}

/// The processor's time stamp counter.
#[derive(Debug, Clone, Copy)]
pub struct Tsc {
    ticks_per_ns: f64,
    excess: u64,
}

impl Tsc {
    /// Uses the rate that `netmem::system::clock` calibrated once for the process, and an excess of waits that is
    /// measured once.
    pub fn new() -> Self {
        static EXCESS: OnceLock<u64> = OnceLock::new();
        let bare = Self { ticks_per_ns: clock::ticks_per_ns(), excess: 0 };
        Self { excess: *EXCESS.get_or_init(|| measured_excess(&bare)), ..bare }
    }
}

impl Default for Tsc {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for Tsc {
    #[inline]
    fn ticks(&self) -> u64 {
        clock::ticks()
    }

    fn ticks_per_ns(&self) -> f64 {
        self.ticks_per_ns
    }

    #[inline]
    fn excess(&self) -> u64 {
        self.excess
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::cell::Cell;

    /// A clock that only advances when a test tells it to: two ticks a nanosecond.
    #[derive(Default)]
    pub(crate) struct Synthetic(Cell<u64>);

    impl Synthetic {
        pub(crate) fn advance(&self, ticks: u64) {
            self.0.set(self.0.get() + ticks);
        }
    }

    impl Clock for Synthetic {
        fn ticks(&self) -> u64 {
            self.0.get()
        }

        fn ticks_per_ns(&self) -> f64 {
            2.0
        }

        fn wait(&self, ticks: u64) {
            self.advance(ticks);
        }
    }

    /// A clock that advances by the next of its steps at every reading: two ticks a nanosecond. The first reading
    /// is 0. After the last step it does not advance.
    pub(crate) struct Scripted<'a>(Cell<u64>, Cell<&'a [u64]>);

    impl<'a> Scripted<'a> {
        pub(crate) fn new(steps: &'a [u64]) -> Self {
            Self(Cell::new(0), Cell::new(steps))
        }
    }

    impl Clock for Scripted<'_> {
        fn ticks(&self) -> u64 {
            let now = self.0.get();
            if let Some((step, rest)) = self.1.get().split_first() {
                self.0.set(now + step);
                self.1.set(rest);
            }
            now
        }

        fn ticks_per_ns(&self) -> f64 {
            2.0
        }
    }

    /// A clock that takes 30 ticks for each reading, and knows by how much its waits are too long.
    struct Slow(Cell<u64>, u64);

    impl Clock for Slow {
        fn ticks(&self) -> u64 {
            self.0.set(self.0.get() + 30);
            self.0.get()
        }

        fn ticks_per_ns(&self) -> f64 {
            2.0
        }

        fn excess(&self) -> u64 {
            self.1
        }
    }

    /// Seen: a wait of 100 ns took 123, one of 500 took 530.
    #[test]
    fn a_wait_takes_its_time_and_not_also_that_of_reading_the_clock() {
        let mut clock = Slow(Cell::new(0), 0);
        let waited = |clock: &Slow, ticks| {
            let begun = clock.0.get();
            clock.wait(ticks);
            clock.0.get() - begun
        };
        assert_eq!(waited(&clock, 300), 330);
        clock.1 = measured_excess(&clock);
        let close: u64 = (300..360).map(|ticks| waited(&clock, ticks).abs_diff(ticks)).max().unwrap();
        assert!(close <= 30, "{close}, with an excess of {}", clock.1);
        assert_eq!(waited(&clock, 10), 60);
    }

    #[test]
    fn the_time_stamp_counter_rises_at_a_plausible_rate() {
        let clock = Tsc::new();
        let first = clock.ticks();
        assert!(clock.ticks() >= first);
        assert!((0.1..20.0).contains(&clock.ticks_per_ns()), "{} ticks per ns", clock.ticks_per_ns());
    }
}
