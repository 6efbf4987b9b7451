//! HOT: lets other threads have the core after rounds without work.

use std::thread;

/// Rounds without work before other threads may run.
const ROUNDS_MAX: u32 = 64;

/// Counts rounds without work, one after the other.
#[derive(Debug, Default)]
pub struct Idle(u32);

impl Idle {
    /// Counts a round. Yields the core if it is another one without work after [`ROUNDS_MAX`].
    pub fn round(&mut self, worked: bool) {
        self.0 = if worked { 0 } else { self.0.saturating_add(1) };
        if self.0 > ROUNDS_MAX {
            thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seen: after 2^32 rounds without a packet, which take about an hour, a sink panicked.
    #[test]
    fn the_count_of_rounds_without_work_does_not_overflow() {
        let mut idle = Idle(u32::MAX);
        idle.round(false);
        assert_eq!(idle.0, u32::MAX);
        idle.round(true);
        assert_eq!(idle.0, 0);
    }
}
