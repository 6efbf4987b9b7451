//! How a published ratio and a measured one are held against each other.

use super::{Finding, Verdict};
use crate::json::{Ratio, Report, Row};
use crate::report::number;
use crate::report::pick::{self, Fixed};

/// The share of a published effect, in its logarithm, from which on it counts as seen in its size.
const SEEN: f64 = 0.5;

/// A measured ratio with what is known of its spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Measured {
    /// A ratio of one run, taken inside its rounds.
    pub(super) fn of(ratio: &Ratio) -> Self {
        Self { median: ratio.median, low: ratio.low, high: ratio.high }
    }

    /// Two rows that no ratio joins, with the spread of their windows.
    pub(super) fn over(a: &Row, b: &Row) -> Option<Self> {
        let measured = Self { median: a.median / b.median, low: a.p10 / b.p90, high: a.p90 / b.p10 };
        [measured.median, measured.low, measured.high].iter().all(|x| x.is_finite()).then_some(measured)
    }

    /// The ratio of these variants in `report`.
    pub(super) fn find(report: &Report, a: &str, b: &str, fixed: Fixed<'_>) -> Option<Self> {
        pick::ratio(report, a, b, fixed).map(Self::of)
    }

    /// As text, with its interval.
    pub(super) fn text(self) -> String {
        number::with_interval(self.median, self.low, self.high)
    }

    /// Held against the published ratio: which side of 1, and how far from it.
    pub(super) fn against(self, published: f64) -> Verdict {
        let there = published.ln();
        // How much of the published effect is seen: 1 is all of it, below 0 the opposite.
        let seen = |here: f64| here.ln() / there;
        let most = seen(self.low).max(seen(self.high));
        match (self.low <= 1.0 && self.high >= 1.0, seen(self.median)) {
            (true, _) if most < SEEN => Verdict::Fails,
            (true, _) => Verdict::Undecided,
            (false, share) if share >= SEEN => Verdict::Holds,
            (false, share) if share > 0.0 => Verdict::Smaller,
            (false, _) => Verdict::Fails,
        }
    }

    /// Held against a claim of no difference: at most `share` away from 1.
    pub(super) fn is_near_one(self, share: f64) -> Verdict {
        let within = |x: f64| x >= 1.0 - share && x <= 1.0 + share;
        match (within(self.low) && within(self.high), within(self.median)) {
            (true, _) => Verdict::Holds,
            (false, true) => Verdict::Undecided,
            (false, false) => Verdict::Fails,
        }
    }

    /// The finding for a published ratio; `what` is completed by the ratio: "a page costs … times".
    pub(super) fn finding(self, published: f64, what: &str, of: &str) -> Finding {
        let verdict = self.against(published);
        let tie = self.low <= 1.0 && self.high >= 1.0;
        let addition = match verdict {
            Verdict::Undecided => ", too wide an interval to tell",
            Verdict::Fails if tie => ", no difference",
            Verdict::Fails => ", the other way",
            _ => "",
        };
        let sentence =
            format!("Here {what} {} times {of}{addition}; the source: {published:.3}.", self.text());
        Finding { measured: format!("{:.3}", self.median), verdict, sentence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(low: f64, median: f64, high: f64) -> Measured {
        Measured { median, low, high }
    }

    #[test]
    fn a_gain_is_held_against_the_published_one() {
        for (measured, published, verdict) in [
            (measured(1.30, 1.40, 1.50), 1.4, Verdict::Holds),
            (measured(1.70, 1.80, 1.90), 1.02, Verdict::Holds),
            (measured(1.01, 1.02, 1.03), 1.4, Verdict::Smaller),
            (measured(0.99, 1.02, 1.03), 1.4, Verdict::Fails),
            (measured(0.90, 1.02, 1.30), 1.4, Verdict::Undecided),
            (measured(0.99, 1.01, 1.03), 1.02, Verdict::Undecided),
            (measured(0.55, 0.56, 0.58), 1.4, Verdict::Fails),
            (measured(0.25, 0.27, 0.28), 0.3, Verdict::Holds),
            (measured(1.20, 1.27, 1.30), 0.7, Verdict::Fails),
        ] {
            assert_eq!(measured.against(published), verdict, "{measured:?} against {published}");
        }
    }

    #[test]
    fn no_difference_must_show_within_the_whole_interval() {
        assert_eq!(measured(0.99, 1.0, 1.01).is_near_one(0.02), Verdict::Holds);
        assert_eq!(measured(0.95, 1.0, 1.05).is_near_one(0.02), Verdict::Undecided);
        assert_eq!(measured(1.08, 1.10, 1.12).is_near_one(0.02), Verdict::Fails);
    }

    #[test]
    fn a_claim_that_does_not_hold_is_said_so_in_a_sentence() {
        let finding = measured(0.55, 0.56, 0.58).finding(1.4, "it forwards", "as much");
        assert_eq!(finding.verdict.words(), "does not hold here");
        assert_eq!(
            finding.sentence,
            "Here it forwards 0.560 (0.550 to 0.580) times as much, the other way; the source: 1.400."
        );
    }
}
