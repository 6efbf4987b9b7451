//! What a run of an experiment keeps from one set-up to the next.
//!
//! Where memory lies decides part of what a loop over it costs, for as long as it lies there: two set-ups of the same
//! variant may differ by more than the interval of either. So an experiment is set up anew several times in a run, its
//! rounds are shared among the set-ups, and every set-up reports what all of them gave so far: the last one's report is
//! the run's.

use serde::{Deserialize, Serialize};

use crate::json::{Check, Ratio, Report, Row};
use crate::method::pauses::Gaps;
use crate::method::round::Series;

/// The set-ups of one experiment so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct History {
    /// Set-ups finished.
    pub(crate) setups: usize,
    /// What pauses took before the set-ups.
    pub(crate) before: Gaps,
    /// What pauses took of the windows.
    pub(crate) during: Gaps,
    /// The series of each group that is measured, in the order in which every set-up measures them.
    groups: Vec<Vec<Series>>,
    /// What was done in the first set-up only, in its order.
    once: Vec<Section>,
    /// Checks that did not hold, and will not hold for the run, whatever a later set-up says.
    failed: Vec<Check>,
}

/// What a part of an experiment added to the report.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section {
    rows: Vec<Row>,
    ratios: Vec<Ratio>,
    checks: Vec<Check>,
    notes: Vec<String>,
}

/// How long each part of a report is.
pub(crate) struct Lengths([usize; 4]);

impl History {
    /// What the set-ups so far gave for `group`.
    pub(crate) fn of(&self, group: usize) -> &[Series] {
        self.groups.get(group).map_or(&[], Vec::as_slice)
    }

    /// Adds what this set-up gave for `group` to what the earlier ones gave, and returns all of it.
    ///
    /// A group of other variants than before begins anew; until it has as many set-ups as there are at least, nothing of it is
    /// decided.
    pub(crate) fn add(&mut self, group: usize, series: Vec<Series>) -> Vec<Series> {
        if group >= self.groups.len() {
            self.groups.resize(group + 1, Vec::new());
        }
        let earlier = std::mem::take(&mut self.groups[group]);
        let labels = |series: &[Series]| series.iter().map(|one| one.label.clone()).collect::<Vec<_>>();
        let all: Vec<Series> = match labels(&earlier) == labels(&series) {
            true => earlier.into_iter().zip(series).map(|(so_far, last)| so_far.followed_by(last)).collect(),
            false => series,
        };
        self.groups[group].clone_from(&all);
        all
    }

    /// Puts what section `place` added in the first set-up into `report`; false if this is the first.
    pub(crate) fn repeat(&self, place: usize, report: &mut Report) -> bool {
        let Some(section) = self.once.get(place).cloned() else { return false };
        report.rows.extend(section.rows);
        report.ratios.extend(section.ratios);
        report.checks.extend(section.checks);
        report.notes.extend(section.notes);
        true
    }

    /// Keeps what was added to `report` since `before` for the set-ups to come.
    pub(crate) fn keep(&mut self, report: &Report, before: &Lengths) {
        let Lengths([rows, ratios, checks, notes]) = *before;
        self.once.push(Section {
            rows: report.rows[rows..].to_vec(),
            ratios: report.ratios[ratios..].to_vec(),
            checks: report.checks[checks..].to_vec(),
            notes: report.notes[notes..].to_vec(),
        });
    }

    /// Ends a set-up in which the checks `failed`: they stand in the reports of all later ones, too.
    pub(crate) fn end(&mut self, report: &mut Report, failed: Vec<Check>) {
        report.checks.extend(self.failed.iter().cloned());
        self.setups += 1;
        self.failed.extend(
            failed
                .into_iter()
                .map(|check| Check { name: format!("{} (set-up {})", check.name, self.setups), ..check }),
        );
    }
}

/// Whether it is asked after so many set-ups what is decided: after the least number, and after twice and four times as
/// many. Asked after each one, whatever is narrow by chance would be called decided.
pub(crate) fn is_asked(setups: usize, least: usize) -> bool {
    setups.is_multiple_of(least) && (setups / least).is_power_of_two()
}

impl Lengths {
    pub(crate) fn of(report: &Report) -> Self {
        Self([report.rows.len(), report.ratios.len(), report.checks.len(), report.notes.len()])
    }
}

#[cfg(test)]
mod tests {
    use super::is_asked;

    #[test]
    fn it_is_asked_after_the_least_twice_and_four_times_as_many() {
        let asked = |least| (1..=7 * least).filter(|&setups| is_asked(setups, least)).collect::<Vec<_>>();
        assert_eq!(asked(7), [7, 14, 28]);
        assert_eq!(asked(1), [1, 2, 4]);
        assert!(!is_asked(0, 7));
    }
}
