//! The part of the page for one report.

use super::html::Html;
use super::{machine, noise, number, plot, ratios, rows};
use crate::experiments::EXPERIMENTS;
use crate::json::Report;
use crate::sources::{citation, link};
use crate::table;

/// Lines of a table that are shown unfolded.
const SHOWN: usize = 16;

/// Returns the question of an experiment of the registry.
fn question(name: &str) -> Option<&'static str> {
    EXPERIMENTS.iter().find(|experiment| experiment.name == name).map(|experiment| experiment.question)
}

/// Writes the whole part. `place` is the number of its machine, from 0.
pub(super) fn write(html: &mut Html, report: &Report, place: usize) {
    let id =
        if place == 0 { report.experiment.clone() } else { format!("{}-{}", report.experiment, place + 1) };
    html.element("section", &[("id", &id), ("class", "experiment")], |html| {
        html.leaf("h3", &[], &report.experiment);
        if let Some(question) = question(&report.experiment) {
            html.leaf("p", &[("class", "question")], question);
        }
        let rounds = if report.quick { "a quick run, with fewer rounds" } else { "a full run" };
        html.element("p", &[("class", "source")], |html| {
            html.text("Source: ");
            match link(&report.source) {
                Some(link) => html.leaf("a", &[("href", link)], &citation(&report.source)),
                None => html.text(&citation(&report.source)),
            }
            html.text(&format!(" · {rounds} · {}", machine::name(report)));
        });
        checks(html, report);
        machine::warn(html, report);
        noise::warn(html, report);
        plot::write(html, report);
        folded(html, report.rows.len() <= SHOWN, &format!("All rows ({})", report.rows.len()), |html| {
            rows::write(html, report);
        });
        if !report.ratios.is_empty() {
            let title = format!("Ratios within the run ({})", report.ratios.len());
            folded(html, report.ratios.len() <= SHOWN, &title, |html| ratios::write(html, report));
        }
        notes(html, report);
        folded(html, false, "Method and machine", |html| {
            html.leaf("p", &[], &windows(report));
            machine::write_with_run(html, report);
        });
    });
    html.line();
}

fn folded(html: &mut Html, open: bool, title: &str, inside: impl FnOnce(&mut Html)) {
    let attributes: &[(&'static str, &str)] = if open { &[("open", "")] } else { &[] };
    html.element("details", attributes, |html| {
        html.leaf("summary", &[], title);
        inside(html);
    });
    html.line();
}

/// Writes the failed checks unfolded, and the others folded.
fn checks(html: &mut Html, report: &Report) {
    let failed = report.checks.iter().filter(|check| !check.ok).count();
    for check in report.checks.iter().filter(|check| !check.ok) {
        html.element("p", &[("class", "failed")], |html| {
            html.leaf("b", &[], "A check failed. ");
            html.text(&format!("{}: {}", check.name, check.detail));
        });
    }
    let held = report.checks.len() - failed;
    if held == 0 {
        return;
    }
    let title = if failed == 0 { format!("All {held} checks hold") } else { format!("{held} checks hold") };
    folded(html, false, &title, |html| {
        html.element("ul", &[("class", "checks")], |html| {
            for check in report.checks.iter().filter(|check| check.ok) {
                html.leaf("li", &[], &format!("{}: {}", check.name, check.detail));
            }
        });
    });
}

fn notes(html: &mut Html, report: &Report) {
    if report.notes.is_empty() {
        return;
    }
    html.leaf("h4", &[], "Notes");
    html.element("ul", &[("class", "notes")], |html| {
        report.notes.iter().for_each(|note| html.leaf("li", &[], note));
    });
}

/// Returns the number of windows that count, and of dropped windows.
fn windows(report: &Report) -> String {
    // A variant's windows are in each of its metrics, so only those of the first metric count.
    let first = report.rows.first().map_or("", |row| row.metric.as_str());
    let timed = report.rows.iter().filter(|row| row.metric == first);
    let sums = timed.fold((0_u64, 0_u64), |(kept, dropped), row| {
        (kept.saturating_add(row.windows), dropped.saturating_add(row.windows_dropped))
    });
    let all = sums.0.saturating_add(sums.1).max(1) as f64;
    format!(
        "{} windows count in {}; {} were dropped ({} %), because of a pause or of bursts that came too short.",
        table::thousands(sums.0),
        if first.is_empty() { "no metric" } else { number::unit(first) },
        table::thousands(sums.1),
        number::figure(100.0 * sums.1 as f64 / all)
    )
}
