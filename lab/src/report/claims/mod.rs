//! What the sources say, one claim each, and what of it holds in the reports at hand.

mod bulk_free;
mod descriptor;
mod hand_off;
mod judge;
mod pages;
mod ready_pool;

use crate::json::Report;
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
    /// The experiment that measures it.
    pub(super) experiment: &'static str,
    /// What the source says.
    pub(super) says: &'static str,
    /// Its figure.
    pub(super) published: &'static str,
    /// What a report says about it; `None` where the report lacks the rows.
    judge: fn(&Report) -> Option<Finding>,
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It holds, and at least half of its size is seen.
    Holds,
    /// It holds in its direction; its size is not seen.
    Smaller,
    /// It does not hold here.
    Fails,
    /// Noise is larger than the effect.
    Undecided,
    /// None of the reports has the rows.
    NotMeasured,
}

impl Verdict {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Smaller => "holds, but smaller",
            Self::Fails => "does not hold here",
            Self::Undecided => "undecided here",
            Self::NotMeasured => "not measured",
        }
    }

    /// The class that colours it.
    pub(super) fn class(self) -> &'static str {
        match self {
            Self::Holds => "good",
            Self::Smaller => "fair",
            Self::Fails => "bad",
            Self::Undecided | Self::NotMeasured => "open",
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
    /// In one sentence, why.
    pub(super) sentence: String,
}

impl Claim {
    /// Asks the report of its experiment.
    pub(super) fn finding(&self, reports: &[Report]) -> Finding {
        let report = reports.iter().find(|report| report.experiment == self.experiment);
        let lacking = |why: &str| Finding {
            measured: "–".to_owned(),
            verdict: Verdict::NotMeasured,
            sentence: format!("{why} netmem lab run {}", self.experiment),
        };
        match report {
            None => lacking("The files have no run of this experiment; to make one:"),
            Some(report) => (self.judge)(report)
                .unwrap_or_else(|| lacking("The run at hand lacks these rows; to make them:")),
        }
    }
}

/// All sources, in the order of the first experiments of each.
pub(super) const SOURCES: &[Source] =
    &[bulk_free::SOURCE, hand_off::SOURCE, descriptor::SOURCE, ready_pool::SOURCE, pages::SOURCE];

#[cfg(test)]
mod tests;
