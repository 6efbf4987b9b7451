//! Compares a published ratio with a measured one, by the whole interval and never by a median alone.

use super::{Finding, Verdict};
use crate::json::{Ratio, Report, Row};
use crate::report::number;
use crate::report::pick::{self, Fixed};
use crate::report::setups;

/// Shares of a published effect, in its logarithm. A claim holds if the whole interval lies between half of its
/// effect and twice its effect. Below a twentieth there is no effect.
const HALF: f64 = 0.5;
const TWICE: f64 = 2.0;
const HARDLY: f64 = 0.05;

/// What lies between the two ends of a measured ratio.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ends {
    /// The 95 % interval of the median of ratios that were taken inside rounds.
    Interval,
    /// The windows of the two rows, from the 10th to the 90th percentile. This does not narrow with more windows.
    Spread,
    /// The intervals of several settings that the source leaves open, from the lowest end to the highest.
    Settings,
}

/// A measured ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Measured {
    pub(super) median: f64,
    pub(super) low: f64,
    pub(super) high: f64,
    /// True if the interval stayed wider than the method allows, or there are [too few](Self::too_few) set-ups.
    pub(super) undecided: bool,
    /// True if it comes from fewer set-ups than an interval needs.
    pub(super) too_few: bool,
    pub(super) ends: Ends,
}

impl Measured {
    /// Returns a ratio of one run, computed inside its rounds.
    pub(super) fn of(ratio: &Ratio) -> Self {
        let Ratio { median, low, high, undecided, too_few, .. } = *ratio;
        Self { median, low, high, undecided, too_few, ends: Ends::Interval }
    }

    /// Returns a ratio of two counts, which is exact.
    pub(super) fn counted(ratio: f64) -> Self {
        let (median, low, high) = (ratio, ratio, ratio);
        Self { median, low, high, undecided: false, too_few: false, ends: Ends::Interval }
    }

    /// Returns the ratio of two rows without a common ratio, with the spread of their windows. It is exact if both
    /// are counts.
    pub(super) fn over(a: &Row, b: &Row) -> Option<Self> {
        let (median, low, high) = (a.median / b.median, a.p10 / b.p90, a.p90 / b.p10);
        let finite = [median, low, high].iter().all(|x| x.is_finite());
        finite.then_some(Self { median, low, high, undecided: false, too_few: false, ends: Ends::Spread })
    }

    /// The same for rows of windows, which decide nothing if `report` has too few set-ups.
    pub(super) fn over_windows(report: &Report, a: &Row, b: &Row) -> Option<Self> {
        let too_few = setups::is_too_few(report, &[a, b]);
        Some(Self { undecided: too_few, too_few, ..Self::over(a, b)? })
    }

    /// Returns all that lies between the ends of `each`, which are ratios at settings of which the source names none.
    pub(super) fn of_settings(each: &[Self]) -> Option<Self> {
        let first = each.first()?;
        let low = each.iter().map(|one| one.low).fold(first.low, f64::min);
        let high = each.iter().map(|one| one.high).fold(first.high, f64::max);
        let (undecided, too_few) = (each.iter().any(|one| one.undecided), each.iter().any(|one| one.too_few));
        Some(Self { median: first.median, low, high, undecided, too_few, ends: Ends::Settings })
    }

    /// Returns the ratio of `a` to `b`. If the run has only the ratios of both to `third`, it is their quotient, whose
    /// interval is at least as wide.
    pub(super) fn find_by(report: &Report, a: &str, b: &str, third: &str, fixed: Fixed<'_>) -> Option<Self> {
        let over = |a, b| Self::find(report, a, b, fixed);
        over(a, b).or_else(|| {
            let (a, b) = (over(a, third)?, over(b, third)?);
            Some(Self {
                median: a.median / b.median,
                low: a.low / b.high,
                high: a.high / b.low,
                undecided: a.undecided || b.undecided,
                too_few: a.too_few || b.too_few,
                ends: Ends::Interval,
            })
        })
    }

