//! The source of ticks.

use netmem::system::clock;

/// A counter that rises at a constant rate.
pub trait Clock {
    /// Returns the current count.
    fn ticks(&self) -> u64;

    /// Returns the ticks in one nanosecond.
    fn ticks_per_ns(&self) -> f64;

    /// Waits for `ticks` without yielding the core.
    fn wait(&self, ticks: u64) {
        let start = self.ticks();
        while self.ticks().wrapping_sub(start) < ticks {
            std::hint::spin_loop();
        }
    }
}

/// The processor's time stamp counter.
#[derive(Debug, Clone, Copy)]
pub struct Tsc {
    ticks_per_ns: f64,
}

impl Tsc {
    /// Uses the rate that `netmem::system::clock` calibrated once for the process.
    pub fn new() -> Self {
        Self { ticks_per_ns: clock::ticks_per_ns() }
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

    #[test]
    fn the_time_stamp_counter_rises_at_a_plausible_rate() {
        let clock = Tsc::new();
        let first = clock.ticks();
        assert!(clock.ticks() >= first);
        assert!((0.1..20.0).contains(&clock.ticks_per_ns()), "{} ticks per ns", clock.ticks_per_ns());
    }
}
