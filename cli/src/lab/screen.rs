//! The output of a lab run: reports on standard output, and progress on standard error. On a terminal the progress
//! is a bar. Otherwise it is a line for each experiment, and one for each time that all are set up again.

use super::signals;
use crate::failure::Failure;
use crate::log::{self, Level};
use crate::output;
use crate::top::columns;
use indicatif::{ProgressBar, ProgressStyle};
use netmem_lab::{Progress, Remaining, table};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Steps of the bar.
const STEPS: u64 = 1_000;

/// The minimum time between two drawings: drawing takes a core from the measurement.
const REST: Duration = Duration::from_millis(200);

/// The line after the first signal.
const ENDING: &str = "netmem: the run ends: what is finished is kept; a second Ctrl-C ends it at once, and what was measured is \
    lost";

/// Reports and progress.
pub struct Screen {
    /// `None` if standard error is not a terminal.
    bar: Option<ProgressBar>,
    /// True if lines replace the bar. With one experiment its report is enough.
    lines: bool,
    /// True if an experiment has ended.
    pub measured: bool,
    /// The result of printing the reports.
    pub printed: Result<(), Failure>,
    /// The set-up that the last line reported.
    reported: usize,
    /// The remaining time when the current turn began, and the time of that.
    remaining: Remaining,
    begun: Instant,
    /// The time at which a round was last drawn.
    drawn: Instant,
}

impl Screen {
    /// Makes the output of a run of several experiments, or of one.
    pub fn new(several: bool) -> Screen {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("[{bar:24}] {wide_msg}");
            ProgressBar::new(STEPS).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let lines = bar.is_none() && several;
        let (remaining, begun) = (Remaining::default(), Instant::now());
        Screen { bar, lines, measured: false, printed: Ok(()), reported: 0, remaining, begun, drawn: begun }
    }

    /// Prints, on the first signal, that the run ends, and what the next Ctrl-C does.
    ///
    /// # Errors
    /// [`Failure::Input`] if the handler cannot be installed.
    pub fn announce_end(&self) -> Result<(), Failure> {
        let bar = self.bar.clone();
        signals::when_asked(move || {
            let say = || log::say(Level::Info, ENDING);
            bar.map_or_else(say, |bar| bar.suspend(say));
        })
    }

    /// Shows a step of the runner.
    pub fn show(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Begin { experiment, setup, most, remaining, left: budget } => {
                (self.remaining, self.begun) = (remaining, Instant::now());
                let doing = format!("{}: set-up {setup}, at most {most}", experiment.name);
                if self.lines && (setup == 1 || setup > self.reported) {
                    // A reader without standard error misses only this.
                    let after = remaining.after(Duration::ZERO);
                    let bound =
                        budget.map(|most| format!(", at most {} min", most.as_secs().div_ceil(60).max(1)));
                    let left = left(budget.map_or(after, |most| after.min(most)));
                    let _ = writeln!(io::stderr(), "{doing}; {left}{}", bound.unwrap_or_default());
                }
                self.reported = setup;
                self.draw(&doing);
            }
            Progress::Round { experiment, done, of } if self.drawn.elapsed() >= REST => {
                self.drawn = Instant::now();
                self.draw(&format!("{}: round {done} of {of}", experiment.name));
            }
            Progress::Round { .. } => {}
            Progress::End(report) => {
                self.measured = true;
                let print = || output::print(&format!("{}\n", table::text(report, columns())));
                let printed = match &self.bar {
                    Some(bar) => bar.suspend(print),
                    None => print(),
                };
                if self.printed.is_ok() {
                    self.printed = printed;
                }
            }
        }
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }

    fn draw(&self, doing: &str) {
        let Some(bar) = &self.bar else { return };
        let so_far = self.begun.elapsed();
        bar.set_position((self.remaining.share_done(so_far) * STEPS as f64) as u64);
        bar.set_message(format!("{doing}; {}", left(self.remaining.after(so_far))));
    }
}

/// Formats a remaining time with a plausible precision.
fn left(remaining: Duration) -> String {
    match remaining.as_secs() {
        0..10 => "a few seconds left".to_owned(),
        seconds @ 10..90 => format!("about {} s left", seconds.next_multiple_of(10)),
        seconds => format!("about {} min left", (seconds + 30) / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_rounded_to_its_precision() {
        for (seconds, text) in [
            (0, "a few seconds left"),
            (11, "about 20 s left"),
            (89, "about 90 s left"),
            (90, "about 2 min left"),
            (449, "about 7 min left"),
        ] {
            assert_eq!(left(Duration::from_secs(seconds)), text);
        }
    }
}
