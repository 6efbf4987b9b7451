//! The terminal: unbuffered keys and a screen of its own. Both are restored at the end, even after a panic.

use super::line::{Line, Style};
use super::screen::Size;
use crate::failure::Failure;
use crate::output;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::stdio;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use std::env;
use std::io::{self, IsTerminal, Write};
use std::panic;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// Enters the alternate screen, without a cursor and without line wrapping; and leaves it.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const LEAVE: &str = "\x1b[?7h\x1b[?25h\x1b[?1049l";
/// The size of a screen if the terminal does not report it.
const UNKNOWN: Size = Size { columns: 80, rows: 24 };
const PLAIN: &str = "\x1b[0m";
/// The remedy if there is no terminal to draw on.
const INSTEAD: &str = "use netmem stat --interval 1";

/// Standard input and output while the program draws on them.
#[derive(Debug)]
pub struct Terminal {
    before: Termios,
    /// Set while the screen is in use, for a panic on any thread.
    is_ours: Arc<AtomicBool>,
    is_coloured: bool,
    /// The text on the screen.
    shown: String,
}

/// Checks that there is a terminal to draw on.
///
/// # Errors
/// [`Failure::Input`] with an alternative.
pub fn check() -> Result<(), Failure> {
    let dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    let why = match (io::stdout().is_terminal(), io::stdin().is_terminal()) {
        (false, _) => "standard output is not a terminal",
        (_, false) => "standard input, where keys come from, is not a terminal",
        _ if dumb => "TERM=dumb is a terminal that cannot be drawn on",
        _ => return Ok(()),
    };
    Err(Failure::Input(format!("netmem top: {why}: {INSTEAD}")))
}

/// Returns the columns of the terminal on standard output, or None if it is not a terminal.
pub fn columns() -> Option<usize> {
    let size = tcgetwinsize(stdio::stdout()).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.into())
}

impl Terminal {
    /// Takes over the terminal until the value is dropped.
    ///
    /// # Errors
    /// [`Failure::Input`] if there is none.
    pub fn open() -> Result<Terminal, Failure> {
        check()?;
        let before = tcgetattr(stdio::stdin()).map_err(|error| {
            Failure::input(format!("netmem top: the terminal's settings: {error}: {INSTEAD}"))
        })?;
        let is_ours = Arc::new(AtomicBool::new(false));
        let (ours, settings, usual) = (Arc::clone(&is_ours), before.clone(), panic::take_hook());
        // The panic's message must appear on the main screen.
        panic::set_hook(Box::new(move |panicked| {
            leave(&ours, &settings);
            usual(panicked);
        }));
        let mut terminal =
            Terminal { before, is_ours, is_coloured: output::is_coloured(), shown: String::new() };
        terminal.enter()?;
        Ok(terminal)
    }

    fn enter(&mut self) -> Result<(), Failure> {
        let mut raw = self.before.clone();
        raw.make_raw();
        self.is_ours.store(true, Relaxed);
        self.shown.clear();
        tcsetattr(stdio::stdin(), OptionalActions::Flush, &raw)
            .map_err(|error| Failure::run(format!("the terminal's settings: {error}")))?;
        output::print(ENTER)
    }

    /// Stops as other programs do at Ctrl-Z, with the terminal restored, until the shell continues it.
    ///
    /// # Errors
    /// [`Failure::Run`] if the terminal cannot be taken over again.
    pub fn suspend(&mut self) -> Result<(), Failure> {
        leave(&self.is_ours, &self.before);
        signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGTSTP)
            .map_err(|error| Failure::run(format!("cannot stop: {error}")))?;
        self.enter()
    }

    /// Returns the current size.
    pub fn size(&self) -> Size {
        match tcgetwinsize(stdio::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                Size { columns: size.ws_col.into(), rows: size.ws_row.into() }
            }
            _ => UNKNOWN,
        }
    }

    /// Shows the lines, unless the screen has them already.
    ///
    /// # Errors
    /// [`Failure::Run`] if the terminal is gone.
    pub fn draw(&mut self, lines: &[Line], size: Size) -> Result<(), Failure> {
        let text = painted(lines, size, self.is_coloured);
        if text == self.shown {
            return Ok(());
        }
        output::print(&text)?;
        self.shown = text;
        Ok(())
    }

    /// Returns the bytes of keys pressed within `wait`, which may be empty. Returns None if the terminal is gone.
    ///
    /// # Errors
    /// [`Failure::Run`] if it cannot be read.
    pub fn pressed(&self, wait: Duration) -> Result<Option<Vec<u8>>, Failure> {
        let failed = |error: Errno| Failure::run(format!("cannot read from the terminal: {error}"));
        let stdin = stdio::stdin();
        let mut ready = [PollFd::new(&stdin, PollFlags::IN)];
        let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
        match poll(&mut ready, Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => return Ok(Some(Vec::new())),
            Ok(_) => {}
            Err(error) => return Err(failed(error)),
        }
        let mut bytes = vec![0; 256];
        // Not through the buffer of the standard library: poll does not see the bytes that it has read ahead.
        match rustix::io::read(stdin, &mut bytes) {
            Ok(0) | Err(Errno::IO) => Ok(None),
            Ok(n) => {
                bytes.truncate(n);
                Ok(Some(bytes))
            }
            Err(Errno::INTR) => Ok(Some(Vec::new())),
            Err(error) => Err(failed(error)),
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        leave(&self.is_ours, &self.before);
    }
}

/// Restores the terminal, once. That fails only if the terminal is gone.
fn leave(is_ours: &AtomicBool, before: &Termios) {
    if is_ours.swap(false, Relaxed) {
        let mut out = io::stdout().lock();
        let _ = out.write_all(LEAVE.as_bytes()).and_then(|()| out.flush());
        let _ = tcsetattr(stdio::stdin(), OptionalActions::Drain, before);
    }
}

/// Returns the lines at their positions, and clears everything else.
fn painted(lines: &[Line], size: Size, is_coloured: bool) -> String {
    let mut text = String::new();
    for (at, line) in lines.iter().enumerate() {
        let style = match line.style {
            Style::Heading => "\x1b[1m",
            Style::Loss => "\x1b[31m",
            Style::Status => "\x1b[7m",
            Style::Plain => "",
        };
        text.push_str(&format!("\x1b[{};1H", at + 1));
        if is_coloured && !style.is_empty() {
            text.push_str(&format!("{style}{}{PLAIN}", line.text));
        } else {
            text.push_str(&line.text);
        }
        // After a line that fills its row, the cursor is still on the last character.
        if line.text.len() < size.columns {
            text.push_str("\x1b[K");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_stands_in_its_row_and_nothing_behind_it_stays() {
        let lines = [Line::new(Style::Loss, "abc", 4), Line::new(Style::Plain, "abcd", 4)];
        let size = Size { columns: 4, rows: 2 };
        assert_eq!(painted(&lines, size, false), "\x1b[1;1Habc\x1b[K\x1b[2;1Habcd");
        assert_eq!(painted(&lines[..1], size, true), "\x1b[1;1H\x1b[31mabc\x1b[0m\x1b[K");
    }
}
