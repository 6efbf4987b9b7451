//! The view of a forwarder, and the keys that change it.

use super::keys::Key;

/// The order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// In the order of the forwarder's answer.
    Given,
    Name,
    Rx,
    RxBits,
    Tx,
    TxBits,
    Lost,
    Posted,
    Sending,
}

/// In the order of the columns, with the description of each.
const SORTS: [(Sort, &str); 9] = [
    (Sort::Given, "as given"),
    (Sort::Name, "name"),
    (Sort::Rx, "rx/s"),
    (Sort::RxBits, "rx Mbit/s"),
    (Sort::Tx, "tx/s"),
    (Sort::TxBits, "tx Mbit/s"),
    (Sort::Lost, "drops"),
    (Sort::Posted, "rx ring"),
    (Sort::Sending, "tx ring"),
];

impl Sort {
    /// Returns its name.
    pub fn name(self) -> &'static str {
        SORTS.iter().find(|(sort, _)| *sort == self).map_or("", |(_, name)| name)
    }

    fn next(self) -> Sort {
        let at = SORTS.iter().position(|(sort, _)| *sort == self).unwrap_or(0);
        SORTS[(at + 1) % SORTS.len()].0
    }
}

/// The state of the view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    pub sort: Sort,
    /// Rates from the smallest, names from the last.
    pub is_reversed: bool,
    /// The text that a row's name must contain, in lower case.
    pub filter: String,
    /// The filter is being typed.
    pub is_typing: bool,
    /// Also rows in which every figure is 0.
    pub all: bool,
    /// The first line of the rows on the screen.
    pub offset: usize,
    pub is_paused: bool,
    /// The keys are shown.
    pub help: bool,
}

/// A request of a key other than a change of the view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    Nothing,
    Quit,
    /// Stop as at Ctrl-Z, until the shell continues the program.
    Suspend,
}

impl Default for View {
    fn default() -> View {
        View {
            sort: Sort::Given,
            is_reversed: false,
            filter: String::new(),
            is_typing: false,
            all: false,
            offset: 0,
            is_paused: false,
            help: false,
        }
    }
}

impl View {
    /// Handles a key, with `page` lines of rows on the screen.
    pub fn press(&mut self, key: Key, page: usize) -> Asked {
        match key {
            Key::Interrupt => return Asked::Quit,
            Key::Suspend => return Asked::Suspend,
            Key::Up => self.offset = self.offset.saturating_sub(1),
            Key::Down => self.offset += 1,
            Key::PageUp => self.offset = self.offset.saturating_sub(page.max(1)),
            Key::PageDown => self.offset += page.max(1),
            Key::Home => self.offset = 0,
            Key::End => self.offset = usize::MAX / 2,
            Key::Escape => {
                self.is_typing = false;
                self.filter.clear();
            }
            _ if self.is_typing => self.write(key),
            Key::Char(letter) => return self.command(letter),
            Key::Enter | Key::Backspace => {}
        }
        Asked::Nothing
    }

    /// Handles a key for the filter.
    fn write(&mut self, key: Key) {
        match key {
            Key::Char(letter) => self.filter.push(letter.to_ascii_lowercase()),
            Key::Backspace => drop(self.filter.pop()),
            _ => self.is_typing = false,
        }
        self.offset = 0;
    }

    fn command(&mut self, letter: char) -> Asked {
        match letter {
            'q' => return Asked::Quit,
            ' ' | 'p' => self.is_paused = !self.is_paused,
            's' => self.sort = self.sort.next(),
            'r' => self.is_reversed = !self.is_reversed,
            'a' => self.all = !self.all,
            '?' | 'h' => self.help = !self.help,
            '/' => {
                self.filter.clear();
                self.is_typing = true;
            }
            _ => {}
        }
        Asked::Nothing
    }

    /// Returns true if a row of this name is visible.
    pub fn wants(&self, name: &str) -> bool {
        name.to_ascii_lowercase().contains(&self.filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pressed(view: &mut View, letters: &str) {
        for letter in letters.chars() {
            assert_eq!(view.press(Key::Char(letter), 20), Asked::Nothing, "{letter}");
        }
    }

    #[test]
    fn each_letter_does_what_the_line_of_help_says() {
        let mut view = View::default();
        pressed(&mut view, "sr a?x");
        let wanted = View {
            sort: Sort::Name,
            is_reversed: true,
            is_paused: true,
            all: true,
            help: true,
            ..View::default()
        };
        assert_eq!(view, wanted);
        pressed(&mut view, "ssssssssrpah");
        assert_eq!(view, View::default(), "each turns off what it turned on, sorting begins again");
        assert_eq!(view.press(Key::Char('q'), 20), Asked::Quit);
        assert_eq!(view.press(Key::Interrupt, 20), Asked::Quit);
        assert_eq!(view.press(Key::Suspend, 20), Asked::Suspend);
    }

    #[test]
    fn a_filter_is_typed_until_enter_and_cleared_by_escape() {
        let mut view = View { offset: 7, ..View::default() };
        pressed(&mut view, "/Eqx");
        view.press(Key::Backspace, 20);
        assert_eq!((view.filter.as_str(), view.is_typing, view.offset), ("eq", true, 0));
        assert!(view.wants("xEQy") && !view.wants("eth0"));
        view.press(Key::Enter, 20);
        pressed(&mut view, "s");
        assert_eq!((view.filter.as_str(), view.is_typing, view.sort), ("eq", false, Sort::Name));
        view.press(Key::Escape, 20);
        assert!(view.filter.is_empty() && view.wants("eth0"));
        pressed(&mut view, "/");
        assert_eq!(view.press(Key::Interrupt, 20), Asked::Quit, "also while it is typed");
    }

    #[test]
    fn arrows_and_pages_scroll_and_never_above_the_first_line() {
        let mut view = View::default();
        let mut offset = |key| {
            view.press(key, 20);
            view.offset
        };
        assert_eq!([Key::Up, Key::Down, Key::PageDown, Key::Up].map(&mut offset), [0, 1, 21, 20]);
        assert_eq!([Key::PageUp, Key::PageUp, Key::Down, Key::Home].map(&mut offset), [0, 0, 1, 0]);
    }
}
