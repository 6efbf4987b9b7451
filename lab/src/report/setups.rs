//! The number of set-ups behind the ratios of older reports. A lab that writes [`Report::version`] marks each ratio of
//! too few set-ups itself. An older one did not, and often had fewer than an interval needs.

use crate::json::{Ratio, Report, Row};
use crate::method::placement::PARAMETER as PLACEMENT;
use crate::method::ratio::SETUPS_MIN;

/// The settings of the older labs, which their reports do not name.
struct Defaults {
    /// Set-ups of a run at least.
    least: u64,
    /// The rounds that a group of variants had in one set-up, by the number of groups that shared them. The most first.
    rounds: &'static [u64],
    /// Windows of a round.
    windows: u64,
}

const QUICK: Defaults = Defaults { least: 7, rounds: &[3, 1], windows: 48 };
const FULL: Defaults = Defaults { least: 11, rounds: &[10, 5, 3, 2, 1], windows: 64 };

/// Returns the report, in which each ratio of too few set-ups is marked. So is each ratio whose set-ups the report
/// does not record and its windows do not tell.
pub(super) fn marked(report: &Report) -> Report {
    let mut marked = report.clone();
    for ratio in marked.ratios.iter_mut().filter(|ratio| is_too_few(report, &rows_of(report, ratio))) {
        (ratio.undecided, ratio.too_few) = (true, true);
    }
    marked
}

/// Returns true if these rows have fewer set-ups than an interval needs, as far as the report tells.
pub(super) fn is_too_few(report: &Report, rows: &[&Row]) -> bool {
    report.version.is_none() && known(report, rows).is_none_or(|known| known < SETUPS_MIN as u64)
}

/// Returns the number of set-ups that an older report certainly has behind these rows. `None` if it does not tell.
pub(super) fn known(report: &Report, rows: &[&Row]) -> Option<u64> {
    let defaults = if report.quick { QUICK } else { FULL };
    let by_windows = rows.iter().filter_map(|row| defaults.by_windows(counted(row))).min();
    defaults.least_of(report).into_iter().chain(by_windows).max()
}

impl Defaults {
    /// Returns the least number of set-ups of any group, if the run was finished and a row has the windows of so many.
    fn least_of(&self, report: &Report) -> Option<u64> {
        let has_as_many = |row: &Row| row.windows > 1 && counted(row).is_multiple_of(self.least);
        (!report.interrupted && report.rows.iter().any(has_as_many)).then_some(self.least)
    }

    /// Returns the least number of set-ups with so many windows in all.
    fn by_windows(&self, windows: u64) -> Option<u64> {
        let of_a_set_up = self.rounds.iter().map(|rounds| rounds * self.windows);
        of_a_set_up
            .filter(|each| windows > 0 && windows.is_multiple_of(*each))
            .map(|each| windows / each)
            .next()
    }
}

/// Returns the windows of a row, dropped ones too.
fn counted(row: &Row) -> u64 {
    row.windows + row.windows_dropped
}

/// Returns the rows that a ratio divides.
fn rows_of<'r>(report: &'r Report, ratio: &Ratio) -> Vec<&'r Row> {
    let is_of = |row: &&Row| {
        let has = |(name, value): (&String, _)| name == PLACEMENT || row.params.get(name) == Some(value);
        let side = row.variant == ratio.a || row.variant == ratio.b;
        side && row.metric == ratio.metric && ratio.params.iter().all(has)
    };
    report.rows.iter().filter(is_of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::sample;

    /// A report of an older lab with one ratio, whose rows have this number of windows.
    fn old(quick: bool, windows: u64) -> Report {
        let mut report = Report { version: None, quick, ..sample() };
        (report.rows[0].windows, report.rows[0].windows_dropped) = (windows - 1, 1);
        report
    }

    fn setups(report: &Report) -> Option<u64> {
        known(report, &rows_of(report, &report.ratios[0]))
    }

    /// Seen: 17 of 45 reports were quick runs of seven set-ups, and their ratios counted as decided.
    #[test]
    fn a_quick_run_of_seven_set_ups_decides_nothing() {
        for windows in [1_008, 336, 112] {
            let report = old(true, windows);
            assert_eq!(setups(&report), Some(7), "{windows} windows");
            let ratio = &marked(&report).ratios[0];
            assert!(ratio.too_few && ratio.undecided);
        }
    }

    #[test]
    fn what_went_on_for_more_set_ups_has_them_by_its_windows() {
        for (quick, windows, known) in
            [(true, 672, 14), (true, 6_048, 42), (false, 7_040, 11), (false, 704, 11), (false, 2_420, 11)]
        {
            let report = old(quick, windows);
            assert_eq!(setups(&report), Some(known), "{windows} windows");
            assert!(!marked(&report).ratios[0].too_few, "{windows} windows");
        }
    }

    #[test]
    fn a_number_that_the_report_does_not_tell_is_too_few() {
        let untold = old(false, 7_001);
        assert_eq!(setups(&untold), None);
        assert!(marked(&untold).ratios[0].too_few);
        let interrupted = Report { interrupted: true, ..old(false, 660) };
        assert!(marked(&interrupted).ratios[0].too_few);
    }

    #[test]
    fn a_lab_that_marks_its_ratios_is_believed() {
        let report = Report { version: Some("0.1.0".into()), ..old(true, 1_008) };
        assert_eq!(marked(&report), report);
    }
}
