//! The first thing to read: each source's claims, and what of them holds.

use super::claims::{Claim, Finding, SOURCES, Source, Verdict};
use super::html::Html;
use crate::json::Report;

/// How many claims came out how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) holds: usize,
    pub(super) smaller: usize,
    pub(super) fails: usize,
    pub(super) undecided: usize,
    pub(super) not_measured: usize,
}

impl Tally {
    /// Of all claims in `reports`.
    pub(super) fn of(reports: &[Report]) -> Self {
        let mut tally = Self::default();
        for claim in SOURCES.iter().flat_map(|source| source.claims) {
            match claim.finding(reports).verdict {
                Verdict::Holds => tally.holds += 1,
                Verdict::Smaller => tally.smaller += 1,
                Verdict::Fails => tally.fails += 1,
                Verdict::Undecided => tally.undecided += 1,
                Verdict::NotMeasured => tally.not_measured += 1,
            }
        }
        tally
    }
}

/// All sources.
pub(super) fn write(html: &mut Html, reports: &[Report]) {
    SOURCES.iter().for_each(|source| of_source(html, source, reports));
}

fn of_source(html: &mut Html, source: &Source, reports: &[Report]) {
    html.element("section", &[("class", "source-claims")], |html| {
        html.element("h3", &[], |html| {
            html.leaf("span", &[("class", "number")], source.text.key);
            html.text(&format!(" {}", source.title));
        });
        html.element("ol", &[("class", "claims")], |html| {
            source.claims.iter().for_each(|claim| of_claim(html, claim, &claim.finding(reports)));
        });
        if let Some(slip) = source.slip {
            html.element("p", &[("class", "slip")], |html| {
                html.leaf("b", &[], "A slip in the source. ");
                html.text(slip);
            });
        }
    });
    html.line();
}

fn of_claim(html: &mut Html, claim: &Claim, finding: &Finding) {
    html.element("li", &[], |html| {
        let mark = format!("mark {}", finding.verdict.class());
        html.leaf("p", &[("class", "says")], claim.says);
        html.element("p", &[("class", "figures")], |html| {
            html.leaf("span", &[("class", &mark)], finding.verdict.words());
            html.text(" published ");
            html.leaf("b", &[], claim.published);
            html.text(" · here ");
            html.leaf("b", &[], &finding.measured);
            html.text(" · ");
            html.leaf("a", &[("href", &format!("#{}", claim.experiment))], claim.experiment);
        });
        html.leaf("p", &[("class", "sentence")], &finding.sentence);
    });
}