    /// Returns the ratio of these variants in `report`.
    pub(super) fn find(report: &Report, a: &str, b: &str, fixed: Fixed<'_>) -> Option<Self> {
        pick::ratio(report, a, b, fixed).map(Self::of)
    }

    /// Returns the ratio of these variants or, if the run has none, that of their rows of `metric`.
    pub(super) fn find_or_over(report: &Report, a: &str, b: &str, metric: &str) -> Option<Self> {
        let row = |variant| pick::row(report, variant, metric, &[]);
        Self::find(report, a, b, &[]).or_else(|| Self::over_windows(report, row(a)?, row(b)?))
    }

    /// Returns the text, with the interval, or with the spread of windows, which is called so.
    pub(super) fn text(self) -> String {
        let Self { median, low, high, .. } = self;
        match self.ends {
            Ends::Spread if low < high => format!("{median:.3} (windows: {low:.3} to {high:.3})"),
            Ends::Settings => format!("{low:.3} to {high:.3}"),
            _ => number::with_interval(median, low, high),
        }
    }

    /// Returns the minimum and the maximum share of the published effect that is seen: 1 is all of it, below 0 is
    /// the opposite.
    fn seen(self, published: f64) -> (f64, f64) {
        let seen = |here: f64| here.ln() / published.ln();
        let (low, high) = (seen(self.low), seen(self.high));
        (low.min(high), low.max(high))
    }

    /// Compares it with the published ratio.
    pub(super) fn against(self, published: f64) -> Verdict {
        let (least, most) = self.seen(published);
        match () {
            () if self.undecided => Verdict::CannotTell,
            () if most < HARDLY => Verdict::Fails,
            () if least <= 0.0 && most < HALF => Verdict::Fails,
            () if least <= 0.0 => Verdict::CannotTell,
            () if least >= HALF && most <= TWICE => Verdict::Holds,
            () if most < HALF || least > TWICE => Verdict::OtherRegime,
            () => Verdict::CannotTell,
        }
    }

    /// Compares it with a claim of no difference: at most `share` away from 1.
    pub(super) fn is_near_one(self, share: f64) -> Verdict {
        match () {
            () if self.undecided => Verdict::CannotTell,
            () if self.low >= 1.0 - share && self.high <= 1.0 + share => Verdict::Holds,
            () if self.low > 1.0 + share || self.high < 1.0 - share => Verdict::Fails,
            () => Verdict::CannotTell,
        }
    }

    /// Compares it with a claim without a figure: that it is more than 1.
    pub(super) fn is_more(self) -> Verdict {
        match () {
            () if self.undecided => Verdict::CannotTell,
            () if self.low > 1.0 => Verdict::Holds,
            () if self.high < 1.0 => Verdict::Fails,
            () => Verdict::CannotTell,
        }
    }

    /// The same for more than `share` above 1: up to that counts as no difference.
    pub(super) fn is_more_by(self, share: f64) -> Verdict {
        match () {
            () if self.undecided => Verdict::CannotTell,
            () if self.low > 1.0 + share => Verdict::Holds,
            () if self.high <= 1.0 + share => Verdict::Fails,
            () => Verdict::CannotTell,
        }
    }

