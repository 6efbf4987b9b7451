//! Curves: figures over a parameter, one line for each series.

use super::frame::{self, line, px, text};
use super::scale::Scale;
use super::{Look, Plot, Point, remarks};
use crate::report::html::Html;
use crate::report::number;

const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 46.0;

/// The positions on the horizontal axis: numbers by value, logarithmically if they span much, otherwise in order.
struct Across {
    /// Texts, sorted, with their positions.
    stops: Vec<(String, f64)>,
    log: bool,
}

impl Across {
    fn new(plot: &Plot, from: f64, to: f64) -> Self {
        let mut texts: Vec<String> = Vec::new();
        for point in plot.series.iter().flat_map(|series| &series.points) {
            if !texts.contains(&point.at) {
                texts.push(point.at.clone());
            }
        }
        let numbers: Option<Vec<f64>> =
            texts.iter().map(|text| text.parse().ok().filter(|n: &f64| n.is_finite())).collect();
        let mut order: Vec<(f64, String)> = match numbers {
            Some(numbers) => numbers.into_iter().zip(texts).collect(),
            None => texts.into_iter().enumerate().map(|(i, text)| (i as f64, text)).collect(),
        };
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (first, last) = (order.first().map_or(0.0, |o| o.0), order.last().map_or(0.0, |o| o.0));
        // Powers of two and similar. A small span is better in equal steps, and 0 has no logarithm.
        let log = first > 0.0 && last / first >= 32.0;
        let count = order.len();
        let at = |(i, (number, text)): (usize, (f64, String))| {
            let share = match log {
                true => (number / first).ln() / (last / first).ln(),
                false => i as f64 / count.saturating_sub(1).max(1) as f64,
            };
            (text, from + share * (to - from))
        };
        Self { stops: order.into_iter().enumerate().map(at).collect(), log }
    }

    fn place(&self, at: &str) -> Option<f64> {
        self.stops.iter().find(|(text, _)| text == at).map(|(_, place)| *place)
    }

    /// Returns the texts that fit: round ones before the rest, and both ends if they fit.
    fn names(&self) -> Vec<(&str, f64)> {
        let is_round = |text: &str| text.parse::<u64>().is_ok_and(|n| n.is_power_of_two());
        let mut shown: Vec<(&str, f64, f64)> = Vec::new();
        let ends = [self.stops.first(), self.stops.last()].into_iter().flatten();
        let round = self.stops.iter().filter(|(text, _)| is_round(text));
        for (text, place) in ends.chain(round).chain(&self.stops) {
            let half = frame::width_of(&label(text)) / 2.0 + 3.0;
            if shown.iter().all(|(_, other, their)| (place - other).abs() >= half + their) {
                shown.push((text, *place, half));
            }
        }
        shown.into_iter().map(|(text, place, _)| (text, place)).collect()
    }
}

/// Returns the text of a position, shortened if it is a large number.
fn label(text: &str) -> String {
    text.parse().map_or_else(|_| text.to_owned(), number::tick)
}

/// Returns true if the horizontal axis is logarithmic.
pub(super) fn is_log_across(plot: &Plot) -> bool {
    Across::new(plot, 0.0, 1.0).log
}

/// Returns the name of the axis of figures, with remarks if there is room.
fn figures_name(plot: &Plot, height: f64) -> String {
    let whole = format!("{}{}", plot.figures, remarks(plot));
    if frame::width_of(&whole) <= height { whole } else { plot.figures.clone() }
}

/// Draws one plot.
pub(super) fn draw(html: &mut Html, plot: &Plot, class: &str, width: f64) {
    let height = if width < 500.0 { 280.0 } else { 360.0 };
    let (bottom, right) = (height - BOTTOM, width - RIGHT);
    let figures = Scale::new(plot.log, plot.all_figures(), bottom, TOP);
    let across = Across::new(plot, LEFT + 10.0, right - 10.0);
    let label_of_all = format!("{}: {} over {}", plot.title, plot.figures, plot.across);
    frame::svg(html, class, (width, height), &label_of_all, |html| {
        for tick in figures.ticks(10) {
            let y = figures.place(tick);
            line(html, "grid", (LEFT, y), (right, y));
            text(html, "tick", (LEFT - 6.0, y + 4.0), "end", &number::tick(tick));
        }
        for (name, x) in across.names() {
            line(html, "axis", (x, bottom), (x, bottom + 4.0));
            text(html, "tick", (x, bottom + 18.0), "middle", &label(name));
        }
        line(html, "axis", (LEFT, bottom), (right, bottom));
        text(html, "name", (f64::midpoint(LEFT, right), height - 6.0), "middle", &plot.across);
        let middle = f64::midpoint(TOP, bottom);
        let turn = format!("translate(13 {}) rotate(-90)", px(middle));
        html.leaf(
            "text",
            &[("class", "name"), ("transform", &turn), ("text-anchor", "middle")],
            &figures_name(plot, height),
        );
        for budget in &plot.budgets {
            let y = figures.place(budget.at);
            line(html, "budget", (LEFT, y), (right, y));
            text(html, "tick", (right, y - 4.0), "end", &budget.name);
        }
        for series in &plot.series {
            curve(html, series.look, &series.points, &across, &figures);
        }
    });
}

fn curve(html: &mut Html, look: Look, points: &[Point], across: &Across, figures: &Scale) {
    let class = frame::look(look);
    let mut placed: Vec<(f64, &Point)> =
        points.iter().filter_map(|point| Some((across.place(&point.at)?, point))).collect();
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let path = |figure: &dyn Fn(&Point) -> Option<f64>| {
        let places = placed.iter().filter_map(|(x, point)| Some((*x, figures.place(figure(point)?))));
        let steps = places
            .enumerate()
            .map(|(i, (x, y))| format!("{}{} {}", if i == 0 { "M" } else { "L" }, px(x), px(y)));
        steps.collect::<String>()
    };
    html.empty("path", &[("class", &format!("curve {class}")), ("d", &path(&|point| Some(point.median)))]);
    if points.iter().any(|point| point.published.is_some()) {
        html.empty(
            "path",
            &[("class", &format!("curve old {class}")), ("d", &path(&|point| point.published))],
        );
    }
    for (x, point) in &placed {
        line(html, &class, (*x, figures.place(point.low)), (*x, figures.place(point.high)));
        frame::mark(html, look, *x, figures.place(point.median));
        if let Some(published) = point.published {
            frame::published(html, look, *x, figures.place(published));
        }
    }
}
