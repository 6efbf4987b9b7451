//! How long a run still takes, from what its experiments say of themselves, corrected by what ran so far.

use std::time::Duration;

/// Seconds for which the experiments' own word counts beside what was seen: one short experiment says little of the rest.
const WORD: f64 = 10.0;

/// The time that a run still needs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Remaining {
    /// Seconds that the turns still to come should take by their own word, without the one at hand.
    to_come: f64,
    /// The one at hand.
    at_hand: f64,
    /// Seconds that the finished ones should have taken.
    expected: f64,
    /// Seconds that they took.
    took: f64,
}

impl Remaining {
    /// A turn of so many seconds by its own word is to come.
    pub fn expect(&mut self, seconds: f64) {
        self.to_come += seconds;
    }

    /// Turns of so many seconds by their own word will not come.
    pub(crate) fn spend(&mut self, seconds: f64) {
        self.to_come = (self.to_come - seconds).max(0.0);
    }

    /// How much slower than by their own word turns were so far.
    pub(crate) fn pace(&self) -> f64 {
        (self.took + WORD) / (self.expected + WORD)
    }

    /// One of the turns to come begins.
    pub fn begin(&mut self, seconds: f64) {
        self.to_come = (self.to_come - seconds).max(0.0);
        self.at_hand = seconds;
    }

    /// The turn at hand has ended after `took`.
    pub fn end(&mut self, took: Duration) {
        self.expected += self.at_hand;
        self.took += took.as_secs_f64();
        self.at_hand = 0.0;
    }

    /// What is left when the turn at hand has run for `so_far`. A turn that outlasts its share is taken to be at its end.
    pub fn after(&self, so_far: Duration) -> Duration {
        let pace = self.pace();
        let at_hand = (self.at_hand * pace - so_far.as_secs_f64()).max(0.0);
        Duration::from_secs_f64(self.to_come * pace + at_hand)
    }

    /// The share of the whole run that is done, 0 to 1.
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

    /// Turns of 10, 20 and 30 seconds by their own word.
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
        // 40 seconds where 20 were expected, the word of 10 counted in: twice as slow.
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
