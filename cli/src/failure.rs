//! How a command fails: its lines on standard error, and its exit code.

use crate::log::{self, Level};
use std::fmt::Display;
use std::process::ExitCode;

/// Why a command did not succeed.
#[derive(Debug, PartialEq, Eq)]
pub enum Failure {
    /// What was asked for cannot be done: one line with the remedy. Exit code 2; nothing is left behind.
    Input(String),
    /// It was done, and this went wrong or did not add up. Exit code 1.
    Run(Vec<String>),
    /// A signal ended it before its time; what was finished is kept. Exit code 130, as of a shell's command that Ctrl-C ended.
    Interrupted,
}

impl Failure {
    /// Bad input or a set-up that failed.
    pub fn input(reason: impl Display) -> Failure {
        Failure::Input(reason.to_string())
    }

    /// One thing that went wrong while running.
    pub fn run(reason: impl Display) -> Failure {
        Failure::Run(vec![reason.to_string()])
    }

    /// Its lines.
    pub fn lines(&self) -> &[String] {
        match self {
            Failure::Input(line) => std::slice::from_ref(line),
            Failure::Run(lines) => lines,
            Failure::Interrupted => &[],
        }
    }

    /// Prints the lines, each folded to one, and gives the exit code.
    pub fn report(&self) -> ExitCode {
        let code = match self {
            Failure::Input(_) => 2,
            Failure::Run(_) => 1,
            Failure::Interrupted => 130,
        };
        for line in self.lines() {
            let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
            // The exit code says it too, where nobody reads.
            log::say(Level::Error, format_args!("error: {line}"));
        }
        ExitCode::from(code)
    }
}
