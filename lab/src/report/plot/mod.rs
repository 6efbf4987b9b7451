//! Plots as SVG, drawn for a telephone and for a screen: text keeps its size, so the drawing has to reflow.
//!
//! - `figures`: the declaration of a plot; `declared`: the plots of each experiment. `gather`: the points of a
//!   plot, from the rows of a report.
//! - `looks`: one colour for each contender. `scale`: figures to positions, and ticks. `frame`: axes and budgets.
//!   `curves` and `dots`: the two kinds of plot.

mod curves;
mod declared;
mod dots;
mod figures;
mod frame;
mod gather;
mod looks;
mod scale;

use super::html::Html;
use crate::json::Report;
use scale::Scale;

/// A figure with its spread, and the source's figure.
#[derive(Debug, Clone, PartialEq)]
struct Point {
    /// The position on the horizontal axis, for curves: a number or a name.
    at: String,
    median: f64,
    low: f64,
    high: f64,
    published: Option<f64>,
}

/// Points of one variant under one setting.
#[derive(Debug, Clone, PartialEq)]
struct Series {
    name: String,
    points: Vec<Point>,
    /// Its colour, which is its contender's on the whole page, and its mark, by its position in the plot.
    look: Look,
}

/// The look of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Look {
    colour: usize,
    mark: usize,
}

/// A line of a time budget.
#[derive(Debug, Clone, PartialEq)]
struct Budget {
    at: f64,
    name: String,
}

/// The data of a plot, for any width.
#[derive(Debug, Clone, PartialEq)]
struct Plot {
    title: String,
    /// The axis of figures, with its unit.
    figures: String,
    /// The better direction along it, or empty if neither is.
    better: &'static str,
    /// The other axis. Empty for dots, which are labelled.
    across: String,
    log: bool,
    series: Vec<Series>,
    budgets: Vec<Budget>,
    /// The meaning of the signs.
    key: &'static str,
}

impl Plot {
    /// Iterates over every figure that must be inside the axis.
    fn all_figures(&self) -> impl Iterator<Item = f64> {
        let points = self.series.iter().flat_map(|series| &series.points);
        let of = |point: &Point| [Some(point.low), Some(point.high), Some(point.median), point.published];
        points.flat_map(of).flatten().chain(self.budgets.iter().map(|budget| budget.at))
    }

    fn has_published(&self) -> bool {
        self.series.iter().flat_map(|series| &series.points).any(|point| point.published.is_some())
    }
}

/// The two drawings of every plot, by width in CSS pixels, with the class that shows them.
const WIDTHS: [(&str, f64); 2] = [("narrow", 320.0), ("wide", 760.0)];

/// Writes all plots of one report.
pub(super) fn write(html: &mut Html, report: &Report) {
    for figure in figures::of(report) {
        if let Some(plot) = gather::plot(&figure, report) {
            draw(html, &plot, figure.kind);
        }
    }
    if let Some(plot) = gather::ratios(report) {
        draw(html, &plot, figures::Kind::Dots);
    }
}

fn draw(html: &mut Html, plot: &Plot, kind: figures::Kind) {
    html.element("figure", &[], |html| {
        html.leaf("figcaption", &[], &plot.title);
        html.leaf("p", &[("class", "key")], &axes(plot, kind));
        if kind == figures::Kind::Curves {
            legend(html, plot);
        }
        for (class, width) in WIDTHS {
            match kind {
                figures::Kind::Curves => curves::draw(html, plot, class, width),
                figures::Kind::Dots => dots::draw(html, plot, class, width),
            }
        }
        html.element("p", &[("class", "key")], |html| {
            html.text(plot.key);
            if plot.has_published() {
                html.text(" A hollow diamond is the published figure.");
            }
        });
    });
    html.line();
}

/// Returns a description of the axes, and the better direction.
fn axes(plot: &Plot, kind: figures::Kind) -> String {
    let figures = format!("{}{}", plot.figures, remarks(plot));
    match kind {
        figures::Kind::Dots => format!("Across: {figures}."),
        figures::Kind::Curves => {
            let log = if curves::is_log_across(plot) { ", logarithmic" } else { "" };
            format!("Upwards: {figures}. Across: {}{log}.", plot.across)
        }
    }
}

/// Returns remarks about the axis of figures in addition to its unit.
fn remarks(plot: &Plot) -> String {
    let log = if Scale::new(plot.log, plot.all_figures(), 0.0, 1.0).is_log() { ", logarithmic" } else { "" };
    let better = if plot.better.is_empty() { String::new() } else { format!(", {}", plot.better) };
    format!("{log}{better}")
}

/// Writes names next to the looks of their series. It is text, so it wraps.
fn legend(html: &mut Html, plot: &Plot) {
    html.element("ul", &[("class", "legend")], |html| {
        for series in &plot.series {
            html.element("li", &[], |html| {
                let box_ =
                    [("viewBox", "0 0 28 14"), ("width", "28"), ("height", "14"), ("aria-hidden", "true")];
                html.element("svg", &box_, |html| {
                    let class = frame::look(series.look);
                    html.empty(
                        "line",
                        &[("x1", "1"), ("y1", "7"), ("x2", "27"), ("y2", "7"), ("class", &class)],
                    );
                    frame::mark(html, series.look, 14.0, 7.0);
                });
                html.text(&series.name);
            });
        }
    });
}

#[cfg(test)]
mod tests;
