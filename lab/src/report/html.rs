//! HTML in which text cannot become markup: names come from the program, and everything else is escaped.

/// Attributes: the name comes from the program, and the value may be any text.
pub(super) type Attributes<'a> = &'a [(&'static str, &'a str)];

/// HTML under construction.
#[derive(Debug, Default)]
pub(super) struct Html {
    markup: String,
}

impl Html {
    /// Adds markup of this program, unescaped.
    pub(super) fn own(&mut self, markup: &'static str) {
        self.markup += markup;
    }

    /// Adds any text, escaped.
    pub(super) fn text(&mut self, text: &str) {
        text.chars().for_each(|letter| self.letter(letter));
    }

    /// Adds an element with the content that `inside` writes.
    pub(super) fn element(
        &mut self,
        name: &'static str,
        attributes: Attributes<'_>,
        inside: impl FnOnce(&mut Self),
    ) {
        self.open(name, attributes);
        self.markup.push('>');
        inside(self);
        self.markup += "</";
        self.markup += name;
        self.markup.push('>');
    }

    /// Adds an element that only contains text.
    pub(super) fn leaf(&mut self, name: &'static str, attributes: Attributes<'_>, text: &str) {
        self.element(name, attributes, |html| html.text(text));
    }

    /// Adds an element without content.
    pub(super) fn empty(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.open(name, attributes);
        self.markup += "/>";
    }

    /// Adds a newline, so that the page can be read as text too.
    pub(super) fn line(&mut self) {
        self.markup.push('\n');
    }

    /// Returns the markup.
    pub(super) fn into_markup(self) -> String {
        self.markup
    }

    fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.markup.push('<');
        self.markup += name;
        for (name, value) in attributes {
            self.markup.push(' ');
            self.markup += name;
            self.markup += "=\"";
            self.text(value);
            self.markup.push('"');
        }
    }

    /// Control characters are replaced by a visible character.
    fn letter(&mut self, letter: char) {
        match letter {
            '&' => self.markup += "&amp;",
            '<' => self.markup += "&lt;",
            '>' => self.markup += "&gt;",
            '"' => self.markup += "&quot;",
            '\'' => self.markup += "&#39;",
            '\n' | '\t' => self.markup.push(letter),
            control if control.is_control() => self.markup.push(char::REPLACEMENT_CHARACTER),
            other => self.markup.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(write: impl FnOnce(&mut Html)) -> String {
        let mut html = Html::default();
        write(&mut html);
        html.into_markup()
    }

    #[test]
    fn text_and_values_cannot_become_markup() {
        let hostile = "<script>alert(\"1\")</script>&'\u{0}";
        let escaped = "&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;&#39;\u{fffd}";
        assert_eq!(made(|html| html.text(hostile)), escaped);
        let element = made(|html| html.leaf("td", &[("data-label", hostile)], hostile));
        assert_eq!(element, format!("<td data-label=\"{escaped}\">{escaped}</td>"));
    }

    #[test]
    fn elements_nest_and_empty_ones_close_themselves() {
        let markup = made(|html| {
            html.element("g", &[], |html| html.empty("line", &[("x1", "0")]));
        });
        assert_eq!(markup, "<g><line x1=\"0\"/></g>");
    }
}
