//! The table of a report's ratios.

use super::html::Html;
use super::noise::Uncertainty;
use super::number;
use crate::json::{Ratio, Report};
use crate::table;

/// Writes the table, or nothing if there is no ratio.
pub(super) fn write(html: &mut Html, report: &Report) {
    if report.ratios.is_empty() {
        return;
    }
    let shared = table::common(report.ratios.iter().map(|ratio| &ratio.params));
    html.element("table", &[("class", "cards")], |html| {
        html.own(
            "<thead><tr><th>ratio</th><th>of</th><th>median</th><th>95 % interval</th><th></th></tr></thead>",
        );
        html.element("tbody", &[], |html| {
            for ratio in &report.ratios {
                line(html, ratio, &table::named("", &ratio.params, &shared));
            }
        });
    });
}

fn line(html: &mut Html, ratio: &Ratio, settings: &str) {
    html.element("tr", &[], |html| {
        html.element("td", &[("class", "head")], |html| {
            html.leaf("b", &[], &format!("{} / {}", ratio.a, ratio.b));
            html.leaf("small", &[], settings);
        });
        html.leaf("td", &[("data-label", "of")], number::short_unit(&ratio.metric));
        html.leaf("td", &[("data-label", "median")], &format!("{:.3}", ratio.median));
        html.leaf(
            "td",
            &[("data-label", "95 % interval")],
            &format!("{:.3} to {:.3}", ratio.low, ratio.high),
        );
        html.element("td", &[], |html| {
            if let Some(uncertainty) = Uncertainty::of(ratio) {
                html.leaf("span", &[("class", "mark open")], uncertainty.words());
            }
        });
    });
    html.line();
}
