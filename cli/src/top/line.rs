//! A line of the screen, and its cells.

use crate::output::{short, thousands};

/// The style of a line on a terminal with colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    /// The heading of rows.
    Heading,
    /// Packets are lost.
    Loss,
    /// The state of the view.
    Status,
}

/// A line that is no wider than the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    pub text: String,
    pub style: Style,
}

impl Line {
    /// Makes a line of the text up to the screen's width. Each character takes one column.
    pub fn new(style: Style, text: &str, columns: usize) -> Line {
        let printed = text.chars().map(|c| if c == ' ' || c.is_ascii_graphic() { c } else { '?' });
        let text: String = printed.take(columns).collect();
        Line { text: text.trim_end().to_owned(), style }
    }
}

/// The widths of a row's cells.
#[derive(Debug, Clone, Copy)]
pub struct Cells {
    columns: usize,
    name: usize,
    cell: usize,
}

/// Minimum width of a name.
const NAME_MIN: usize = 16;
/// The width of a cell on a narrow screen, and on a wide one.
const CELLS: (usize, usize) = (8, 14);
/// The width from which a screen counts as wide.
const WIDE: usize = 130;
/// From this width on a cell has room for every digit.
const EXACT: usize = 12;

impl Cells {
    /// Returns the cells for a name and this many figures on a screen of that width.
    pub fn new(columns: usize, figures: usize) -> Cells {
        let cell = (columns.saturating_sub(NAME_MIN + CELLS.0) / figures.max(1)).clamp(CELLS.0, CELLS.1);
        let name = columns.saturating_sub(cell * figures).clamp(NAME_MIN, 2 * NAME_MIN);
        Cells { columns, name, cell }
    }

    /// Makes a line of a name and cells.
    pub fn line<T: AsRef<str>>(self, style: Style, name: &str, cells: &[T]) -> Line {
        let mut text = format!("{:<width$}", self.name(name), width = self.name);
        for cell in cells {
            text.push_str(&format!("{:>width$}", cell.as_ref(), width = self.cell));
        }
        Line::new(style, &text, self.columns)
    }

    /// Returns a name. If it is too long, its end is kept, where names differ.
    fn name(self, name: &str) -> String {
        let long = name.chars().count().saturating_sub(self.name - 1);
        if long == 0 {
            name.to_owned()
        } else {
            format!("~{}", name.chars().skip(long + 1).collect::<String>())
        }
    }

    /// Returns a figure with all its digits if there is room for them.
    pub fn figure(self, figure: f64) -> String {
        if self.cell >= EXACT && figure >= 100.0 { thousands(figure.round() as u64) } else { short(figure) }
    }

    /// Returns a rate, or a dash if there is none.
    pub fn rate(self, rate: Option<f64>) -> String {
        rate.map_or_else(|| "-".to_owned(), |rate| self.figure(rate))
    }

    /// Returns a share of 1 in per cent.
    pub fn share(self, share: Option<f64>) -> String {
        match share.map(|share| 100.0 * share) {
            None => "-".to_owned(),
            Some(percent) if percent > 0.0 && percent < 9.95 => format!("{percent:.1}%"),
            Some(percent) => format!("{percent:.0}%"),
        }
    }

    /// Returns true if there is room for figures that are not needed every time.
    pub fn is_wide(self) -> bool {
        self.columns >= WIDE
    }

    /// Returns bits a second in millions.
    pub fn megabits(self, bits: Option<f64>) -> String {
        self.rate(bits.map(|bits| bits / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_at_the_screens_edge_and_has_nothing_that_disturbs_it() {
        let line = |text, columns| Line::new(Style::Plain, text, columns).text;
        assert_eq!(line("ab\x1b[2J\u{65e5}c", 7), "ab?[2J?");
        assert_eq!((line("abc", 2), line("abc", 0)), ("ab".into(), String::new()));
    }

    #[test]
    fn a_wide_screen_has_every_digit_and_a_narrow_one_the_end_of_a_long_name() {
        let (narrow, wide) = (Cells::new(80, 7), Cells::new(200, 7));
        assert_eq!(
            (narrow.figure(1_234_567.0), wide.figure(1_234_567.0)),
            ("1235k".into(), "1,234,567".into())
        );
        assert_eq!((wide.figure(0.25), wide.rate(None)), ("0.2".into(), "-".into()));
        assert_eq!(narrow.megabits(Some(2_500_000.0)), "2.5");
        let shares = [None, Some(0.0), Some(0.004), Some(0.0994), Some(0.0996), Some(1.0)];
        assert_eq!(shares.map(|share| wide.share(share)), ["-", "0%", "0.4%", "9.9%", "10%", "100%"]);
        assert!(wide.is_wide() && !narrow.is_wide());
        let line = narrow.line(Style::Plain, "memif:/run/vpp/interfaces/memif.sock", &["1"; 7]);
        assert_eq!(
            (line.text.split_whitespace().next(), line.text.len()),
            (Some("~/interfaces/memif.sock"), 80)
        );
    }
}
