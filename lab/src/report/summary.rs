//! The summary at the top: each source's claims, and whether they hold.

use super::claims::{Claim, Finding, SOURCES, Source, Verdict};
use super::html::Html;
use super::machine;
use crate::json::Report;

/// Returns the number of claims with this verdict.
pub(super) fn count(reports: &[Report], verdict: Verdict) -> usize {
    let claims = SOURCES.iter().flat_map(|source| source.claims);
    claims.filter(|claim| claim.finding(reports).verdict == verdict).count()
}

/// Writes all sources.
pub(super) fn write(html: &mut Html, reports: &[Report]) {
    SOURCES.iter().for_each(|source| of_source(html, source, reports));
}

fn of_source(html: &mut Html, source: &Source, reports: &[Report]) {
    html.element("section", &[("class", "source-claims")], |html| {
        html.element("h3", &[], |html| {
            html.element("a", &[("href", source.text.link), ("class", "number")], |html| {
                html.text(source.text.key);
            });
            html.text(&format!(" {}", source.title));
        });
        html.element("ol", &[("class", "claims")], |html| {
            source.claims.iter().for_each(|claim| of_claim(html, claim, &claim.findings(reports)));
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

/// Writes the claim with its worst finding, and below it each machine if there are several.
fn of_claim(html: &mut Html, claim: &Claim, findings: &[(Option<&Report>, Finding)]) {
    let Some((_, worst)) = findings.first() else { return };
    html.element("li", &[("id", &format!("claim-{}", claim.name))], |html| {
        html.leaf("p", &[("class", "says")], claim.says);
        html.element("p", &[("class", "figures")], |html| {
            mark(html, worst.verdict);
            html.text(" published ");
            html.leaf("b", &[], claim.published);
            html.text(" · here ");
            html.leaf("b", &[], &worst.measured);
            html.text(" · ");
            html.leaf("a", &[("href", &format!("#{}", claim.experiment))], claim.experiment);
        });
        if findings.len() == 1 {
            return html.leaf("p", &[("class", "sentence")], &worst.sentence);
        }
        html.element("ul", &[("class", "machines")], |html| {
            for (report, finding) in findings {
                html.element("li", &[], |html| {
                    mark(html, finding.verdict);
                    let name = report.map(machine::name).unwrap_or_default();
                    html.text(&format!(" {name}: {}", finding.sentence));
                });
            }
        });
    });
}

fn mark(html: &mut Html, verdict: Verdict) {
    html.leaf("span", &[("class", &format!("mark {}", verdict.class()))], verdict.words());
}
