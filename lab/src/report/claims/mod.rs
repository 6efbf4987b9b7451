//! The claims of the sources, and whether each holds in the given reports.

mod bulk_free;
mod descriptor;
mod hand_off;
mod judge;
mod pages;
mod ready_pool;

use crate::json::Report;
use crate::report::{machine, number};
use crate::sources;

/// A source: the texts in which its claims stand.
#[derive(Debug)]
pub(super) struct Source {
    /// Its key and citation.
    pub(super) text: &'static sources::Source,
    /// What it is about, and whose it is.
    pub(super) title: &'static str,
    /// What it claims.
    pub(super) claims: &'static [Claim],
    /// Where its own figures contradict it.
    pub(super) slip: Option<&'static str>,
}

/// One thing that a source says and that can be measured.
#[derive(Debug)]
pub(super) struct Claim {
    /// What programs call it.
    pub(super) name: &'static str,
    /// The experiment that measures it.
    pub(super) experiment: &'static str,
    /// What the source says.
    pub(super) says: &'static str,
    /// Its figure.
    pub(super) published: &'static str,
    /// Whether it stands on time, which a pause spoils, or on what was counted.
    pub(super) timed: bool,
    /// What a report says about it; `None` where the report lacks the rows.
    judge: fn(&Report) -> Option<Finding>,
}

/// Whether a claim holds, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// None of the reports has the rows.
    NotMeasured,
    /// What is measured here is not what the source measured.
    NotComparable,
    /// The whole interval lies between half of the effect and twice of it.
    Holds,
    /// The whole interval lies on the claimed side, and outside of that.
    OtherRegime,
    /// The interval has more than one of these in it.
    CannotTell,
    /// The whole interval leaves no such effect.
    Fails,
}

impl Verdict {
    /// All of them, in the order in which they are told.
    pub(super) const ALL: [Self; 6] = [
        Self::Holds,
        Self::OtherRegime,
        Self::Fails,
        Self::CannotTell,
        Self::NotComparable,
        Self::NotMeasured,
    ];

    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::OtherRegime => "holds in another regime",
            Self::Fails => "does not hold",
            Self::CannotTell => "cannot tell",
            Self::NotComparable => "not comparable",
            Self::NotMeasured => "not measured",
        }
    }

    /// For programs.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::OtherRegime => "other-regime",
            Self::Fails => "fails",
            Self::CannotTell => "cannot-tell",
            Self::NotComparable => "not-comparable",
            Self::NotMeasured => "not-measured",
        }
    }

    /// The class that colours it.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Holds => "good",
            Self::OtherRegime => "fair",
            Self::Fails => "bad",
            Self::CannotTell | Self::NotComparable | Self::NotMeasured => "open",
        }
    }
}

/// What was found about a claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    /// The figure measured here.
    pub(super) measured: String,
    /// Whether the claim holds.
    pub(super) verdict: Verdict,
    /// In a sentence or two, why.
    pub(super) sentence: String,
}

impl Finding {
    /// What is measured here is not what the source measured, and why.
    fn not_comparable(measured: String, reason: &str) -> Self {
        Self { measured, verdict: Verdict::NotComparable, sentence: format!("Not comparable: {reason}.") }
    }

    /// The same with one sentence more.
    fn because(mut self, more: &str) -> Self {
        self.sentence += " ";
        self.sentence += more;
        self
    }
}

impl Claim {
    /// Asks each report of its experiment, one for each machine; the worst first.
    pub(super) fn findings<'r>(&self, reports: &'r [Report]) -> Vec<(Option<&'r Report>, Finding)> {
        let of_it = reports.iter().filter(|report| report.experiment == self.experiment);
        let mut findings: Vec<_> = of_it.map(|report| (Some(report), self.ask(report))).collect();
        if findings.is_empty() {
            let why = "The files have no run of this experiment; to make one:";
            findings.push((None, self.lacking(why)));
        }
        // Stable: of two that are as bad, the first given stays first.
        findings.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.verdict));
        findings
    }

    /// The worst of its findings.
    pub(super) fn finding(&self, reports: &[Report]) -> Finding {
        let why = "The files have no run of this experiment; to make one:";
        self.findings(reports).into_iter().next().map_or_else(|| self.lacking(why), |(_, finding)| finding)
    }

    fn lacking(&self, why: &str) -> Finding {
        Finding {
            measured: "–".to_owned(),
            verdict: Verdict::NotMeasured,
            sentence: format!("{why} netmem lab run {}", self.experiment),
        }
    }

    fn ask(&self, report: &Report) -> Finding {
        let Some(finding) = (self.judge)(report) else {
            return self.lacking("The run at hand lacks these rows; to make them:");
        };
        match machine::does_not_stand(report) {
            Some(lost) if self.timed && finding.verdict != Verdict::NotComparable => Finding {
                measured: finding.measured,
                verdict: Verdict::CannotTell,
                sentence: format!(
                    "The run does not stand: {} % of its measured time was lost to pauses of the machine.",
                    number::figure(lost)
                ),
            },
            _ if report.interrupted => finding.because("The run was interrupted."),
            _ => finding,
        }
    }
}

/// All sources, in the order of the first experiments of each.
pub(super) const SOURCES: &[Source] =
    &[bulk_free::SOURCE, hand_off::SOURCE, descriptor::SOURCE, ready_pool::SOURCE, pages::SOURCE];

#[cfg(test)]
mod tests;
