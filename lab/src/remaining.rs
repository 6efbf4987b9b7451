//! The remaining time of a run, from the experiments' own estimates, corrected by the turns so far.

use std::time::Duration;

/// The weight of the experiments' own estimates against observed times, in seconds: one short experiment says
/// little about the rest.
const WORD: f64 = 10.0;

/// The remaining time of a run.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Remaining {
    /// Estimated seconds of later turns, without the current one.
    to_come: f64,
    /// Estimated seconds of the current turn.
    at_hand: f64,
    /// Estimated seconds of the finished turns.
    expected: f64,
    /// Actual seconds of the finished turns.
    took: f64,
}

impl Remaining {
    /// Adds a later turn with an estimate of this many seconds.
    pub fn expect(&mut self, seconds: f64) {
        self.to_come += seconds;
    }

    /// Removes later turns with estimates of this many seconds.
    pub(crate) fn spend(&mut self, seconds: f64) {
        self.to_come = (self.to_come - seconds).max(0.0);
    }

    /// Returns the ratio of actual to estimated time so far.
    pub(crate) fn pace(&self) -> f64 {
        (self.took + WORD) / (self.expected + WORD)
    }

    /// Begins one of the later turns.
    pub fn begin(&mut self, seconds: f64) {
        self.to_come = (self.to_come - seconds).max(0.0);
        self.at_hand = seconds;
    }

    /// Ends the current turn, which `took` this long.
    pub fn end(&mut self, took: Duration) {
        self.expected += self.at_hand;
        self.took += took.as_secs_f64();
        self.at_hand = 0.0;
    }

    /// Returns the remaining time when the current turn has run for `so_far`. A turn that exceeds its estimate
    /// counts as finished.
    pub fn after(&self, so_far: Duration) -> Duration {
        let pace = self.pace();
        let at_hand = (self.at_hand * pace - so_far.as_secs_f64()).max(0.0);
        Duration::from_secs_f64(self.to_come * pace + at_hand)
    }

    /// Returns the share of the whole run that is done, 0 to 1.
    pub fn share_done(&self, so_far: Duration) -> f64 {
        let done = self.took + so_far.as_secs_f64();
        let all = done + self.after(so_far).as_secs_f64();
        if all > 0.0 { done / all } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    /// Turns with estimates of 10, 20 and 30 seconds.
    fn three() -> Remaining {
        let mut remaining = Remaining::default();
        [10.0, 20.0, 30.0].into_iter().for_each(|turn| remaining.expect(turn));
        remaining
    }

    #[test]
    fn before_anything_has_run_the_experiments_word_counts() {
        assert_eq!(three().after(Duration::ZERO), seconds(60.0));
    }

    #[test]
    fn a_machine_that_is_slow_so_far_is_taken_to_stay_slow() {
        let mut remaining = three();
        remaining.begin(10.0);
        remaining.end(seconds(30.0));
        // 40 seconds instead of 20, with the weight of 10 for the estimates: twice as slow.
        assert_eq!(remaining.after(Duration::ZERO), seconds(100.0));
        remaining.begin(20.0);
        assert_eq!(remaining.after(seconds(15.0)), seconds(85.0));
    }

    #[test]
    fn a_turn_that_outlasts_its_share_leaves_the_others() {
        let mut remaining = three();
        remaining.begin(10.0);
        assert_eq!(remaining.after(seconds(500.0)), seconds(50.0));
    }

    #[test]
    fn the_share_done_rises_from_nothing_to_all() {
        let mut remaining = three();
        assert_eq!(remaining.share_done(Duration::ZERO), 0.0);
        for turn in [10.0, 20.0, 30.0] {
            remaining.begin(turn);
            remaining.end(seconds(turn));
        }
        assert_eq!(remaining.share_done(Duration::ZERO), 1.0);
        assert_eq!(Remaining::default().share_done(Duration::ZERO), 0.0);
    }
}
