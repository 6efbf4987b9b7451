//! Dots: one line for each variant, its figure on an axis below.

use super::frame::{self, line, text};
use super::scale::Scale;
use super::{Look, Plot, Point, remarks};
use crate::report::html::Html;
use crate::report::number;

const ROW: f64 = 24.0;
const TEXT: f64 = 17.0;
const BOTTOM: f64 = 46.0;
/// Half of a long tick label, which is centred under the end of its axis.
const MARGIN: f64 = 24.0;

/// One variant with its position.
struct Item<'p> {
    look: Look,
    point: &'p Point,
    label: Vec<String>,
    /// The position of the label, and of the dot.
    top: f64,
    middle: f64,
}

/// Places the items below each other, and returns the total height. Labels are beside the axis if there is room,
/// else above.
fn lay_out(plot: &Plot, beside: Option<f64>, above: f64) -> (Vec<Item<'_>>, f64) {
    let mut y = if plot.budgets.is_empty() { 6.0 } else { 6.0 + TEXT * plot.budgets.len() as f64 };
    let mut items = Vec::new();
    for series in &plot.series {
        for point in &series.points {
            let label = frame::wrapped(&point.at, beside.unwrap_or(above));
            let height = TEXT * label.len() as f64;
            let (middle, next) = match beside {
                Some(_) => (y + height.max(ROW) / 2.0, y + height.max(ROW) + 4.0),
                None => (y + height + 10.0, y + height + ROW + 2.0),
            };
            items.push(Item { look: series.look, point, label, top: y, middle });
            y = next;
        }
    }
    (items, y)
}

/// Returns the name of the axis of figures, with remarks if there is room.
fn figures_name(plot: &Plot, width: f64) -> String {
    let whole = format!("{}{}", plot.figures, remarks(plot));
    if frame::width_of(&whole) <= width { whole } else { plot.figures.clone() }
}

/// Draws one plot.
pub(super) fn draw(html: &mut Html, plot: &Plot, class: &str, width: f64) {
    let beside = (width > 500.0).then_some(width * 0.36);
    let left = beside.map_or(MARGIN, |label| label + MARGIN);
    let right = width - MARGIN;
    let (items, bottom) = lay_out(plot, beside, width - 8.0);
    let figures = Scale::new(plot.log, plot.all_figures(), left, right);
    let label = format!("{}: {}", plot.title, plot.figures);
    frame::svg(html, class, (width, bottom + BOTTOM), &label, |html| {
        for tick in figures.ticks(((right - left) / 56.0) as usize) {
            let x = figures.place(tick);
            line(html, "grid", (x, 0.0), (x, bottom));
            text(html, "tick", (x, bottom + 18.0), "middle", &number::tick(tick));
        }
        line(html, "axis", (left, bottom), (right, bottom));
        text(
            html,
            "name",
            (f64::midpoint(left, right), bottom + 38.0),
            "middle",
            &figures_name(plot, right - left),
        );
        for (row, budget) in plot.budgets.iter().enumerate() {
            let (x, y) = (figures.place(budget.at), 4.0 + TEXT * (row + 1) as f64 - 5.0);
            line(html, "budget", (x, y - 10.0), (x, bottom));
            let (anchor, at) =
                if x > f64::midpoint(left, right) { ("end", x - 5.0) } else { ("start", x + 5.0) };
            text(html, "tick", (at, y), anchor, &budget.name);
        }
        for item in &items {
            one(html, item, &figures, beside);
        }
    });
}

fn one(html: &mut Html, item: &Item<'_>, figures: &Scale, beside: Option<f64>) {
    let Item { look, point, middle, .. } = *item;
    for (row, words) in item.label.iter().enumerate() {
        let baseline = match beside {
            Some(_) => middle + 5.0 + TEXT * (row as f64 - (item.label.len() - 1) as f64 / 2.0),
            None => item.top + TEXT * (row + 1) as f64 - 3.0,
        };
        let (x, anchor) = beside.map_or((0.0, "start"), |label| (label, "end"));
        text(html, "label", (x, baseline), anchor, words);
    }
    let class = format!("range {}", frame::look(look));
    line(html, &class, (figures.place(point.low), middle), (figures.place(point.high), middle));
    frame::mark(html, look, figures.place(point.median), middle);
    if let Some(published) = point.published {
        frame::published(html, look, figures.place(published), middle);
    }
}
