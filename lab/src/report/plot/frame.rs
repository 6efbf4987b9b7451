//! The common drawing primitives of both kinds of plot: text, lines, marks.

use super::Look;
use crate::report::html::Html;

/// Returns a coordinate with the digits that a pixel needs.
pub(super) fn px(place: f64) -> String {
    format!("{place:.1}")
}

/// Returns the class of a series's colour.
pub(super) fn look(look: Look) -> String {
    format!("s{}", look.colour)
}

/// Writes an SVG of this size, with an alternative text.
pub(super) fn svg(
    html: &mut Html,
    class: &str,
    (width, height): (f64, f64),
    label: &str,
    inside: impl FnOnce(&mut Html),
) {
    let view = format!("0 0 {} {}", px(width), px(height));
    let attributes = [("class", class), ("viewBox", &view), ("role", "img"), ("aria-label", label)];
    html.element("svg", &attributes, inside);
    html.line();
}

/// Draws a straight line.
pub(super) fn line(html: &mut Html, class: &str, from: (f64, f64), to: (f64, f64)) {
    let [x1, y1, x2, y2] = [from.0, from.1, to.0, to.1].map(px);
    html.empty("line", &[("class", class), ("x1", &x1), ("y1", &y1), ("x2", &x2), ("y2", &y2)]);
}

/// Draws text at a position. `anchor` is `start`, `middle` or `end`.
pub(super) fn text(html: &mut Html, class: &str, at: (f64, f64), anchor: &str, text: &str) {
    let [x, y] = [at.0, at.1].map(px);
    html.leaf("text", &[("class", class), ("x", &x), ("y", &y), ("text-anchor", anchor)], text);
}

/// Draws the mark of a median. Its shape distinguishes series without colours.
pub(super) fn mark(html: &mut Html, of: Look, x: f64, y: f64) {
    let class = format!("dot {}", look(of));
    let path = match of.mark % 4 {
        0 => return html.empty("circle", &[("class", &class), ("cx", &px(x)), ("cy", &px(y)), ("r", "4")]),
        1 => format!("M{} {}h7v7h-7z", px(x - 3.5), px(y - 3.5)),
        2 => format!("M{} {}l4.5 8h-9z", px(x), px(y - 5.0)),
        _ => format!("M{} {}l-4.5 -8h9z", px(x), px(y + 5.0)),
    };
    html.empty("path", &[("class", &class), ("d", &path)]);
}

/// Draws the mark of a published figure.
pub(super) fn published(html: &mut Html, of: Look, x: f64, y: f64) {
    let path = format!("M{} {}l5.5 5.5l-5.5 5.5l-5.5 -5.5z", px(x), px(y - 5.5));
    html.empty("path", &[("class", &format!("published {}", look(of))), ("d", &path)]);
}

/// Width of a letter of the plots' 13 pixels in a wide font. A browser's substitute is hardly wider.
const LETTER: f64 = 8.2;

/// Returns the width of a text, rather too large than too small.
pub(super) fn width_of(text: &str) -> f64 {
    LETTER * text.chars().count() as f64
}

/// Returns `text` in lines of at most `width`, broken between words, or within a word that is longer.
pub(super) fn wrapped(text: &str, width: f64) -> Vec<String> {
    let most = ((width / LETTER) as usize).max(8);
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for piece in letters.chunks(most) {
            let piece: String = piece.iter().collect();
            let Some(line) = lines.last_mut() else { continue };
            let room = most.saturating_sub(line.chars().count() + 1);
            if line.is_empty() {
                *line = piece;
            } else if piece.chars().count() <= room {
                line.push(' ');
                line.push_str(&piece);
            } else {
                lines.push(piece);
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_wraps_between_words_and_within_long_ones() {
        assert_eq!(wrapped("one two three", 82.0), ["one two", "three"]);
        assert_eq!(wrapped("abcdefghijklmnop", 82.0), ["abcdefghij", "klmnop"]);
        assert_eq!(wrapped("", 82.0), [""]);
    }
}
