//! The claims of the sources, and whether each holds in the given reports.

mod bulk_free;
mod descriptor;
mod hand_off;
mod judge;
mod later;
mod pages;
mod ready_pool;
mod slab_bulk;

use crate::json::Report;
use crate::report::{machine, number};
use crate::sources;

/// A source: the texts with its claims.
#[derive(Debug)]
pub(super) struct Source {
    /// Its key and citation.
    pub(super) text: &'static sources::Source,
    /// Its subject and author.
    pub(super) title: &'static str,
    /// Its claims.
    pub(super) claims: &'static [Claim],
    /// The passage in which its own figures contradict it.
    pub(super) slip: Option<&'static str>,
}

/// One measurable statement of a source.
#[derive(Debug)]
pub(super) struct Claim {
    /// Its name for programs.
    pub(super) name: &'static str,
    /// The experiment that measures it.
    pub(super) experiment: &'static str,
    /// The statement.
    pub(super) says: &'static str,
    /// Its figure.
    pub(super) published: &'static str,
    /// True if it depends on time, which a pause invalidates, and not on counts.
    pub(super) timed: bool,
    /// Judges a report. Returns `None` if the report lacks the rows.
    judge: fn(&Report) -> Option<Finding>,
}

/// The verdict about a claim, the worst last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Verdict {
    /// None of the reports has the rows.
    NotMeasured,
    /// This measurement differs from that of the source.
    NotComparable,
    /// The whole interval lies between half of the effect and twice the effect.
    Holds,
    /// The whole interval lies on the claimed side, and outside of that range.
    OtherRegime,
    /// The interval covers more than one of these.
    CannotTell,
    /// The whole interval excludes such an effect.
    Fails,
}

impl Verdict {
    /// All verdicts, in the order in which they are reported.
    pub(super) const ALL: [Self; 6] = [
        Self::Holds,
        Self::OtherRegime,
        Self::Fails,
        Self::CannotTell,
        Self::NotComparable,
        Self::NotMeasured,
    ];

    /// Returns the verdict in words.
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

    /// Returns the name for programs.
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

    /// Returns the class for its colour.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Holds => "good",
            Self::OtherRegime => "fair",
            Self::Fails => "bad",
            Self::CannotTell | Self::NotComparable | Self::NotMeasured => "open",
        }
    }
}

/// The finding about a claim.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    /// The measured figure.
    pub(super) measured: String,
    /// The verdict.
    pub(super) verdict: Verdict,
    /// The reason, in a sentence or two.
    pub(super) sentence: String,
}

impl Finding {
    /// Returns the finding that this measurement differs from that of the source, with the reason.
    fn not_comparable(measured: String, reason: &str) -> Self {
        Self { measured, verdict: Verdict::NotComparable, sentence: format!("Not comparable: {reason}.") }
    }

    /// Returns the same with one more sentence.
    fn because(mut self, more: &str) -> Self {
        self.sentence += " ";
        self.sentence += more;
        self
    }
}

impl Claim {
    /// Judges each report of its experiment, one for each machine. Returns the worst first.
    pub(super) fn findings<'r>(&self, reports: &'r [Report]) -> Vec<(Option<&'r Report>, Finding)> {
        let of_it = reports.iter().filter(|report| report.experiment == self.experiment);
        let mut findings: Vec<_> = of_it.map(|report| (Some(report), self.ask(report))).collect();
        if findings.is_empty() {
            let why = "The files have no run of this experiment; to make one:";
            findings.push((None, self.lacking(why)));
        }
        // Stable: of two equally bad findings, the first given stays first.
        findings.sort_by_key(|(_, finding)| std::cmp::Reverse(finding.verdict));
        findings
    }

    /// Returns the worst of its findings.
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

/// All sources, in the order of the first experiments of each. The later texts come last.
pub(super) const SOURCES: &[Source] = &[
    bulk_free::SOURCE,
    hand_off::SOURCE,
    descriptor::SOURCE,
    ready_pool::SOURCE,
    pages::SOURCE,
    slab_bulk::SOURCE,
    later::FREELIST,
    later::CPUMAP,
    later::ARRAYS,
    later::POOL,
];

#[cfg(test)]
mod tests;
