//! Standard output. A closed pipe ends the command without a line, and is no panic.

use crate::failure::Failure;
use crate::stop;
use netmem::system::stderr::Stream;
use netmem_ports::PortSpec;
use std::env;
use std::io::{self, ErrorKind, IsTerminal};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Number of times that a reader which does not read is waited for once the run is asked to end: five seconds or
/// more.
const TRIES_MAX: u32 = 1000;

/// True if a port writes a capture to standard output.
static IS_CAPTURE: AtomicBool = AtomicBool::new(false);

/// Redirects printed text to standard error from now on, if one of the ports writes a capture to standard output.
pub fn leave_to_capture(ports: &[PortSpec]) {
    IS_CAPTURE.store(ports.iter().any(PortSpec::writes_standard_output), Relaxed);
}

/// Writes all of `text` to standard output, or to standard error if standard output has a capture. Once a signal
/// has asked the run to end, a reader that does not read is waited for some seconds only.
///
/// # Errors
/// [`Failure::Unread`] if the reader has closed the pipe, and [`Failure::Run`] if the text cannot be written otherwise.
pub fn print(text: &str) -> Result<(), Failure> {
    if IS_CAPTURE.load(Relaxed) {
        return write(Stream::of(io::stderr()), "error", text);
    }
    write(Stream::of(io::stdout()), "output", text)
}

fn write(mut to: Stream, name: &str, text: &str) -> Result<(), Failure> {
    let mut waited = 0;
    let goes_on = || {
        waited += u32::from(stop::is_asked());
        waited < TRIES_MAX
    };
    to.write_while(text.as_bytes(), goes_on).map_err(|error| failure(&error, name))
}

/// Returns the failure of a write to standard `name`.
pub fn failure(error: &io::Error, name: &str) -> Failure {
    let why = match error.kind() {
        ErrorKind::BrokenPipe => return Failure::Unread,
        ErrorKind::WouldBlock => "it is not read".to_owned(),
        _ => error.to_string(),
    };
    Failure::run(format!("cannot write to standard {name}: {why}"))
}

/// Returns true if standard output may be coloured: it is a terminal with colours, and NO_COLOR is not set.
pub fn is_coloured() -> bool {
    let is_set = |name| env::var_os(name).is_some_and(|value| !value.is_empty());
    io::stdout().is_terminal() && !is_set("NO_COLOR") && env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// Returns a count with a comma every three digits: `2,043,575`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Returns a number of at most six characters: 12345, 1234k, 12.3M.
pub fn short(number: f64) -> String {
    match number {
        n if n >= 1e10 => format!("{:.1}G", n / 1e9),
        n if n >= 1e8 => format!("{:.0}M", n / 1e6),
        n if n >= 1e7 => format!("{:.1}M", n / 1e6),
        n if n >= 1e5 => format!("{:.0}k", n / 1e3),
        n if n >= 100.0 || n.fract() == 0.0 => format!("{n:.0}"),
        n => format!("{n:.1}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_has_a_comma_every_three_digits() {
        let texts = [0, 999, 1_000, 123_456, 18_446_744_073_709_551_615].map(thousands);
        assert_eq!(texts, ["0", "999", "1,000", "123,456", "18,446,744,073,709,551,615"]);
    }

    #[test]
    fn a_number_never_has_more_than_six_characters() {
        for (number, text) in [
            (0.0, "0"),
            (0.25, "0.2"),
            (99.96, "100.0"),
            (99_999.0, "99999"),
            (100_000.0, "100k"),
            (9_999_999.0, "10000k"),
            (12_345_678.0, "12.3M"),
            (9_999_949_999.0, "10000M"),
            (20e9, "20.0G"),
        ] {
            assert_eq!(short(number), text);
        }
    }
}
