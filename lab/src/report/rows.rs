//! The table of a report's rows: one line for each variant and setting, its metrics together.

use super::html::Html;
use super::number;
use crate::json::{Params, Report, Row};
use crate::table;

/// The metrics of one variant under one setting.
struct Line<'r> {
    rows: Vec<&'r Row>,
}

impl<'r> Line<'r> {
    fn fits(&self, row: &Row) -> bool {
        let first = self.rows[0];
        first.variant == row.variant
            && first.params == row.params
            && self.rows.iter().all(|other| other.metric != row.metric)
    }

    /// Returns the lines of `report`, in the order of its rows.
    fn all(report: &'r Report) -> Vec<Line<'r>> {
        let mut lines: Vec<Line<'r>> = Vec::new();
        for row in &report.rows {
            // The metrics of one variant are close together. Searching further back would be quadratic.
            match lines.iter_mut().rev().take(8).find(|line| line.fits(row)) {
                Some(line) => line.rows.push(row),
                None => lines.push(Line { rows: vec![row] }),
            }
        }
        lines
    }
}

/// Writes the table, or nothing if there is no row.
pub(super) fn write(html: &mut Html, report: &Report) {
    if report.rows.is_empty() {
        return;
    }
    let shared = table::common(report.rows.iter().map(|row| &row.params));
    if !shared.is_empty() {
        html.leaf("p", &[("class", "shared")], &format!("All rows: {}", table::listed(&shared)));
    }
    html.element("table", &[("class", "cards")], |html| {
        html.own("<thead><tr><th>variant and settings</th><th>median</th><th>p10 to p90</th><th>published</th><th>windows (dropped)</th></tr></thead>");
        html.element("tbody", &[], |html| {
            Line::all(report).iter().for_each(|line| write_line(html, line, &shared));
        });
    });
}

fn write_line(html: &mut Html, line: &Line<'_>, shared: &Params) {
    let Some(first) = line.rows.first() else { return };
    html.element("tr", &[], |html| {
        html.element("td", &[("class", "head")], |html| {
            html.leaf("b", &[], &first.variant);
            html.leaf("small", &[], &table::named("", &first.params, shared));
        });
        let each = |html: &mut Html, label: &'static str, text: &dyn Fn(&Row) -> Option<String>| {
            html.element("td", &[("data-label", label)], |html| {
                for text in line.rows.iter().filter_map(|row| text(row)) {
                    // A published figure comes with a sentence, which wraps.
                    let class = if label == "published" { "said" } else { "figure" };
                    html.leaf("span", &[("class", class)], &text);
                }
            });
        };
        each(html, "median", &|row| {
            Some(format!("{} {}", number::figure(row.median), number::short_unit(&row.metric)))
        });
        each(html, "p10 to p90", &|row| {
            let one = row.p10 == row.p90;
            Some(if one {
                "exact".to_owned()
            } else {
                format!("{} to {}", number::figure(row.p10), number::figure(row.p90))
            })
        });
        each(html, "published", &|row| {
            row.published.as_ref().map(|p| format!("{} {}: {}", number::figure(p.value), p.unit, p.of))
        });
        let windows = format!("{} ({})", first.windows, first.windows_dropped);
        html.leaf("td", &[("data-label", "windows (dropped)")], &windows);
    });
    html.line();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::tests::sample;

    #[test]
    fn the_metrics_of_a_variant_stand_in_one_line_with_the_published_figure() {
        let mut report = sample();
        let cycles = Row { metric: "cycles_per_op".into(), median: 14.3, ..report.rows[0].clone() };
        report.rows.push(cycles);
        let mut html = Html::default();
        write(&mut html, &report);
        let markup = html.into_markup();
        assert_eq!(markup.matches("<tr>").count(), 2, "{markup}");
        for part in ["5.50 ns/op", "14.3 cycles/op", "5.00 to 6.00", "143 cycles: the same", "64 (1)"] {
            assert!(markup.contains(part), "{part} in {markup}");
        }
    }

    #[test]
    fn a_metric_that_comes_twice_gets_a_line_of_its_own() {
        let mut report = sample();
        report.rows.push(report.rows[0].clone());
        assert_eq!(Line::all(&report).len(), 2);
    }
}
