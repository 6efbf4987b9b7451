//! A whole screen: the run in one line, the rows that fit, and the state of the view.

use super::line::{Line, Style};
use super::rates::Activity;
use super::tables;
use super::view::{Sort, View};
use crate::output::short;

/// The size of the screen, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size {
    pub columns: usize,
    pub rows: usize,
}

impl Size {
    /// Returns the number of lines for rows.
    pub fn page(self) -> usize {
        self.rows.saturating_sub(2)
    }
}

/// The contents of the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Screen {
    /// No more than the rows of the screen, and none wider than its columns.
    pub lines: Vec<Line>,
    /// The first visible line of the rows: the view's offset, if there are so many.
    pub offset: usize,
}

const HELP: &str = "q quit  space pause  s sort  r reverse  / filter  a all  arrows scroll  ? close";

/// Draws the view. `source` names the run in a few words.
pub fn screen(activity: &Activity, view: &View, source: &str, size: Size) -> Screen {
    let rows = tables::lines(activity, view, size.columns);
    let page = size.page();
    let offset = view.offset.min(rows.len().saturating_sub(page));
    let until = rows.len().min(offset + page);
    let at = format!("{}-{until} of {}", (offset + 1).min(until), rows.len());
    let mut lines = vec![head(activity, size.columns)];
    lines.extend_from_slice(&rows[offset..until]);
    lines.resize(size.rows.saturating_sub(1).max(1), Line::new(Style::Plain, "", 0));
    lines.push(status(view, source, &at, size.columns));
    lines.truncate(size.rows);
    Screen { lines, offset }
}

fn head(activity: &Activity, columns: usize) -> Line {
    let rate = |rate: Option<f64>| rate.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", short(rate)));
    let run = &activity.run;
    let text = format!(
        "netmem  rx {}  tx {}  dropped {}  lost {}  held {}",
        rate(run.rx),
        rate(run.tx),
        rate(run.dropped),
        rate(run.lost),
        short(run.held as f64)
    );
    Line::new(Style::Heading, &text, columns)
}

/// Returns the differences from the initial view, the visible range of the rows, and the source.
fn status(view: &View, source: &str, at: &str, columns: usize) -> Line {
    if view.help {
        return Line::new(Style::Status, HELP, columns);
    }
    if view.is_typing {
        return Line::new(Style::Status, &format!("filter: {}_", view.filter), columns);
    }
    let mut said = Vec::new();
    if view.is_paused {
        said.push("PAUSED".to_owned());
    }
    if view.sort != Sort::Given || view.is_reversed {
        let direction = if view.is_reversed { ", reversed" } else { "" };
        said.push(format!("sort: {}{direction}", view.sort.name()));
    }
    if !view.filter.is_empty() {
        said.push(format!("filter: {}", view.filter));
    }
    if view.all {
        said.push("all rows".to_owned());
    }
    said.extend([at.to_owned(), "? keys".to_owned(), source.to_owned()]);
    Line::new(Style::Status, &said.join("  "), columns)
}

#[cfg(test)]
mod tests;
