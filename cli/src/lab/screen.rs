//! What a run of the lab shows while it lasts: reports on standard output, and on standard error how far it is. On a
//! terminal that is a bar; elsewhere a line for each experiment, and one for each time they are all set up anew.

use crate::failure::Failure;
use crate::output;
use crate::top::columns;
use indicatif::{ProgressBar, ProgressStyle};
use netmem_lab::{Progress, Remaining, table};
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Steps of the bar.
const STEPS: u64 = 1_000;

/// How long what is drawn stays at least: to draw takes a core from what is measured.
const REST: Duration = Duration::from_millis(200);

/// Reports and progress.
pub struct Screen {
    /// `None` where standard error is no terminal.
    bar: Option<ProgressBar>,
    /// Whether lines stand in for the bar: where one experiment runs, its report is soon enough.
    lines: bool,
    /// Whether an experiment has ended.
    pub measured: bool,
    /// How the reports were taken.
    pub printed: Result<(), Failure>,
    /// The set-up that the last line told of.
    told: usize,
    /// What was left when the turn at hand began, and when that was.
    remaining: Remaining,
    begun: Instant,
    /// When a round was drawn last.
    drawn: Instant,
}

impl Screen {
    /// For a run of several experiments, or of one.
    pub fn new(several: bool) -> Screen {
        let bar = io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("[{bar:24}] {wide_msg}");
            ProgressBar::new(STEPS).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        let lines = bar.is_none() && several;
        let (remaining, begun) = (Remaining::default(), Instant::now());
        Screen { bar, lines, measured: false, printed: Ok(()), told: 0, remaining, begun, drawn: begun }
    }

    /// Shows what the runner says.
    pub fn show(&mut self, progress: Progress<'_>) {
        match progress {
            Progress::Begin { experiment, setup, most, remaining, left: budget } => {
                (self.remaining, self.begun) = (remaining, Instant::now());
                let doing = format!("{}: set-up {setup}, at most {most}", experiment.name);
                if self.lines && (setup == 1 || setup > self.told) {
                    // Who reads no standard error misses only this.
                    let after = remaining.after(Duration::ZERO);
                    let bound =
                        budget.map(|most| format!(", at most {} min", most.as_secs().div_ceil(60).max(1)));
                    let left = left(budget.map_or(after, |most| after.min(most)));
                    let _ = writeln!(io::stderr(), "{doing}; {left}{}", bound.unwrap_or_default());
                }
                self.told = setup;
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

    /// Takes the bar away.
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

/// As exact as such a figure can be.
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
    fn the_time_left_is_told_as_roughly_as_it_is_known() {
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
