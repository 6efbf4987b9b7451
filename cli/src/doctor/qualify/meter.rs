//! Packets a second, by windows of time. HOT.

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
}

impl Meter {
    /// Records a round and the number of packets that came in it.
    pub fn mark(&mut self, now: u64, packets: u64) {
        self.packets += packets;
        self.has_gap |= now.saturating_sub(self.seen) > GAP;
        self.seen = now;
        let time = now.saturating_sub(self.begun);
        if time < WINDOW {
            return;
        }
        if !self.has_gap && self.packets > 0 {
            self.rates.push(self.packets * 1_000_000_000 / time);
        }
        (self.begun, self.packets, self.has_gap) = (now, 0, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_a_gap_or_without_a_packet_gives_no_rate() {
        let mut meter = Meter::default();
        let rounds = |meter: &mut Meter, from: u64, packets: u64| {
            (1..=8).for_each(|round| meter.mark(from + round * WINDOW / 8, packets));
        };
        // The time before the first round is not a window.
        meter.mark(WINDOW, 7);
        rounds(&mut meter, WINDOW, 2);
        rounds(&mut meter, 2 * WINDOW, 0);
        meter.mark(3 * WINDOW + GAP + 1, 5);
        meter.mark(4 * WINDOW, 5);
        rounds(&mut meter, 4 * WINDOW, 1);
        assert_eq!(meter.rates, [8000, 4000]);
    }
}