    /// Returns the remark of a verdict against a published ratio, in addition to its name.
    fn addition(self, published: f64) -> &'static str {
        let (least, most) = self.seen(published);
        match self.against(published) {
            Verdict::Fails if most < 0.0 => ", the other way",
            Verdict::Fails => ", no such difference",
            Verdict::OtherRegime if least > TWICE => ", more than twice the effect",
            Verdict::OtherRegime => ", less than half of the effect",
            Verdict::CannotTell if self.too_few => ", of fewer set-ups than an interval needs",
            Verdict::CannotTell if least > 0.0 && !self.undecided => {
                ", in its direction, by how much cannot be told"
            }
            Verdict::CannotTell => ", too wide an interval to tell",
            _ => "",
        }
    }

    /// Returns the finding for a published ratio. `what` is completed by the ratio: "a page costs … times".
    pub(super) fn finding(self, published: f64, what: &str, of: &str) -> Finding {
        let (verdict, addition) = (self.against(published), self.addition(published));
        self.judged(
            verdict,
            &format!("{what} {} times {of}{addition}; the source: {published:.3}", self.text()),
        )
    }

    /// Compares it with a claim of more than a figure above 1. An interval that only reaches the figure does not show it.
    fn over_figure(self, published: f64) -> Verdict {
        match self.against(published) {
            _ if !self.undecided && self.low >= published => Verdict::Holds,
            Verdict::Fails => Verdict::Fails,
            _ if !self.undecided && self.low > 1.0 && self.high < published => Verdict::OtherRegime,
            _ => Verdict::CannotTell,
        }
    }

    /// The same for a source that says "more than".
    pub(super) fn finding_over(self, published: f64, what: &str, of: &str) -> Finding {
        let verdict = self.over_figure(published);
        let addition = match verdict {
            Verdict::OtherRegime => ", in its direction, and not so much",
            Verdict::CannotTell if self.too_few => ", of fewer set-ups than an interval needs",
            Verdict::CannotTell if self.high < published || self.undecided => {
                ", too wide an interval to tell"
            }
            Verdict::CannotTell => ", an interval that contains the figure of the source",
            Verdict::Fails => self.addition(published),
            _ => "",
        };
        let measured = self.text();
        self.judged(
            verdict,
            &format!("{what} {measured} times {of}{addition}; the source: more than {published:.3}"),
        )
    }

    fn judged(self, verdict: Verdict, sentence: &str) -> Finding {
        let measured = if self.ends == Ends::Settings { self.text() } else { format!("{:.3}", self.median) };
        Finding { measured, verdict, sentence: format!("Here {sentence}.") }
    }

    /// The same for a claim that there is hardly a difference: at most `share`, whatever the source's own figure.
    pub(super) fn finding_of_none(self, share: f64, published: f64, what: &str, of: &str) -> Finding {
        let verdict = self.is_near_one(share);
        let addition = match verdict {
            Verdict::Fails => format!(", a difference of more than {:.0} %", 100.0 * share),
            Verdict::CannotTell if self.too_few => ", of fewer set-ups than an interval needs".to_owned(),
            Verdict::CannotTell => ", too wide an interval to tell".to_owned(),
            _ => format!(", at most {:.0} % apart", 100.0 * share),
        };
        let sentence =
            format!("Here {what} {} times {of}{addition}; the source: {published:.3}.", self.text());
        Finding { measured: format!("{:.3}", self.median), verdict, sentence }
    }
}

