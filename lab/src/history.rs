//! The data of an experiment's run that is kept from one set-up to the next.
//!
//! The location of memory determines part of a loop's cost, and it stays the same during a set-up. So two set-ups
//! of the same variant may differ by more than the interval of either. An experiment is therefore set up several
//! times in a run, and its rounds are shared among the set-ups. Every set-up reports the values of all so far, and
//! the last one's report is that of the run.

use serde::{Deserialize, Serialize};

use crate::json::{Check, Ratio, Report, Row};
use crate::method::pauses::Gaps;
use crate::method::round::Series;

/// The set-ups of one experiment so far.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct History {
    /// Number of finished set-ups.
    pub(crate) setups: usize,
    /// Time lost to pauses before the set-ups.
    pub(crate) before: Gaps,
    /// Time lost to pauses in the windows.
    pub(crate) during: Gaps,
    /// The series of each measured group, in the order in which every set-up measures them.
    groups: Vec<Vec<Series>>,
    /// The sections of the first set-up only, in order.
    once: Vec<Section>,
    /// Failed checks. They stay failed for the run, whatever a later set-up reports.
    failed: Vec<Check>,
    /// Notes that stay in the reports of all later set-ups.
    notes: Vec<String>,
}

/// The part of the report that a section of an experiment added.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Section {
    rows: Vec<Row>,
    ratios: Vec<Ratio>,
    checks: Vec<Check>,
    notes: Vec<String>,
}

/// The length of each part of a report.
pub(crate) struct Lengths([usize; 4]);

impl History {
    /// Returns the failed checks of the set-ups so far, in their order.
    pub(crate) fn failed(&self) -> &[Check] {
        &self.failed
    }

    /// Returns the values of the set-ups so far for `group`.
    pub(crate) fn of(&self, group: usize) -> &[Series] {
        self.groups.get(group).map_or(&[], Vec::as_slice)
    }

    /// Adds this set-up's values for `group` to the earlier ones, and returns all of them.
    ///
    /// A group whose variants have changed begins again. It is undecided until it has the minimum number of
    /// set-ups.
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

    /// Adds the content of section `place` of the first set-up to `report`. Returns false if this is the first.
    pub(crate) fn repeat(&self, place: usize, report: &mut Report) -> bool {
        let Some(section) = self.once.get(place).cloned() else { return false };
        report.rows.extend(section.rows);
        report.ratios.extend(section.ratios);
        report.checks.extend(section.checks);
        report.notes.extend(section.notes);
        true
    }

    /// Keeps everything that was added to `report` since `before` for later set-ups.
    pub(crate) fn keep(&mut self, report: &Report, before: &Lengths) {
        let Lengths([rows, ratios, checks, notes]) = *before;
        self.once.push(Section {
            rows: report.rows[rows..].to_vec(),
            ratios: report.ratios[ratios..].to_vec(),
            checks: report.checks[checks..].to_vec(),
            notes: report.notes[notes..].to_vec(),
        });
    }

    /// Adds a note about this set-up, which is in all later reports too.
    pub(crate) fn note(&mut self, note: &str) -> String {
        let note = format!("{note} (set-up {})", self.setups + 1);
        self.notes.push(note.clone());
        note
    }

    /// Ends a set-up in which the checks `failed`. They are in all later reports too.
    pub(crate) fn end(&mut self, report: &mut Report, failed: Vec<Check>) {
        report.checks.extend(self.failed.iter().cloned());
        let lasting =
            self.notes.iter().filter(|note| !report.notes.contains(note)).cloned().collect::<Vec<_>>();
        report.notes.extend(lasting);
        self.setups += 1;
        self.failed.extend(
            failed
                .into_iter()
                .map(|check| Check { name: format!("{} (set-up {})", check.name, self.setups), ..check }),
        );
    }
}

/// Returns true if decisions are checked after this many set-ups: after the minimum number, and after twice and
/// four times that number. With a check after each set-up, an interval that is narrow by chance would count as
/// decided.
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
    fn a_decision_is_due_after_the_least_number_of_set_ups_and_twice_and_four_times_as_many() {
        let asked = |least| (1..=7 * least).filter(|&setups| is_asked(setups, least)).collect::<Vec<_>>();
        assert_eq!(asked(7), [7, 14, 28]);
        assert_eq!(asked(1), [1, 2, 4]);
        assert!(!is_asked(0, 7));
    }
}
