//! Packets a second, by windows of time. HOT.

use std::mem;

/// Nanoseconds of a window.
const WINDOW: u64 = 2_000_000;
/// A longer time between two rounds is a gap, in which the machine did other work.
const GAP: u64 = 500_000;

/// The rates of windows without a gap.
#[derive(Default)]
pub struct Meter {
    /// Packets a second.
    pub rates: Vec<u64>,
    begun: u64,
    seen: u64,
    packets: u64,
    has_gap: bool,
    /// True if there was a round in which no packet needed to come.
    was_idle: bool,
}

impl Meter {
    /// Records a round, the number of packets that came in it, and whether packets were expected. A window in which
    /// packets were always expected and none came has a rate of 0.
    pub fn mark(&mut self, now: u64, packets: u64, expected: bool) {
        self.packets += packets;
        self.was_idle |= !expected;
        self.has_gap |= now.saturating_sub(self.seen) > GAP;
        self.seen = now;
        let time = now.saturating_sub(self.begun);
        if time < WINDOW {
            return;
        }
        if !self.has_gap && (self.packets > 0 || !self.was_idle) {
            self.rates.push(self.packets * 1_000_000_000 / time);
        }
        *self = Meter { rates: mem::take(&mut self.rates), begun: now, seen: now, ..Meter::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_a_gap_or_without_a_packet_in_flight_gives_no_rate() {
        let mut meter = Meter::default();
        // The time before the first round is not a window.
        meter.mark(WINDOW, 7, true);
        rounds(&mut meter, WINDOW, 2, true);
        rounds(&mut meter, 2 * WINDOW, 0, false);
        meter.mark(3 * WINDOW + GAP + 1, 5, true);
        meter.mark(4 * WINDOW, 5, true);
        rounds(&mut meter, 4 * WINDOW, 1, true);
        assert_eq!(meter.rates, [8000, 4000]);
    }

    /// Seen: the quantiles of a device that delivered nothing in most windows, with packets in flight, were those of the
    /// others.
    #[test]
    fn a_window_in_which_no_packet_in_flight_came_has_a_rate_of_0() {
        let mut meter = Meter::default();
        meter.mark(WINDOW, 7, true);
        rounds(&mut meter, WINDOW, 0, true);
        rounds(&mut meter, 2 * WINDOW, 2, true);
        rounds(&mut meter, 3 * WINDOW, 0, true);
        assert_eq!(meter.rates, [0, 8000, 0]);
    }

    /// Marks a window in eight rounds.
    fn rounds(meter: &mut Meter, from: u64, packets: u64, expected: bool) {
        (1..=8).for_each(|round| meter.mark(from + round * WINDOW / 8, packets, expected));
    }
}