/// Returns the verdict about a claim from those at each setting that the source leaves open. It holds in another regime
/// if it holds at some of them only.
pub(super) fn at_settings(verdicts: &[Verdict]) -> Verdict {
    let held = verdicts.iter().filter(|verdict| **verdict == Verdict::Holds).count();
    match () {
        () if held == verdicts.len() => Verdict::Holds,
        () if held > 0 => Verdict::OtherRegime,
        () if verdicts.iter().all(|verdict| *verdict == Verdict::Fails) => Verdict::Fails,
        () => Verdict::CannotTell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(low: f64, median: f64, high: f64) -> Measured {
        Measured { median, low, high, ..Measured::counted(1.0) }
    }

    #[test]
    fn a_gain_is_held_against_the_published_one() {
        for (measured, published, verdict) in [
            (measured(1.30, 1.40, 1.50), 1.4, Verdict::Holds),
            (measured(1.70, 1.80, 1.90), 1.02, Verdict::OtherRegime),
            (measured(1.001, 1.005, 1.01), 1.4, Verdict::Fails),
            (measured(1.03, 1.05, 1.10), 1.4, Verdict::OtherRegime),
            (measured(1.15, 1.20, 1.30), 1.4, Verdict::CannotTell),
            (measured(0.99, 1.02, 1.03), 1.4, Verdict::Fails),
            (measured(0.90, 1.02, 1.30), 1.4, Verdict::CannotTell),
            (measured(0.99, 1.01, 1.03), 1.02, Verdict::CannotTell),
            (measured(0.55, 0.56, 0.58), 1.4, Verdict::Fails),
            (measured(0.25, 0.27, 0.28), 0.3, Verdict::Holds),
            (measured(0.05, 0.06, 0.07), 0.3, Verdict::OtherRegime),
            (measured(1.20, 1.27, 1.30), 0.7, Verdict::Fails),
        ] {
            assert_eq!(measured.against(published), verdict, "{measured:?} against {published}");
        }
    }

    #[test]
    fn a_ratio_that_the_method_calls_undecided_decides_no_claim() {
        let wide = Measured { undecided: true, ..measured(1.30, 1.40, 1.50) };
        let verdicts = [wide.against(1.4), wide.is_near_one(0.9), wide.is_more()];
        assert_eq!(verdicts, [Verdict::CannotTell; 3]);
    }

    #[test]
    fn the_median_alone_decides_nothing() {
        for median in [0.5, 1.0, 1.4, 3.0] {
            assert_eq!(measured(1.30, median, 1.50).against(1.4), Verdict::Holds);
            assert_eq!(measured(0.90, median, 1.30).against(1.4), Verdict::CannotTell);
            assert_eq!(measured(0.99, median, 1.01).is_near_one(0.02), Verdict::Holds);
        }
    }

    #[test]
    fn no_difference_must_show_within_the_whole_interval() {
        assert_eq!(measured(0.99, 1.0, 1.01).is_near_one(0.02), Verdict::Holds);
        assert_eq!(measured(0.95, 1.0, 1.05).is_near_one(0.02), Verdict::CannotTell);
        assert_eq!(measured(1.01, 1.05, 1.12).is_near_one(0.02), Verdict::CannotTell);
        assert_eq!(measured(1.08, 1.10, 1.12).is_near_one(0.02), Verdict::Fails);
    }

    /// Seen: "they hardly show" did not hold with 1.003, as that is not half of the source's 1.028.
    #[test]
    fn a_claim_that_something_hardly_shows_holds_where_it_does_not_show() {
        let verdict = |low, median, high| {
            measured(low, median, high).finding_of_none(0.05, 146.0 / 142.0, "a", "b").verdict
        };
        assert_eq!(verdict(0.998, 1.003, 1.008), Verdict::Holds);
        assert_eq!(verdict(1.02, 1.04, 1.06), Verdict::CannotTell);
        assert_eq!(verdict(1.08, 1.1, 1.12), Verdict::Fails);
    }

    #[test]
    fn a_spread_of_windows_is_not_shown_as_an_interval() {
        let row = |median, p10, p90| Row { median, p10, p90, ..crate::json::tests::sample().rows.remove(0) };
        let spread = Measured::over(&row(4.0, 3.0, 5.0), &row(2.0, 1.0, 3.0)).unwrap();
        assert_eq!(spread.text(), "2.000 (windows: 1.000 to 5.000)");
        let exact = Measured::over(&row(4.0, 4.0, 4.0), &row(2.0, 2.0, 2.0)).unwrap();
        assert_eq!(exact.text(), "2.000");
    }

    #[test]
    fn settings_that_the_source_leaves_open_count_together() {
        let over = |each: &[Measured]| Measured::of_settings(each).unwrap();
        let both = over(&[measured(1.2, 1.25, 1.3), measured(1.01, 1.02, 1.03)]);
        assert_eq!((both.text(), both.against(1.02)), ("1.010 to 1.300".to_owned(), Verdict::CannotTell));
        assert_eq!(both.finding(1.02, "a", "b").measured, "1.010 to 1.300");
        assert_eq!(
            over(&[measured(1.015, 1.02, 1.03), measured(1.02, 1.02, 1.03)]).against(1.02),
            Verdict::Holds
        );
        assert!(Measured::of_settings(&[]).is_none());
        let [holds, fails, open] = [Verdict::Holds, Verdict::Fails, Verdict::CannotTell];
        for (each, verdict) in [
            ([holds, holds], holds),
            ([holds, fails], Verdict::OtherRegime),
            ([fails, fails], fails),
            ([fails, open], open),
        ] {
            assert_eq!(at_settings(&each), verdict, "{each:?}");
        }
    }

    #[test]
    fn two_ratios_to_a_third_give_a_wider_one() {
        let mut report = crate::json::tests::sample();
        let one = report.ratios.remove(0);
        let over = |a: &str, low, median, high| Ratio { a: a.into(), low, median, high, ..one.clone() };
        report.ratios = vec![over("x", 3.0, 4.0, 5.0), over("y", 1.0, 2.0, 2.5)];
        let found = Measured::find_by(&report, "x", "y", "limit", &[]).unwrap();
        assert_eq!((found.low, found.median, found.high), (3.0 / 2.5, 2.0, 5.0));
        report.ratios.push(Ratio { b: "y".into(), ..over("x", 1.9, 2.0, 2.1) });
        assert_eq!(Measured::find_by(&report, "x", "y", "limit", &[]).unwrap().high, 2.1);
    }

    #[test]
    fn a_claim_without_a_figure_has_a_direction() {
        assert_eq!(measured(1.01, 1.1, 1.2).is_more(), Verdict::Holds);
        assert_eq!(measured(0.99, 1.1, 1.2).is_more(), Verdict::CannotTell);
        assert_eq!(measured(0.8, 0.9, 0.99).is_more(), Verdict::Fails);
        // With a margin, "a little more" is no difference.
        assert_eq!(measured(1.03, 1.1, 1.2).is_more_by(0.02), Verdict::Holds);
        assert_eq!(measured(1.001, 1.01, 1.019).is_more_by(0.02), Verdict::Fails);
        assert_eq!(measured(1.01, 1.02, 1.03).is_more_by(0.02), Verdict::CannotTell);
    }

    #[test]
    fn more_than_a_figure_holds_however_much_more_it_is() {
        let verdict =
            |low, high| measured(low, f64::midpoint(low, high), high).finding_over(1.4, "a", "b").verdict;
        assert_eq!([verdict(1.5, 9.0), verdict(1.3, 9.0)], [Verdict::Holds, Verdict::CannotTell]);
        assert_eq!([verdict(1.4, 1.5), verdict(0.5, 0.6)], [Verdict::Holds, Verdict::Fails]);
    }

    /// Seen: "more than 1.4" held with 1.203 to 1.442.
    #[test]
    fn more_than_a_figure_does_not_hold_of_an_interval_that_only_reaches_it() {
        let verdict =
            |low, high| measured(low, f64::midpoint(low, high), high).finding_over(1.4, "a", "b").verdict;
        assert_eq!([verdict(1.203, 1.442), verdict(1.39, 1.404)], [Verdict::CannotTell; 2]);
        assert_eq!([verdict(1.2, 1.39), verdict(1.03, 1.1)], [Verdict::OtherRegime; 2]);
        assert_eq!([verdict(0.9, 1.3), verdict(0.99, 1.03)], [Verdict::CannotTell, Verdict::Fails]);
    }

    #[test]
    fn a_claim_that_does_not_hold_is_said_so_in_a_sentence() {
        let finding = measured(0.55, 0.56, 0.58).finding(1.4, "it forwards", "as much");
        assert_eq!(finding.verdict.words(), "does not hold");
        assert_eq!(
            finding.sentence,
            "Here it forwards 0.560 (0.550 to 0.580) times as much, the other way; the source: 1.400."
        );
    }
}
