//! Errors of a call to the lab: one line each, with the valid alternatives.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// A call that was rejected before any measurement, or a file that could not be read or written.
#[derive(Debug)]
pub enum LabError {
    /// No experiment of this name.
    UnknownExperiment {
        /// The given name, or empty if none was given.
        name: String,
        /// The names that exist.
        valid: Vec<&'static str>,
    },
    /// A setting that is not of the form `key=value`.
    NotASetting {
        /// The text as given.
        text: String,
    },
    /// A key that none of the chosen experiments has.
    UnknownKey {
        /// The key as given.
        key: String,
        /// The keys of the chosen experiments.
        valid: Vec<&'static str>,
    },
    /// A value that is not a whole number in the key's range.
    BadValue {
        /// The key.
        key: &'static str,
        /// The value as given.
        value: String,
        /// The smallest value allowed.
        min: u64,
        /// The largest value allowed.
        max: u64,
    },
    /// More rounds at least than at most.
    Rounds {
        /// The value of `rounds`.
        least: u64,
        /// The value of `rounds-max`.
        most: u64,
    },
    /// A file that `netmem lab run --json` did not write.
    Input {
        /// The file.
        path: PathBuf,
        /// The error in it.
        cause: String,
    },
    /// A file of the lab cannot be written.
    Output {
        /// The path of the file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// There is nothing to make a page of.
    NoReports {
        /// The paths without a report.
        from: Vec<PathBuf>,
    },
    /// The page would overwrite its own input.
    OutputIsInput {
        /// The file that is both.
        path: PathBuf,
    },
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownExperiment { name, valid } if name.is_empty() => {
                write!(f, "no experiment named: valid are {}, all", valid.join(", "))
            }
            Self::UnknownExperiment { name, valid } => {
                write!(f, "unknown experiment {name:?}: valid are {}, all", valid.join(", "))
            }
            Self::NotASetting { text } => write!(f, "bad setting {text:?}: write it as key=value"),
            Self::UnknownKey { key, valid } => {
                write!(f, "unknown key {key:?}: valid are {}", valid.join(", "))
            }
            Self::BadValue { key, value, min, max } => {
                write!(f, "bad value {value:?} for {key}: give a whole number from {min} to {max}")
            }
            Self::Rounds { least, most } => {
                write!(
                    f,
                    "rounds={least} is more than rounds-max={most}: give --set rounds-max={least} or more"
                )
            }
            Self::Input { path, cause } => {
                write!(
                    f,
                    "cannot read {}: {cause}; name a file that netmem lab run --json wrote",
                    path.display()
                )
            }
            Self::Output { path, source } => {
                write!(f, "cannot write {}: {source}; name a file that can be written", path.display())
            }
            Self::NoReports { from } => {
                let from: Vec<String> = from.iter().map(|path| path.display().to_string()).collect();
                let from = from.join(", ");
                write!(f, "no report in {from}: make one with netmem lab run all --json FILE")
            }
            Self::OutputIsInput { path } => {
                write!(f, "{} is an input of the page: give --out another name", path.display())
            }
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Output { source, .. } => Some(source),
            _ => None,
        }
    }
}
